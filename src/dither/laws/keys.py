"""Error laws of key selection: the chance of a key to be shown, by its distinct owners."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dither.canonical import Number, exact
from dither.laws.base import KeyErrorLaw
from dither.laws.gaussian import GaussianErrorLaw
from dither.stored import stored

_WORD = 1 << 64


@stored("key_chances", words="words")
@dataclass(frozen=True)
class KeyChanceLaw(KeyErrorLaw):
    """The chance of a key with n owners to be shown: words[n] / 2**64.

    Beyond the last word it is 1.

    >>> KeyChanceLaw((0, 1 << 63)).chance(1), KeyChanceLaw((0, 1 << 63)).size_shown(0.95)
    (0.5, 2)
    """

    words: tuple[int, ...]

    def chance(self, owners: int) -> float:
        return self.words[owners] / _WORD if owners < len(self.words) else 1.0

    def size_shown(self, probability: Number) -> int:
        """Find the smallest number of owners with at least this chance to be shown."""
        level = float(exact(probability, "probability"))
        return next(
            (n for n, word in enumerate(self.words) if word / _WORD >= level), len(self.words)
        )


@stored("key_threshold", sigma="sigma", threshold="threshold")
@dataclass(frozen=True)
class KeyThresholdLaw(KeyErrorLaw):
    """A key is shown where its owners plus integer Gaussian noise reach the threshold.

    >>> law = KeyThresholdLaw(Fraction(2), 8)
    >>> law.chance(0), round(law.chance(8), 4), law.size_shown(0.5)
    (0.0, 0.5997, 8)
    """

    sigma: Fraction
    threshold: int

    @property
    def noise(self) -> GaussianErrorLaw:
        """The law of the noise that is added before the threshold."""
        return GaussianErrorLaw(self.sigma)

    def chance(self, owners: int) -> float:
        """The chance of a key with so many owners to be shown: P(owners + noise >= threshold)."""
        missing = np.array([self.threshold - owners - 1], np.float64)
        return float(self.noise.above(missing)[0]) if owners else 0.0

    def size_shown(self, probability: Number) -> int:
        """The smallest number of owners with at least this chance to be shown."""
        level = float(exact(probability, "probability"))
        return max(1, self.threshold + self.noise.quantile(level))
