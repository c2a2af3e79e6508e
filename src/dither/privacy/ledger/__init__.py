"""The ledger: pots, charges and releases, durable and hash-chained (docs/reference/ledger.md)."""

from dither.privacy.charges.rules import PURE, Charge, Rule, charge, charge_pure
from dither.privacy.ledger.head import default_head_path
from dither.privacy.ledger.location import Location
from dither.privacy.ledger.pots import Pot
from dither.privacy.ledger.records import (
    Committed,
    Found,
    Incident,
    LedgerView,
    Registered,
    Reservation,
    Stored,
)
from dither.privacy.ledger.store import Ledger

__all__ = [
    "PURE",
    "Charge",
    "Committed",
    "Found",
    "Incident",
    "Ledger",
    "LedgerView",
    "Location",
    "Pot",
    "Registered",
    "Reservation",
    "Rule",
    "Stored",
    "charge",
    "charge_pure",
    "default_head_path",
]
