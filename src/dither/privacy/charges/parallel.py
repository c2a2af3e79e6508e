"""Parallel composition: what the parts of one partition cost together.

One unit lies in one part, so under add/remove only that part's total counts, whichever it is. Under
replace a unit may leave one part and enter another, so two totals count. Proof:
docs/proofs/filters.md, theorem 5 (rule parts-follow-the-unit).
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

from dither.privacy.losses import Neighbours


def sum_largest(totals: Iterable[Fraction], neighbours: Neighbours) -> Fraction:
    """Return the largest total under add/remove; the sum of the two largest under replace.

    >>> totals = [Fraction(1, 2), Fraction(1, 3), Fraction(1, 6)]
    >>> sum_largest(totals, "add_remove"), sum_largest(totals, "replace")
    (Fraction(1, 2), Fraction(5, 6))
    """
    count = 2 if neighbours == "replace" else 1
    return sum(sorted(totals, reverse=True)[:count], Fraction(0))
