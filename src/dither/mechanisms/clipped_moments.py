"""Count, mean and variance of values clamped to public bounds.

All three come from exact integer sums whose sensitivity is known.

A value x is clamped to [low, high] and centred, y = 2 x - (low + high), so |y| <= w = high - low;
the sums are n, sum of y, and sum of 2 y^2 - w^2 (each term at most w^2 in size). Clamping is a
function of one row, so a unit of k rows moves them by k, k w and k w^2 when it joins, twice that
when it is replaced. Each is released with integer Laplace noise at an equal share of the price;
mean and variance are postprocessing. Centring halves the noise of an uncentred sum on [0, high].
With a public number of rows (replace only) the count is not measured. Proof:
docs/proofs/moments.md#clipped-moments.

>>> ages = ClippedMoments.for_epsilon(0.5, low=0, high=100, degree=1)
>>> round(ages.error().mean_spread(people=10_000), 4)  # noisy sum over noisy count
0.0283
>>> found = ages.release([50] * 5_000 + [20, 150] * 2_500)
>>> abs(ages.mean(found) - 55) < 1
True
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dither.canonical import Number, positive, quote
from dither.errors import ParameterError
from dither.laws import AdditiveErrorLaw, find_error_law
from dither.plan.norms import Sensitivity
from dither.privacy.losses import Adjacency, Loss, Neighbours, compose
from dither.privacy.mechanisms.additive import exact_integers
from dither.privacy.mechanisms.laplace import IntegerLaplace
from dither.privacy.noise import Words
from dither.privacy.noise.source import check_source


@dataclass(frozen=True)
class MomentsErrorLaw:
    """The laws of the errors of the sums."""

    sums: tuple[AdditiveErrorLaw, ...]
    counted: bool

    def mean_spread(self, people: int) -> float:
        """The standard deviation of the mean's noise for so many people.

        It holds if the mean is near the middle.
        """
        first = self.sums[1 if self.counted else 0]
        return math.sqrt(first.variance) / (2 * people)


@dataclass(frozen=True)
class ClippedMoments:
    """The sums of clamped, centred values up to a degree, each with its own noise."""

    low: int
    high: int
    degree: int
    noises: tuple[IntegerLaplace, ...]
    public_size: int | None = None

    def __post_init__(self) -> None:
        """Check that every sum has a noise, and that the noise covers what one row moves."""
        check_bounds(self.low, self.high, self.degree)
        if len(self.noises) != self.degree + (self.public_size is None):
            raise ParameterError("one noise for each sum: build it by for_epsilon")
        least = moment_moves(self.low, self.high, self.degree, 1, self.noises[0].neighbours)
        for noise, move in zip(reversed(self.noises), reversed(least), strict=False):
            if noise.sensitivity.linf < move:
                raise ParameterError(
                    f"a sum that one row moves by {move} has noise for {noise.sensitivity.linf}"
                )

    @classmethod
    def for_epsilon(
        cls,
        epsilon: Number,
        *,
        low: int,
        high: int,
        degree: int = 2,
        rows_per_unit: int = 1,
        public_size: int | None = None,
        neighbours: Neighbours = "add_remove",
        unit: str = "unit",
    ) -> ClippedMoments:
        """Make the mechanism with an equal share of the price for each sum."""
        moves = moment_moves(low, high, degree, rows_per_unit, neighbours)
        if public_size is not None:
            if neighbours != "replace" or isinstance(public_size, bool) or public_size < 1:
                raise ParameterError(
                    "a public number of rows exists under replace only: leave public_size out"
                )
            moves = moves[1:]
        share = positive(epsilon, "epsilon") / len(moves)
        noises = [
            IntegerLaplace.for_epsilon(
                share, Sensitivity.of(largest=move), Adjacency(neighbours, unit)
            )
            for move in moves
        ]
        return cls(low, high, degree, tuple(noises), public_size)

    def loss(self) -> Loss:
        """What all sums cost together."""
        losses = [noise.loss() for noise in self.noises]
        return losses[0] if len(losses) == 1 else compose(*losses)

    def error(self) -> MomentsErrorLaw:
        """The laws of the errors of the sums."""
        return MomentsErrorLaw(
            tuple(find_error_law(noise) for noise in self.noises), self.public_size is None
        )

    def measure(self, values: Any) -> list[int]:
        """Compute the exact sums: what the data layer computes, and the oracle of its tests."""
        clipped = np.clip(exact_integers(values).astype(object), self.low, self.high)
        width = self.high - self.low
        centred: NDArray[Any] = 2 * clipped - (self.low + self.high)
        sums = [
            len(clipped),
            int(centred.sum()),
            int((2 * centred * centred - width * width).sum()),
        ]
        return sums[(0 if self.public_size is None else 1) : self.degree + 1]

    def release(self, values: Any, *, source: Words | None = None) -> list[int]:
        """Release the noisy sums: the count unless it is public, the first, and the second of
        degree 2."""
        supply = check_source(source)
        sums = self.measure(values)
        return [
            int(noise.release(s, source=supply)[0])
            for noise, s in zip(self.noises, sums, strict=True)
        ]

    def mean(self, released: list[int]) -> float:
        """From noisy sums, within the bounds: (sum / n + low + high) / 2."""
        people, first = self._first(released)
        return min(self.high, max(self.low, (first / people + self.low + self.high) / 2))

    def variance(self, released: list[int]) -> float:
        """Compute the variance from noisy sums, never negative: (mean of y^2 - (mean of y)^2) / 4.

        Raises ParameterError below degree 2.
        """
        if self.degree < 2:
            raise ParameterError("a variance needs degree 2")
        people, first = self._first(released)
        width = self.high - self.low
        square = (released[-1] / people + width * width) / 2
        return max(0.0, square - (first / people) ** 2) / 4

    def _first(self, released: list[int]) -> tuple[int, int]:
        if self.public_size is not None:
            return self.public_size, released[0]
        return max(1, released[0]), released[1]


def check_bounds(low: int, high: int, degree: int) -> None:
    """Raise ParameterError unless bounds are public integers and the degree is 1 or 2."""
    if any(isinstance(x, bool) or not isinstance(x, int) for x in (low, high)) or not low < high:
        raise ParameterError(
            f"low and high must be public integers, low < high, got {quote(low)}, {quote(high)}"
        )
    if degree not in (1, 2):
        raise ParameterError(f"degree must be 1 (mean) or 2 (variance too), got {quote(degree)}")


def moment_moves(
    low: int, high: int, degree: int, rows_per_unit: int, neighbours: Neighbours
) -> list[int]:
    """Compute how far one unit moves n, the sum of y and the sum of 2 y^2 - w^2.

    >>> moment_moves(0, 100, 2, 1, "add_remove"), moment_moves(0, 100, 1, 3, "replace")
    ([1, 100, 10000], [6, 600])
    """
    check_bounds(low, high, degree)
    if isinstance(rows_per_unit, bool) or not isinstance(rows_per_unit, int) or rows_per_unit < 1:
        raise ParameterError(
            f"rows_per_unit must be a positive integer, got {quote(rows_per_unit)}"
        )
    times = rows_per_unit * (2 if neighbours == "replace" else 1)
    return [times * (high - low) ** power for power in range(degree + 1)]
