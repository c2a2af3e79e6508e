"""The error law of rounded Gaussian noise: P(k) = Phi((k + 1/2) / sigma) - Phi((k - 1/2) / sigma).

A rounded number is above t exactly if the real one is above t + 1/2, so tails and intervals are
those of the normal law, half a step further out. Proof: docs/proofs/rounded-gaussian.md#error-law.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from dither.laws.base import GUARD, AdditiveErrorLaw, Floats
from dither.stored import stored

_LARGE_SIGMA = 1000


@stored("rounded_gaussian_error", sigma="sigma")
@dataclass(frozen=True)
class RoundedGaussianErrorLaw(AdditiveErrorLaw):
    """Noise that is a normal number rounded to the next multiple of the resolution."""

    formula: ClassVar[str] = (
        "P(z) = Phi((z + 1/2)/sigma) - Phi((z - 1/2)/sigma) on multiples of the resolution"
    )

    sigma: Fraction

    @property
    def noise_scale(self) -> Fraction:
        """The sigma of the normal number."""
        return self.sigma

    @property
    def variance(self) -> float:
        """E z^2: the sum over t >= 0 of 2 (2t + 1) P(z > t), which nears sigma^2 + 1/12."""
        sigma = float(self.sigma)
        if sigma > _LARGE_SIGMA:
            return sigma**2 + 1 / 12
        t = np.arange(int(40 * sigma) + 2, dtype=np.float64)
        return float(np.sum(2 * (2 * t + 1) * self._beyond(t)))

    @property
    def positive_mean(self) -> float:
        """E max(0, z) over sigma: the sum over t >= 0 of P(z > t), which nears 1 / sqrt(2 pi)."""
        sigma = float(self.sigma)
        if sigma > _LARGE_SIGMA:
            return float((1 - 1 / (24 * sigma**2)) / np.sqrt(2 * np.pi))
        t = np.arange(int(40 * sigma) + 2, dtype=np.float64)
        return float(np.sum(self._beyond(t))) / sigma

    def above(self, t: Floats) -> Floats:
        """P(noise > t) for whole t, or a little more."""
        chances: Floats = np.minimum(1.0, self._beyond(t) * (1 + GUARD))
        return chances

    def inverse(self, shares: Floats) -> Floats:
        """The smallest z with P(noise <= z) >= share, for every share."""
        from scipy.special import ndtri

        values: Floats = np.ceil(float(self.sigma) * ndtri(shares) - 0.5)
        return values + 0.0

    def _beyond(self, t: Floats) -> Floats:
        """P(N(0, sigma^2) > t + 1/2)."""
        from scipy.special import erfc

        tails: Floats = 0.5 * erfc((t + 0.5) / (float(self.sigma) * np.sqrt(2)))
        return tails
