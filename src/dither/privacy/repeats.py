"""Free repeats: the stored release where one answers the request (privacy-rules 12). No data is read."""

from __future__ import annotations

from fractions import Fraction

from dither.privacy.ledger import Ledger
from dither.privacy.release import Priced, Release, from_bytes


def repeated(ledger: Ledger, priced: Priced, now: str) -> Release | None:
    """The stored answer, None where there is none.

    Global: the dataset's total has paid, and it alone is promised, so the answer is free to all. Separate: pots on the
    way up that have not paid do so now, and receive the same answer.
    """
    asked = priced.request.pot
    path = priced.view.path
    found = ledger.find(priced.key, asked) if path else None
    if found is None:
        return None
    seq, at, values = str(found.seq), found.released_at, from_bytes(found.stored.arrow_bytes)
    if path[-1].policy == "separate" and found.owing:
        paid = ledger.share(found.seq, asked, released_at=now)
        standing = (paid.charge, paid.spent_after, paid.cap)
        return Release(seq, priced, values, *standing, at, paid.charges, repeated=True)
    pot = ledger.pot(asked, under_way=False)
    return Release(seq, priced, values, Fraction(0), pot.spent, pot.cap, at, repeated=True)
