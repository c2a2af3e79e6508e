"""The data steward's acts.

Register data, open and raise budgets, verify the ledger, see true values.
"""

from dither.steward.backup import Restored, close_budgets, make_backup, restore_backup
from dither.steward.budgets import (
    check_purpose,
    clear_incidents,
    list_lineages,
    open_ledger,
    open_pot,
    population_notes,
    raise_cap,
    read_registered,
    reissue,
)
from dither.steward.discarding import discard, list_discarded
from dither.steward.engines import write_postgres_grants
from dither.steward.machine import MachineDataset, list_datasets
from dither.steward.registration import (
    Registration,
    anchor_line,
    forget_head,
    register,
    registered_catalog,
    verify_ledger,
)
from dither.steward.schemas import (
    SourceFiles,
    check_source,
    draft_catalog,
    list_source_problems,
    read_column_names,
    recognise_source,
)
from dither.steward.stages import measured, truth
from dither.steward.suspensions import Suspension, read_suspension

__all__ = [
    "MachineDataset",
    "Registration",
    "Restored",
    "SourceFiles",
    "Suspension",
    "anchor_line",
    "check_purpose",
    "check_source",
    "clear_incidents",
    "close_budgets",
    "discard",
    "draft_catalog",
    "forget_head",
    "list_datasets",
    "list_discarded",
    "list_lineages",
    "list_source_problems",
    "make_backup",
    "measured",
    "open_ledger",
    "open_pot",
    "population_notes",
    "raise_cap",
    "read_column_names",
    "read_registered",
    "read_suspension",
    "recognise_source",
    "register",
    "registered_catalog",
    "reissue",
    "restore_backup",
    "truth",
    "verify_ledger",
    "write_postgres_grants",
]
