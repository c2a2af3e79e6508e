"""The data steward's acts: register data, open and raise budgets, verify the ledger, see true
values."""

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
    forget_head,
    measured,
    register,
    registered_catalog,
    truth,
    verify_ledger,
)
from dither.steward.schemas import (
    check_source,
    draft_catalog,
    list_source_problems,
    read_column_names,
    recognise_source,
)

__all__ = [
    "Registration",
    "anchor_line",
    "check_source",
    "clear_incidents",
    "draft_catalog",
    "forget_head",
    "list_source_problems",
    "measured",
    "open_ledger",
    "open_pot",
    "population_notes",
    "raise_cap",
    "read_column_names",
    "recognise_source",
    "register",
    "registered_catalog",
    "reissue",
    "truth",
    "verify_ledger",
]
