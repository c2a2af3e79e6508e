"""The data steward's acts.

Register data, open and raise budgets, verify the ledger, see true values.
"""

from dither.steward.budgets import (
    clear_incidents,
    open_ledger,
    open_pot,
    population_notes,
    raise_cap,
    reissue,
)
from dither.steward.registration import (
    Registration,
    anchor_line,
    check_source,
    draft_catalog,
    forget_head,
    register,
    registered_catalog,
    verify_ledger,
)
from dither.steward.stages import measured, truth

__all__ = [
    "Registration",
    "anchor_line",
    "check_source",
    "clear_incidents",
    "draft_catalog",
    "forget_head",
    "measured",
    "open_ledger",
    "open_pot",
    "population_notes",
    "raise_cap",
    "register",
    "registered_catalog",
    "reissue",
    "truth",
    "verify_ledger",
]
