"""What a ledger stores for a request that comes again; a curator sends it for free."""

from __future__ import annotations

from typing import NamedTuple

from dither.errors import RefusedError
from dither.privacy.ledger import rows
from dither.privacy.ledger.location import missing_head
from dither.privacy.ledger.pots import Pot
from dither.privacy.ledger.records import Found, LedgerView
from dither.privacy.ledger.store import Ledger
from dither.rules import PrivacyRule


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
    the entry that its head names, and where it has no head: it may be an older copy.
    """
    anchor = ledger._head.read()  # before the snapshot, which is then as new as the head
    with ledger._database.transaction(write=False) as transaction:
        terms = ledger._terms_of(transaction)
        answer = ledger._find(transaction, terms, request_hash, pot) if pot in terms else None
        if answer is None:
            return None
        if anchor is None:
            raise RefusedError(
                missing_head(ledger._head.path, rows.last(transaction)), rule=PrivacyRule.ROLLBACK
            )
        return Repeat(
            ledger._view(transaction, terms, pot),
            answer,
            ledger._settled(transaction, terms, [pot])[pot],
            not ledger._follow(transaction, anchor).entries,
        )
