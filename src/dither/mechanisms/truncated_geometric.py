"""A count kept inside public bounds: two-sided geometric noise, then the *noisy count* is clamped.

P(low | c) and P(high | c) take the tails: a^(c - low) / (1 + a) and a^(high - c) / (1 + a), a =
e^(-1/scale). Clamping is postprocessing, so the guarantee is that of the noise,
DiscreteLaplace(scale, sensitivity); the log-ratio of neighbouring counts is exactly sensitivity /
scale at most. Clamping the *noise* instead cuts its support and is not private at all. Proof:
docs/proofs/geometric.md#truncated.

>>> cohort = TruncatedGeometric.for_epsilon(0.2, low=0, high=200)
>>> cohort.scale, cohort.loss()
(Fraction(5, 1), DiscreteLaplace(scale=5, sensitivity=1, neighbours='add_remove', unit='unit'))
>>> 0 <= int(cohort.release(3)[0]) <= 200
True
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dither.canonical import Number, quote
from dither.errors import ParameterError
from dither.laws import LaplaceErrorLaw
from dither.plan.norms import Sensitivity
from dither.privacy.losses import ADD_REMOVE, Adjacency, Loss, Neighbours
from dither.privacy.mechanisms.additive import exact_integers
from dither.privacy.mechanisms.laplace import IntegerLaplace
from dither.privacy.noise import Words


@dataclass(frozen=True)
class TruncatedErrorLaw:
    """The law of the answer.

    It depends on the true count near the bounds, so it is shown per count.
    """

    scale: Fraction
    low: int
    high: int

    def pmf(self, answer: int, count: int) -> float:
        """Compute P(answer | count)."""
        if not self.low <= answer <= self.high:
            return 0.0
        if self.low == self.high:
            return 1.0
        a = math.exp(-1 / float(self.scale))
        if answer in (self.low, self.high):
            return math.exp(-abs(count - answer) / float(self.scale)) / (1 + a)
        return LaplaceErrorLaw(self.scale).pmf(answer - count)

    def interval(self, confidence: Number) -> int:
        """Half-width around the answer that holds a count inside the bounds.

        Clamping moves such a count no further away.
        """
        return LaplaceErrorLaw(self.scale).interval(confidence)


@dataclass(frozen=True)
class TruncatedGeometric:
    """Counts that stay within low..high."""

    scale: Fraction
    sensitivity: Sensitivity
    low: int
    high: int
    neighbours: Neighbours = "add_remove"
    unit: str = "unit"

    def __post_init__(self) -> None:
        """Make the scale exact, and check that low and high are integers in order."""
        object.__setattr__(self, "scale", self._noise.scale)
        if (
            any(isinstance(x, bool) or not isinstance(x, int) for x in (self.low, self.high))
            or self.low > self.high
        ):
            raise ParameterError(
                f"low and high must be public integers, low <= high, got {quote(self.low)}, "
                f"{quote(self.high)}"
            )

    @property
    def _noise(self) -> IntegerLaplace:
        return IntegerLaplace(self.scale, self.sensitivity, self.neighbours, self.unit)

    @classmethod
    def for_epsilon(
        cls,
        epsilon: Number,
        *,
        low: int,
        high: int,
        sensitivity: Sensitivity | None = None,
        adjacency: Adjacency = ADD_REMOVE,
    ) -> TruncatedGeometric:
        """The least noise that meets epsilon."""
        moved = sensitivity or Sensitivity.of(largest=1)
        return cls(IntegerLaplace.for_epsilon(epsilon, moved).scale, moved, low, high, *adjacency)

    def loss(self) -> Loss:
        """What one release costs: that of the noise."""
        return self._noise.loss()

    def error(self) -> TruncatedErrorLaw:
        """The law of the answer."""
        return TruncatedErrorLaw(self.scale, self.low, self.high)

    def release(self, values: Any, *, source: Words | None = None) -> NDArray[Any]:
        """Release noisy counts, clamped to the public bounds.

        A count outside them is clamped first (1-Lipschitz).
        """
        inside = np.clip(exact_integers(values).astype(object), self.low, self.high)
        clamped: NDArray[Any] = np.clip(
            self._noise.release(inside, source=source), self.low, self.high
        )
        return clamped
