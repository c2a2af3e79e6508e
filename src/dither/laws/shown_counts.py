"""The error law of a count that a threshold let through: `CountedKeys` releases it.

A key of n owners is shown where v = n + Z reaches the threshold, and v is then released. Given that
it is shown, Z is no longer symmetric about 0: of a key with few owners v is too high. So the upper
end is v + h as ever, since less of Z lies below -h, and the lower end reaches further down. Proof:
docs/proofs/key-selection.md#noisy-counts-of-shown-keys.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from dither.canonical import Number
from dither.laws.base import Floats, read_miss
from dither.laws.gaussian import GaussianErrorLaw
from dither.stored import stored

_ROUNDING = 1e-9
"""More than float64 loses in a ratio of two sums of a falling series."""


@stored("shown_count", threshold="threshold")
@dataclass(frozen=True)
class ShownCountLaw(GaussianErrorLaw):
    """Integer Gaussian noise on a number of owners, given that their sum reached a threshold.

    >>> from fractions import Fraction
    >>> law = ShownCountLaw(Fraction(10), 54)
    >>> law.interval(0.95), law.find_lower_ends([54, 75, 300], 0.95)
    (20, [1, 52, 280])
    """

    formula: ClassVar[str] = (
        "P(z) ~ exp(-z^2 / 2 scale^2) on whole numbers, given that the count reached the threshold"
    )

    threshold: int

    @cached_property
    def _tails(self) -> Floats:
        """P(Z >= k) up to a factor, from k = 0 to where float64 ends; then 0."""
        k = np.arange(math.ceil(38 * float(self.sigma)) + 2, dtype=np.float64)
        weights = np.exp(-0.5 * (k / float(self.sigma)) ** 2)
        tails: Floats = np.append(np.cumsum(weights[::-1])[::-1], 0.0)
        return tails

    def _tail_from(self, start: int) -> float:
        """P(Z >= start), up to the same factor."""
        if start > 0:
            return float(self._tails[min(start, len(self._tails) - 1)])
        whole = 2 * float(self._tails[0]) - 1  # the weight of 0 is 1
        return whole - float(self._tails[min(1 - start, len(self._tails) - 1)])

    def find_lower_ends(self, counts: Sequence[int], confidence: Number) -> list[int]:
        """The lower end of the interval of every released count.

        It is the smallest n >= 1 with P(Z >= v - n) > miss/2 P(Z >= threshold - n). The ratio of
        the two falls from n to n - 1, as Z is log-concave: bisection finds it.
        """
        share = read_miss(confidence) / 2 * (1 - _ROUNDING)
        return [self._find_lower_end(count, share) for count in counts]

    def _find_lower_end(self, count: int, share: float) -> int:
        """The lower end of one count; `share` is what may miss below."""
        low = max(0, count - len(self._tails))
        high = count
        while high - low > 1:
            middle = (low + high) // 2
            if self._tail_from(count - middle) > share * self._tail_from(self.threshold - middle):
                high = middle
            else:
                low = middle
        return high
