"""Free repeats: the stored release that answers a request (rule values-for-payers).

No data is read.
"""

from __future__ import annotations

from fractions import Fraction

from dither.errors import RefusedError
from dither.privacy.kernel.release import Priced, Release, from_bytes
from dither.privacy.ledger import Charge, Found, Ledger


def repeated(ledger: Ledger, priced: Priced, now: str) -> Release | None:
    """Return the stored answer to a question; None where there is none. It may charge.

    With the pot policy `global` the answer is free to all: the dataset's total has paid, and it
    alone is promised. With `separate`, pots on the way up that have not paid are charged now, and
    receive the same answer; RefusedError where one cannot pay.
    """
    pot_name = priced.request.pot
    path = priced.view.path
    answer = ledger.find(priced.key, pot_name) if path else None
    if answer is None:
        return None
    if path[-1].policy == "separate" and answer.owing:
        import pyarrow  # noqa: F401 - what reads the answer fails before the charge, if it does

        try:
            paid = ledger.share(answer.seq, pot_name, released_at=now)
        except RefusedError:
            answer = ledger.find(priced.key, pot_name)
            # where nothing is owing, another question of this pot paid for it meanwhile
            if answer is None or answer.owing:
                raise
        else:
            return _release(answer, priced, paid.charge, paid.spent_after, paid.cap, paid.charges)
    ledger.ensure_anchored()
    pot = ledger.pot(pot_name, under_way=False)
    return _release(answer, priced, Fraction(0), pot.spent, pot.cap, {})


def _release(
    answer: Found,
    priced: Priced,
    charged: Fraction,
    spent: Fraction,
    cap: Fraction,
    charges: dict[str, Charge],
) -> Release:
    """Make a Release from a stored answer; `charged` is what this repeat costs."""
    return Release(
        answer.release_id,
        priced,
        from_bytes(answer.stored.arrow_bytes),
        charged,
        spent,
        cap,
        answer.released_at,
        charges,
        repeated=True,
    )
