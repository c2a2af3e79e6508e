"""Places: counts on a grid by any frequency oracle, and planar Laplace noise for one point (metric privacy).

`Grid` turns points into cells of a public box, whole range protected. `PlanarLaplace` protects *nearby* points only:
for any two lattice points the law differs by at most e**(epsilon * distance), distance in the unit of the lattice
(geo-indistinguishability, Andres et al. 2013). Noise lives on the integer lattice: P(z) ~ exp(-rate * rho(z)), rho the
Euclidean norm rounded up to 2**-20, rate = epsilon (1 - 2**-19), so that no ratio passes the bound; drawn exactly, by
rejection from integer Laplace noise. Its radius is close to Gamma(2, 1/epsilon): mean 2/epsilon; the error of the
lattice is at most half a cell. `remap` moves a report to the most useful place given a public prior, at no cost.
docs/proofs/local.md, theorem 14.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import isqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dither.canonical import exact, positive
from dither.errors import ParameterError
from dither.privacy.losses import Loss, Pure
from dither.privacy.noise import SystemSource, Words, bernoulli_exp, discrete_laplace

_NORM_BITS = 20
_DIAGONAL = Fraction(70710, 100000)  # below 1 / sqrt(2)


@dataclass(frozen=True)
class Grid:
    """A public box of columns x rows equal cells; points outside count for the nearest cell.

    >>> Grid((0, 0, 10, 10), 5, 5).cell(np.array([[9.9, 0.1]]))
    array([4])
    """

    box: tuple[float, float, float, float]
    columns: int
    rows: int

    @property
    def domain(self) -> int:
        return self.columns * self.rows

    def cell(self, points: NDArray[np.float64]) -> NDArray[np.int64]:
        """The cell of each point (x, y): row * columns + column."""
        x0, y0, x1, y1 = self.box
        column = np.floor((points[:, 0] - x0) / (x1 - x0) * self.columns).clip(0, self.columns - 1)
        row = np.floor((points[:, 1] - y0) / (y1 - y0) * self.rows).clip(0, self.rows - 1)
        found: NDArray[np.int64] = (row * self.columns + column).astype(np.int64)
        return found


@lru_cache(maxsize=1 << 16)
def norm_above(x: int, y: int) -> Fraction:
    """The Euclidean norm, rounded up to a multiple of 2**-20."""
    square = (x * x + y * y) << (2 * _NORM_BITS)
    root = isqrt(square)
    return Fraction(root + (root * root < square), 1 << _NORM_BITS)


@dataclass(frozen=True)
class PlanarLaplace:
    """Noise of rate `epsilon` per `unit` of distance on the lattice of cells of side `side` (both in one length unit).

    >>> PlanarLaplace(1, side="1/10").loss(2).epsilon
    Fraction(2, 1)
    """

    epsilon: Fraction
    side: Fraction = Fraction(1)

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", positive(self.epsilon, "epsilon"))
        object.__setattr__(self, "side", positive(self.side, "side"))
        if not Fraction(1, 1000) <= self.epsilon * self.side <= 100:
            raise ParameterError("epsilon * side must lie between 1/1000 and 100: choose another side")

    @property
    def rate(self) -> Fraction:
        """Exponent per lattice step; the shrinking pays for the rounded norm."""
        return self.epsilon * self.side * (1 - Fraction(1, 2 ** (_NORM_BITS - 1)))

    def weight_exponent(self, x: int, y: int) -> Fraction:
        """-log of the weight of a displacement (in cells), exactly."""
        return self.rate * norm_above(x, y)

    def loss(self, distance: Any) -> Loss:
        """Loss between two points at most this far apart (a metric guarantee: it is not one for all pairs)."""
        return Pure(self.epsilon * exact(distance, "distance"), neighbours="replace", unit="user within the distance")

    def noise(self, count: int, *, source: Words | None = None) -> NDArray[np.int64]:
        """`count` displacements in cells."""
        words = source or SystemSource()
        scale = 1 / (self.rate * _DIAGONAL)
        found: list[tuple[int, int]] = []
        while len(found) < count:
            block = discrete_laplace(scale, (count - len(found) + 8, 2), source=words)
            for x, y in block.tolist():
                excess = self.weight_exponent(x, y) - self.rate * _DIAGONAL * (abs(x) + abs(y))
                if bernoulli_exp(excess, source=words):
                    found.append((x, y))
        return np.array(found[:count], np.int64)

    def report(self, points: NDArray[np.float64], *, source: Words | None = None) -> NDArray[np.int64]:
        """Lattice points (in cells) of the noisy places."""
        cells = np.floor(np.asarray(points, np.float64) / float(self.side) + 0.5).astype(np.int64)
        return cells + self.noise(len(cells), source=source)

    def remap(
        self, reports: NDArray[np.int64], places: NDArray[np.float64], prior: NDArray[np.float64]
    ) -> NDArray[np.int64]:
        """For each report the index of the public place with the least expected distance under the public prior."""
        lattice = np.asarray(places, np.float64) / float(self.side)
        apart = np.linalg.norm(lattice[:, None] - lattice[None, :], axis=2)
        away = np.linalg.norm(reports[:, None, :] - lattice[None, :, :], axis=2)
        weight = prior[None, :] * np.exp(-float(self.rate) * (away - away.min(axis=1, keepdims=True)))
        found: NDArray[np.int64] = np.argmin(weight @ apart, axis=1)
        return found
