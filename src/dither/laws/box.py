"""The error law of box noise: of one number by itself, and of all numbers of a cell together.
Public; no data enters.

exp(-N(z)/scale) is what is left of z in a mixture over r of uniform draws from the box of all z
with N(z) <= r scale: P(r) falls as e^-r times the integers in that box, prod_i(2 floor(r scale
side_i) + 1). Sums over the integers become sums over r, at `_NODES` places; both ends of each step
are used, so that what is said of a tail certainly holds. What lies beyond the last place is bounded
by an integral. Proof: docs/proofs/box-noise.md, theorem 3.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar, NamedTuple

import numpy as np

from dither.canonical import Number, quote
from dither.errors import ParameterError
from dither.laws.base import GUARD, AdditiveErrorLaw, Floats, find_half_width, read_miss
from dither.stored import stored

_REACH = 80.0  # e^-80 is 1e-35
_FARTHEST = 700.0  # e^-700 is 1e-304: float64 ends soon after
_NODES = 1 << 15
_FLOAT = 1e-7
"""More than float64 can do to sums of so many positive terms and the difference of two."""


class _Mixture(NamedTuple):
    """By step of r: its mass, its ends, the least and the largest count of the box within it."""

    mass: Floats
    start: Floats
    end: Floats
    least: Floats
    largest: Floats
    whole: float
    reach: float


@lru_cache(maxsize=16)
def _mixture(sides: tuple[int, ...], scale: Fraction) -> _Mixture:
    """Tabulate the law of the radius r on a grid, for bounds on tails of box noise.

    Given r, box noise is uniform on the integers within r times the scaled sides, so each step
    of the grid needs the least and the largest number of such integers.
    """
    # there the narrowest side has its first step
    reach = min(_FARTHEST, _REACH + float(1 / (min(sides) * scale)))
    nodes = np.linspace(0.0, reach, _NODES + 1)
    mass = -np.expm1(-reach / _NODES) * np.exp(-nodes[:-1])
    widths = [float(side_length * scale) for side_length in sides]
    least = np.prod([2 * _floor(nodes[:-1] * width, -1) + 1 for width in widths], axis=0)
    largest = np.prod([2 * _floor(nodes[1:] * width, +1) + 1 for width in widths], axis=0)
    whole = float((mass * least).sum())
    return _Mixture(mass, nodes[:-1], nodes[1:], least, largest, whole, reach)


class _Ahead(NamedTuple):
    """By step: n of the boxes up to its end, and sums from there on of b and of b n, which give
    those of b (n - t)."""

    room: Floats
    plain: Floats
    times_room: Floats


@lru_cache(maxsize=16)
def _ahead(sides: tuple[int, ...], scale: Fraction, column: int) -> _Ahead:
    """Tabulate sums over all larger radii, from which `tail` reads a probability in one look."""
    mixture = _mixture(sides, scale)
    room = _floor(mixture.end * float(sides[column] * scale), +1)
    masses = mixture.mass * mixture.largest * 2 / (2 * room + 1)
    return _Ahead(room, _sum_ahead(masses), _sum_ahead(masses * room))


def _sum_ahead(terms: Floats) -> Floats:
    """Sum the terms from each step on; 0 after the last."""
    return np.append(np.cumsum(terms[::-1])[::-1], 0.0)


def _floor(x: Floats, direction: int) -> Floats:
    """floor(x), or a neighbour of it on the safe side where float64 cannot tell."""
    return np.maximum(0.0, np.floor(x * (1 + direction * GUARD) + direction * GUARD))


@stored("box_error", sides="sides", scale="scale", column="column")
@dataclass(frozen=True)
class BoxErrorLaw(AdditiveErrorLaw):
    """One number of a cell with noise P(z) ~ exp(-max_i(|z_i| / side_i) / scale).

    >>> law = BoxErrorLaw((1, 500), Fraction(10), 0)
    >>> round(law.variance), law.interval(0.95)
    (400, 41)
    """

    is_joint: ClassVar[bool] = True
    formula: ClassVar[str] = (
        "P(z) ~ exp(-max |z_i| / scale_i) over the numbers of a cell, on multiples of the "
        "resolution"
    )

    sides: tuple[int, ...]
    scale: Fraction
    column: int

    def __post_init__(self) -> None:
        """Check that the column is one of the sides, and that sides are positive."""
        if self.column not in range(len(self.sides)):
            raise ParameterError(
                f"a box of {len(self.sides)} sides has no number {quote(self.column)}"
            )
        if min(self.sides) < 1:
            raise ParameterError(f"the sides of a box are positive, got {quote(self.sides)}")

    @property
    def noise_scale(self) -> Fraction:
        """The scale in the number's own steps: its side times the scale of the box."""
        return self.sides[self.column] * self.scale

    @property
    def positive_mean(self) -> float:
        """Half of E|uniform in [-r, r]|, r of mean d + 1."""
        return (len(self.sides) + 1) / 4

    @property
    def _unit(self) -> float:
        return float(self.noise_scale)

    @property
    def variance(self) -> float:
        """Compute the variance, about (d+1)(d+2)/3 (side scale)^2, here to a part in 200.

        That of a uniform integer in [-n, n] is n(n+1)/3.
        """
        mixture = _mixture(self.sides, self.scale)
        weights = mixture.mass * (mixture.least + mixture.largest)
        reach = np.floor((mixture.start + mixture.end) / 2 * self._unit)
        return float((weights * reach * (reach + 1)).sum() / weights.sum() / 3)

    def tail(self, t: int) -> float:
        """Compute P(|noise| >= t), or a little above it."""
        if t <= 0:
            return 1.0
        mixture = _mixture(self.sides, self.scale)
        ahead = _ahead(self.sides, self.scale, self.column)
        first = int(np.searchsorted(ahead.room, float(t - 1), side="right"))
        # of the integers in [-n, n], 2 (n - t + 1) are so large
        inside = max(0.0, float(ahead.times_room[first] - float(t - 1) * ahead.plain[first]))
        return min(1.0, (inside + self._beyond(t, mixture.reach)) * (1 + _FLOAT) / mixture.whole)

    def _beyond(self, t: int, reach: float) -> float:
        """Bound from above what radii r > reach add to a tail.

        2 r a + 1 grows no faster than r, and below r = t / a nothing is added.
        """
        r = min(_FARTHEST, max(reach, t / self._unit))
        others = [
            2 * r * float(length * self.scale) + 1
            for i, length in enumerate(self.sides)
            if i != self.column
        ]
        large = 2 * (self._unit + max(1.0, r * self._unit - t + 1))
        return 1.1 * math.exp(-r) * math.prod(others) * large

    def interval(self, confidence: Number) -> int:
        """A half-width that holds the noise with at least this probability: the smallest, to one or
        a part in 300."""
        return _interval(self, read_miss(confidence))

    def draw_together(self, columns: tuple[int, ...], shares: Floats) -> Floats:
        """Draw noise of some numbers of a cell at points of the unit cube.

        `shares` has one column for r, then one for each number.
        """
        mixture = _mixture(self.sides, self.scale)
        weights = np.append(0.0, np.cumsum(mixture.mass * (mixture.least + mixture.largest)))
        r = np.interp(shares[:, 0] * weights[-1], weights, np.append(0.0, mixture.end))
        reach = np.floor(
            r[:, None] * np.array([float(self.sides[column] * self.scale) for column in columns])
        )
        return np.asarray(np.minimum(np.floor(shares[:, 1:] * (2 * reach + 1)), 2 * reach) - reach)


@lru_cache(maxsize=256)
def _interval(law: BoxErrorLaw, miss: float) -> int:
    return find_half_width(law, miss, max(1, int(law._unit)))
