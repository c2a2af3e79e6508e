"""The median with noise scaled to smooth sensitivity. Teaching only: its scale depends on the data
and may never leave.

`python examples/teaching/smooth_median.py` audits it.

For neighbours that *replace* one of n values in [0, largest], the local sensitivity at distance k
is LS^(k) = max over 0 <= t <= k + 1 of x_(m+t) - x_(m+t-k-1), places outside counted as 0 and
`largest` (the formula that the book prints misses 50 of 75 brute-force cases), and S = max over k
of e^(-beta k) LS^(k). Then median + (2 S / epsilon) Laplace with beta = epsilon / (2 ln(2 / delta))
is (epsilon, delta)-DP. No interval is returned: it would tell S. Proof:
docs/proofs/teaching.md#smooth-sensitivity-median.

>>> even = SmoothMedian(epsilon=1.0, delta=1e-6, largest=1000)
>>> round(even.smooth_sensitivity(list(range(0, 1001, 10))), 1)
110.5
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dither.audit.shipped_mechanisms import Subject
from dither.errors import ParameterError
from dither.privacy.losses import Approx
from dither.privacy.noise import Words, discrete_laplace

_UNIT = 1 << 30


@dataclass(frozen=True)
class SmoothMedian:
    """For teaching: (epsilon, delta)-DP under replace, one value per unit, in real arithmetic."""

    epsilon: float
    delta: float
    largest: int
    neighbours: str = "replace"

    def __post_init__(self) -> None:
        if self.neighbours != "replace":
            raise ParameterError(
                "the smooth-sensitivity median holds for replaced values only, one per unit"
            )
        if not (self.epsilon > 0 and 0 < self.delta < 1 and self.largest > 0):
            raise ParameterError("epsilon and largest must be positive, delta in (0, 1)")

    @property
    def beta(self) -> float:
        return self.epsilon / (2 * math.log(2 / self.delta))

    def local_sensitivity(self, values: Sequence[int], distance: int) -> int:
        """How far the median can move by one more replacement after `distance` of them."""
        ordered = np.sort(np.clip(np.asarray(values, np.int64), 0, self.largest))
        middle = (len(ordered) + 1) // 2 - 1
        reach = distance + 2
        padded = np.concatenate([np.zeros(reach, np.int64), ordered, np.full(reach, self.largest)])
        upper = padded[middle + reach : middle + reach + distance + 2]
        lower = padded[middle + reach - distance - 1 : middle + reach + 1]
        return int((upper - lower).max())

    def smooth_sensitivity(self, values: Sequence[int]) -> float:
        """max over k of e^(-beta k) LS^(k); later k cannot matter once e^(-beta k) largest is below
        the best."""
        best, distance = 0.0, 0
        while math.exp(-self.beta * distance) * self.largest > best and distance <= len(values):
            best = max(
                best, math.exp(-self.beta * distance) * self.local_sensitivity(values, distance)
            )
            distance += 1
        return best

    def release(self, values: Sequence[int], *, source: Words | None = None) -> float:
        """The noisy median."""
        if not len(values):
            raise ParameterError("the median of no values has no smooth sensitivity")
        ordered = sorted(min(max(int(value), 0), self.largest) for value in values)
        noise = discrete_laplace(_UNIT, source=source) / _UNIT
        median = ordered[(len(ordered) + 1) // 2 - 1]
        return float(median + 2 * self.smooth_sensitivity(values) / self.epsilon * noise)


def make_subject() -> Subject:
    """The mechanism for the auditor, in the arithmetic that its proof is about."""
    mechanism = SmoothMedian(epsilon=1.0, delta=0.01, largest=100)

    def release_rounded(values: list[int]) -> int:
        """The proof is about real numbers, so the last bits of the double are not covered by the
        claim."""
        return round(mechanism.release(values))

    claim = Approx(Fraction(1), Fraction(1, 100), neighbours="replace")
    return Subject(
        "SmoothMedian", release_rounded, ([0] * 11, [0] * 10 + [100]), claim, 0.02, False
    )


if __name__ == "__main__":
    print(make_subject().audit(2_000, 1e-9))
