"""What a ledger stores for a request that comes again; a curator sends it for free."""

from __future__ import annotations

from typing import NamedTuple

from dither.privacy.ledger.pots import Pot
from dither.privacy.ledger.records import Found, LedgerView
from dither.privacy.ledger.store import Ledger


class Repeat(NamedTuple):
    """A stored answer, with the view of the pot that asks and its settled balance.

    `is_anchored`: the head was at the newest entry of all that was read.
    """

    view: LedgerView
    answer: Found
    balance: Pot
    is_anchored: bool


def read_repeat(ledger: Ledger, request_hash: str, pot: str) -> Repeat | None:
    """Read all that a repeat needs, in one transaction.

    None where the pot is not open or nothing is stored. Raises RefusedError where the ledger lacks
    the entry that its head names.
    """
    anchor = ledger._head.read()  # before the snapshot, which is then as new as the head
    with ledger._database.transaction(write=False) as transaction:
        terms = ledger._terms_of(transaction)
        answer = ledger._find(transaction, terms, request_hash, pot) if pot in terms else None
        if answer is None:
            return None
        return Repeat(
            ledger._view(transaction, terms, pot),
            answer,
            ledger._settled(transaction, terms, [pot])[pot],
            anchor is not None and not ledger._follow(transaction, anchor).entries,
        )
