"""Stored answers to requests that come again, which a curator sends for free."""

from __future__ import annotations

from dither.privacy.ledger.pots import Pot
from dither.privacy.ledger.records import Found, LedgerView
from dither.privacy.ledger.store import Ledger


def read_repeat(
    ledger: Ledger, request_hash: str, pot: str
) -> tuple[LedgerView, Found, Pot] | None:
    """Read the view of a pot, the stored answer to a request and the settled balance at once.

    None where the pot is not open or nothing is stored.
    """
    with ledger._database.transaction(write=False) as transaction:
        terms = ledger._terms_of(transaction)
        answer = ledger._find(transaction, terms, request_hash, pot) if pot in terms else None
        if answer is None:
            return None
        balance = ledger._settled(transaction, terms, [pot])[pot]
        return ledger._view(transaction, terms, pot), answer, balance
