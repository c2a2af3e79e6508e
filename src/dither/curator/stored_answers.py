"""Stored answers that cost their asker nothing. No data is read and nothing is ever charged."""

from __future__ import annotations

from fractions import Fraction

from dither.canonical import fraction_text
from dither.errors import ParameterError
from dither.privacy.kernel.kernel import Priced, Release
from dither.privacy.kernel.release import from_bytes
from dither.privacy.ledger import Found, Ledger
from dither.privacy.ledger.repeats import Repeat, read_repeat
from dither.protocol.repeat_messages import RepeatStored, StillStored

NOT_STORED = "no answer to this question at this price is stored for this budget: ask it first"


def find_free_answer(ledger: Ledger, key: str, pot: str) -> Repeat | None:
    """Find the stored answer under a key that the pot gets for free, with its view and balance.

    Where groups are kept apart, it is one that every pot on the path has paid for. Once found, the
    head of the ledger is at its newest entry: no older copy can forget who paid.
    """
    stored = read_repeat(ledger, key, pot)
    if stored is None:
        return None
    is_separate = any(outer.policy == "separate" for outer in stored.view.path)
    if is_separate and stored.answer.owing:
        return None
    if not stored.is_anchored:
        ledger.ensure_anchored()
    return stored


def repeat_release(ledger: Ledger, priced: Priced) -> Release | None:
    """The stored answer to a priced request as a free release; None where it would cost."""
    stored = find_free_answer(ledger, priced.key, priced.request.pot)
    if stored is None:
        return None
    _, answer, balances, _ = stored
    return Release(
        answer.release_id,
        priced,
        from_bytes(answer.stored.arrow_bytes),
        Fraction(0),
        balances.spent,
        balances.cap,
        answer.released_at,
        {},
        repeated=True,
    )


def confirm_repeat(ledger: Ledger, call: RepeatStored) -> tuple[Found, StillStored]:
    """What a gateway needs to hand an answer out again that it kept; ParameterError otherwise."""
    stored = find_free_answer(ledger, call.key, call.pot)
    if stored is None:
        raise ParameterError(NOT_STORED)
    view, answer, balances, _ = stored
    if answer.release_id != call.release_id or view.registered is None:
        raise ParameterError(NOT_STORED)
    still = StillStored(
        version=view.registered.version,
        spent_after=fraction_text(balances.spent),
        cap=fraction_text(balances.cap),
    )
    return answer, still
