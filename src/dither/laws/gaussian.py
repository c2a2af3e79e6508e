"""The error law of integer Gaussian noise."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from dither.canonical import Number
from dither.errors import ParameterError
from dither.laws.base import GUARD, AdditiveErrorLaw, Floats, from_tails, read_miss, tail_size
from dither.stored import stored

_TABLED_UP_TO = 1 << 12
_LARGE_SIGMA = 64
"""From here on P(noise <= k) is the normal's at k + 1/2, to 3e-6."""


@stored("gaussian_error", sigma="sigma")
@dataclass(frozen=True)
class GaussianErrorLaw(AdditiveErrorLaw):
    """P(z) proportional to exp(-z^2 / 2 sigma^2).

    >>> law = GaussianErrorLaw(Fraction(10))
    >>> round(law.variance, 6), law.interval(0.95)
    (100.0, 20)
    """

    formula: ClassVar[str] = "P(z) ~ exp(-z^2 / 2 scale^2) on multiples of the resolution"

    sigma: Fraction

    @cached_property
    def _mass(self) -> Floats:
        """Tabulate P(0), P(1), ... to where float64 ends."""
        s = float(self.sigma)
        k = np.arange(0, math.ceil(38 * s) + 2, dtype=np.float64)
        weights = np.exp(-(k * k) / (2 * s * s))
        mass: Floats = weights / (2 * weights.sum() - 1)
        return mass

    @property
    def _tabled(self) -> bool:
        return self.sigma <= _TABLED_UP_TO

    @property
    def noise_scale(self) -> Fraction:
        """Sigma."""
        return self.sigma

    @property
    def positive_mean(self) -> float:
        """That of a normal variable."""
        return 1 / math.sqrt(2 * math.pi)

    @property
    def variance(self) -> float:
        """Compute the variance: at most sigma^2, and sigma^2 to sixteen digits from sigma = 2
        on."""
        if not self._tabled:
            return float(self.sigma) ** 2
        k = np.arange(len(self._mass), dtype=np.float64)
        return 2 * float(np.sum(k * k * self._mass))

    def pmf(self, z: int) -> float:
        """Compute P(noise = z), from the table or, for large sigma, by the density."""
        if self._tabled:
            return float(self._mass[abs(z)]) if abs(z) < len(self._mass) else 0.0
        s = float(self.sigma)
        return math.exp(-((z / s) ** 2) / 2) / (s * math.sqrt(2 * math.pi))

    def tail(self, t: int) -> float:
        """Compute P(|noise| >= t), or above it.

        Past the table by P(noise >= t) <= P(N(0, sigma^2) >= t - 1).
        """
        if t <= 0:
            return 1.0
        if self._tabled:
            return 2 * float(np.sum(self._mass[t:][::-1]))
        return math.erfc((t - 1) / float(self.sigma) / math.sqrt(2))

    def above(self, t: Floats) -> Floats:
        """Compute P(noise > t) for whole t, or a little more."""
        size = tail_size(t)
        sigma = float(self.sigma)
        if sigma <= _LARGE_SIGMA:
            values = np.arange(int(40 * sigma) + 2, dtype=np.float64)
            mass = np.exp(-0.5 * (values / sigma) ** 2)
            mass /= 2 * mass.sum() - 1
            table = np.append(np.cumsum(mass[::-1])[::-1], 0.0)
            tails = table[np.minimum(size, len(table) - 1).astype(np.int64)]
            return from_tails(t, tails, tails)
        # sums of a falling function lie between integrals:
        # P(N >= t) <= P(noise >= t) <= P(N >= t - 1)
        upper, lower = (0.5 * _erfc((size - less) / sigma / np.sqrt(2)) for less in (1, 0))
        return from_tails(t, upper, lower)

    def quantile(self, p: float) -> int:
        """Find the smallest z with P(noise <= z) >= p, up to the rounding of float64.

        Past the table it may be one above.
        """
        if not 0 < p < 1:
            raise ParameterError(f"p must lie in (0, 1), got {p}")
        if not self._tabled:
            return math.ceil(float(self.sigma) * float(_ndtri(p)))
        both = np.concatenate([self._mass[:0:-1], self._mass])
        index = int(np.searchsorted(np.cumsum(both), p * (1 - GUARD)))
        return index - (len(self._mass) - 1)

    def inverse(self, shares: Floats) -> Floats:
        """Find the smallest z with P(noise <= z) >= share, for every share."""
        sigma = float(self.sigma)
        if sigma > _LARGE_SIGMA:
            wide: Floats = np.rint(sigma * _ndtri(shares))
            return wide
        farthest = math.ceil(9 * sigma) + 1
        values = np.arange(-farthest, farthest + 1)
        mass = np.exp(-0.5 * (values / sigma) ** 2)
        running = np.cumsum(mass) / mass.sum()
        return (
            np.minimum(np.searchsorted(running, shares), 2 * farthest).astype(np.float64) - farthest
        )

    def interval(self, confidence: Number) -> int:
        """Find the half-width that holds the noise with at least this probability."""
        miss = read_miss(confidence)
        half = max(0, math.floor(float(self.sigma) * -float(_ndtri(miss * (1 - GUARD) / 2))) - 2)
        while self.tail(half + 1) > miss:
            half += 1
        return half


def _erfc(values: Floats) -> Floats:
    """Compute the complementary error function; SciPy is imported when it is needed."""
    from scipy.special import erfc

    tails: Floats = erfc(values)
    return tails


def _ndtri(shares: Any) -> Any:
    """The quantile of the standard normal law."""
    from scipy.special import ndtri

    return ndtri(shares)
