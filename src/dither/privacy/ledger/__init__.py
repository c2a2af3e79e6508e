"""The ledger: pots, charges and releases, durable and hash-chained (docs/reference/ledger.md)."""

from dither.privacy.ledger.head import default_head_path
from dither.privacy.ledger.pots import Pot, charge_pure
from dither.privacy.ledger.records import Committed, Incident, Record, Registered, Reservation, Stored
from dither.privacy.ledger.store import Ledger
from dither.privacy.ledger.verify import Report, verify

__all__ = [
    "Committed",
    "Incident",
    "Ledger",
    "Pot",
    "Record",
    "Registered",
    "Report",
    "Reservation",
    "Stored",
    "charge_pure",
    "default_head_path",
    "verify",
]
