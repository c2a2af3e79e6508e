"""The error law of integer noise: what a reader of the answer may rely on. Public; no data enters.

`interval(c)` is the smallest whole number w whose P(|noise| <= w) certainly reaches c: coverage is at least the level,
also after the rounding of float64, for which the miss 1 - c is made smaller by one part in 1e12.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from dither.canonical import Number, exact
from dither.errors import ParameterError

_GUARD = 1e-12
_TABLED_UP_TO = 1 << 12


def _miss(confidence: Number) -> float:
    """1 - confidence, a little less, from the exact number: 1 - 0.99999999999999999999 is not 0."""
    level = exact(confidence, "confidence")
    if not 0 < level < 1:
        raise ParameterError(f"confidence must lie in (0, 1), got {confidence}: choose e.g. 0.95")
    if level > 1 - Fraction(1, 10**280):
        raise ParameterError("confidence must be at most 1 - 1e-280: choose e.g. 0.95")
    return float(1 - level) * (1 - _GUARD)


@dataclass(frozen=True)
class LaplaceError:
    """P(z) = (1-a)/(1+a) a^|z|, a = exp(-1/scale).

    >>> law = LaplaceError(Fraction(2))
    >>> round(law.variance, 4), law.interval(0.95)
    (7.8354, 6)
    """

    scale: Fraction

    @property
    def variance(self) -> float:
        """2a / (1-a)^2, a little below the continuous 2 scale^2."""
        rate = 1 / float(self.scale)
        return 2 * math.exp(-rate) / math.expm1(-rate) ** 2

    def pmf(self, z: int) -> float:
        return math.tanh(0.5 / float(self.scale)) * math.exp(-abs(z) / float(self.scale))

    def tail(self, t: int) -> float:
        """P(|noise| >= t) = 2 a^t / (1+a) for t >= 1."""
        a = math.exp(-1 / float(self.scale))
        return 1.0 if t <= 0 else 2 * math.exp(-t / float(self.scale)) / (1 + a)

    def quantile(self, p: float) -> int:
        """The smallest z with P(noise <= z) >= p, up to the rounding of float64."""
        if not 0 < p < 1:
            raise ParameterError(f"p must lie in (0, 1), got {p}")
        s, a = float(self.scale), math.exp(-1 / float(self.scale))
        if p > a / (1 + a) * (1 + _GUARD):  # P(noise <= -1) = a / (1 + a) falls short
            return max(0, math.ceil(-s * math.log((1 - p) * (1 + a) * (1 + _GUARD)) - 1))
        return min(-1, -math.floor(-s * math.log(p * (1 + a) * (1 - _GUARD))))

    def interval(self, confidence: Number) -> int:
        """The half-width that holds the noise with at least this probability."""
        miss, s = _miss(confidence), float(self.scale)
        half = max(0, math.ceil(s * math.log(2 / (miss * (1 - _GUARD) * (1 + math.exp(-1 / s)))) - 1))
        if half and self.tail(half) <= miss:  # the closed form is one too large where it was rounded up past a whole
            half -= 1
        while self.tail(half + 1) > miss:
            half += 1
        return half


@dataclass(frozen=True)
class GaussianError:
    """P(z) proportional to exp(-z^2 / 2 sigma^2).

    >>> law = GaussianError(Fraction(10))
    >>> round(law.variance, 6), law.interval(0.95)
    (100.0, 20)
    """

    sigma: Fraction

    @cached_property
    def _mass(self) -> NDArray[np.float64]:
        """P(0), P(1), ... to where float64 ends."""
        s = float(self.sigma)
        k = np.arange(0, math.ceil(38 * s) + 2, dtype=np.float64)
        weights = np.exp(-(k * k) / (2 * s * s))
        mass: NDArray[np.float64] = weights / (2 * weights.sum() - 1)
        return mass

    @property
    def _tabled(self) -> bool:
        return self.sigma <= _TABLED_UP_TO

    @property
    def variance(self) -> float:
        """At most sigma^2, and sigma^2 to sixteen digits from sigma = 2 on."""
        if not self._tabled:
            return float(self.sigma) ** 2
        k = np.arange(len(self._mass), dtype=np.float64)
        return 2 * float(np.sum(k * k * self._mass))

    def pmf(self, z: int) -> float:
        if self._tabled:
            return float(self._mass[abs(z)]) if abs(z) < len(self._mass) else 0.0
        s = float(self.sigma)
        return math.exp(-((z / s) ** 2) / 2) / (s * math.sqrt(2 * math.pi))

    def tail(self, t: int) -> float:
        """P(|noise| >= t), or above it: past the table by P(noise >= t) <= P(N(0, sigma^2) >= t - 1)."""
        if t <= 0:
            return 1.0
        if self._tabled:
            return 2 * float(np.sum(self._mass[t:][::-1]))
        return math.erfc((t - 1) / float(self.sigma) / math.sqrt(2))

    def quantile(self, p: float) -> int:
        """The smallest z with P(noise <= z) >= p, up to the rounding of float64 (past the table: or one above it)."""
        if not 0 < p < 1:
            raise ParameterError(f"p must lie in (0, 1), got {p}")
        if not self._tabled:
            return math.ceil(float(self.sigma) * float(ndtri(p)))
        both = np.concatenate([self._mass[:0:-1], self._mass])
        place = int(np.searchsorted(np.cumsum(both), p * (1 - _GUARD)))
        return place - (len(self._mass) - 1)

    def interval(self, confidence: Number) -> int:
        """The half-width that holds the noise with at least this probability."""
        miss = _miss(confidence)
        half = max(0, math.floor(float(self.sigma) * -float(ndtri(miss * (1 - _GUARD) / 2))) - 2)
        while self.tail(half + 1) > miss:
            half += 1
        return half


ErrorLaw = LaplaceError | GaussianError
