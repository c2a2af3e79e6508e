"""Misses of a dataset's schedule: how often a question outlasted its slot.

Each told one bit and lengthened the slots of everybody for ever. So they are entries of the ledger:
they go with its backups and heads, and a curator on another machine goes on from the same number.
"""

from __future__ import annotations

from dither.privacy.ledger import rows
from dither.privacy.ledger.database import Transaction
from dither.privacy.ledger.store import Ledger


def count_misses(ledger: Ledger) -> int:
    """How many misses the ledger has."""
    with ledger._database.transaction(write=False) as transaction:
        return _count(transaction)


def add_miss(ledger: Ledger) -> None:
    """Append a miss."""
    with ledger._appending() as (transaction, append):
        append("miss", {"number": _count(transaction) + 1})


def _count(transaction: Transaction) -> int:
    return sum(1 for _ in rows.bodies(transaction, "miss"))
