"""The error law of integer Laplace noise (two-sided geometric)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from dither.canonical import Number
from dither.errors import ParameterError
from dither.laws.base import GUARD, AdditiveErrorLaw, Floats, from_tails, read_miss, tail_size
from dither.stored import stored


@stored("laplace_error", scale="scale")
@dataclass(frozen=True)
class LaplaceErrorLaw(AdditiveErrorLaw):
    """P(z) = (1-a)/(1+a) a^|z|, a = exp(-1/scale).

    >>> law = LaplaceErrorLaw(Fraction(2))
    >>> round(law.variance, 4), law.interval(0.95)
    (7.8354, 6)
    >>> law.inverse(np.array([0.01, 0.5, 0.99])).tolist()
    [-8.0, 0.0, 8.0]
    """

    formula: ClassVar[str] = "P(z) ~ exp(-|z| / scale) on multiples of the resolution"

    scale: Fraction

    @property
    def noise_scale(self) -> Fraction:
        """The scale."""
        return self.scale

    @property
    def positive_mean(self) -> float:
        """Half of E|noise|, which is about the scale."""
        return 0.5

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

    def above(self, t: Floats) -> Floats:
        """P(noise > t) for whole t: P(noise >= z) = a^z / (1+a) for z >= 1."""
        rate = 1 / float(self.scale)
        tails = np.exp(-tail_size(t) * rate) / (1 + np.exp(-rate))
        return from_tails(t, tails, tails)

    def quantile(self, p: float) -> int:
        """Find the smallest z with P(noise <= z) >= p, up to the rounding of float64."""
        if not 0 < p < 1:
            raise ParameterError(f"p must lie in (0, 1), got {p}")
        s = float(self.scale)
        a = math.exp(-1 / s)
        if p > a / (1 + a) * (1 + GUARD):  # P(noise <= -1) = a / (1 + a) falls short
            return max(0, math.ceil(-s * math.log((1 - p) * (1 + a) * (1 + GUARD)) - 1))
        return min(-1, -math.floor(-s * math.log(p * (1 + a) * (1 - GUARD))))

    def inverse(self, shares: Floats) -> Floats:
        """Find the smallest z with P(noise <= z) >= share, for every share."""
        scale = float(self.scale)
        a = math.exp(-1 / scale)
        tail = np.minimum(shares, 1 - shares)
        size = -scale * np.log(tail * (1 + a))  # P(noise <= -z) = a^z / (1 + a)
        above_zero = np.maximum(0.0, np.ceil(size - 1 - 1e-9)) + 0.0
        return np.where(shares > a / (1 + a), above_zero, -np.maximum(1.0, np.floor(size)))

    def interval(self, confidence: Number) -> int:
        """Find the half-width that holds the noise with at least this probability."""
        miss = read_miss(confidence)
        s = float(self.scale)
        half = max(
            0, math.ceil(s * math.log(2 / (miss * (1 - GUARD) * (1 + math.exp(-1 / s)))) - 1)
        )
        if half and self.tail(half) <= miss:
            # the closed form is one too large where it was rounded up past a whole number
            half -= 1
        while self.tail(half + 1) > miss:
            half += 1
        return half
