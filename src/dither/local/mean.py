"""Means of a bounded number, one report a user: what the numeric protocols share.

A value is clamped to the public [low, high] and put on a public grid of 2**32 steps (an error of at
most (high - low) / 2**33, on the device, no part of the privacy). From there everything is exact:
the grid point is rounded *at random* to one of a few positions, so that the mean stays right, and
the position is randomised. Estimates are of r = 2 (value - low) / (high - low) - 1, in [-1, 1],
summed over users; `estimate` gives the mean in the value's units.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from math import floor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dither.canonical import exact
from dither.errors import ParameterError
from dither.local.estimate import Estimate
from dither.local.odds import odds, read_epsilon
from dither.local.protocol import Protocol
from dither.local.values import read_number, read_numbers
from dither.privacy.noise import Words
from dither.stored import stored

GRID_BITS = 32


def round_at_random(grid: NDArray[np.int64], steps: int, source: Words) -> NDArray[np.int64]:
    """Round each grid point to one of 0..steps, with mean exactly grid * steps / 2**32.

    It needs steps below 2**30.
    """
    scaled = grid * steps
    down = scaled >> GRID_BITS
    rest = scaled & ((1 << GRID_BITS) - 1)
    drawn = source.words(len(grid), GRID_BITS).astype(np.int64)
    return down + (drawn < rest)


@stored(low="low", high="high")
@dataclass(frozen=True)
class Mean(Protocol):
    """A protocol for the mean of a number in [low, high]."""

    low: Fraction = Fraction(-1)
    high: Fraction = Fraction(1)

    def __post_init__(self) -> None:
        """Make epsilon and the bounds exact, and check that low is below high."""
        super().__post_init__()
        object.__setattr__(self, "epsilon", read_epsilon(self.epsilon))
        object.__setattr__(self, "low", exact(self.low, "low"))
        object.__setattr__(self, "high", exact(self.high, "high"))
        if self.low >= self.high:
            raise ParameterError(
                "low must be below high: both are public bounds, chosen without looking at the data"
            )

    @property
    def odds(self) -> Fraction:
        return odds(self.epsilon)

    def grid(self, values: Any) -> NDArray[np.int64]:
        """Put values on the public grid 0..2**32; those outside the bounds are clamped."""
        numbers = read_numbers(values)
        if numbers.ndim != 1:
            raise ParameterError("values must be a list of numbers, none of them nan")
        share = (np.clip(numbers, float(self.low), float(self.high)) - float(self.low)) / float(
            self.high - self.low
        )
        return np.clip(np.floor(share * 2.0**GRID_BITS + 0.5), 0, 2.0**GRID_BITS).astype(np.int64)

    def grid_one(self, value: Any) -> int:
        """One value on the grid, by the very float operations of `grid`."""
        number = read_number(value)
        low, high = float(self.low), float(self.high)
        share = (min(max(number, low), high) - low) / float(self.high - self.low)
        return int(min(max(floor(share * 2.0**GRID_BITS + 0.5), 0), 2**GRID_BITS))

    def share(self, value: Any) -> Fraction:
        """The exact place of a value on the grid, as a fraction of the range."""
        return Fraction(int(self.grid([float(value)])[0]), 1 << GRID_BITS)

    def inputs(self) -> list[Any]:
        low, high = float(self.low), float(self.high)
        return [low, high, low + 0.3 * (high - low), (low + high) / 2]

    def memo_key(self, value: Any, device: int) -> str:
        return str(self.grid_one(value))

    def target(self, value: Any) -> NDArray[Any]:
        return np.array([2 * self.share(value) - 1], object)

    @abstractmethod
    def second_moment(self, share: Fraction) -> Fraction:
        """E[(estimate of r from one report)**2] for a value at this share of the range."""

    def user_variance(self, value: Any) -> NDArray[Any]:
        share = self.share(value)
        return np.array([self.second_moment(share) - (2 * share - 1) ** 2], object)

    @property
    def worst_variance(self) -> Fraction:
        """Bound the variance of one report over all values (of r, whose range is 2); exact for one
        bit.

        At the positions to which values are rounded the variance is a parabola in r, largest at an
        end or in the middle; between two positions it rises by `rounding` at most.
        """
        shares = [Fraction(0), Fraction(1, 2), Fraction(1)]
        return (
            max(self.second_moment(share) - (2 * share - 1) ** 2 for share in shares)
            + self.rounding
        )

    @property
    def rounding(self) -> Fraction:
        """What random rounding between two neighbouring positions adds to the variance of r, at
        most."""
        return Fraction(0)

    @property
    @abstractmethod
    def largest_move(self) -> Fraction:
        """The largest absolute estimate of r from one report."""

    def estimate(self, tally: NDArray[np.int64], reports: int) -> Estimate:
        """Estimate the mean.

        Its variance is an upper bound (that of users who all hold the worst value).
        """
        half = float(self.high - self.low) / 2
        n = max(1, reports)
        mean = float(self.low) + half + half * self.debias(tally, reports).astype(np.float64) / n
        variances = np.full(1, half**2 * float(self.worst_variance) / n)
        return Estimate(
            mean,
            variances,
            reports,
            half * float(self.largest_move) / n,
            what="mean",
            variance_bounds=variances,
        )
