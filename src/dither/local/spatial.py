"""Places: counts on a grid by any frequency oracle, and planar Laplace noise for one point (metric
privacy).

`Grid` turns points into cells of a public box, whole range protected. `PlanarLaplace` protects
*nearby* points only (geo-indistinguishability, Andres et al. 2013): points within `radius` by
e**epsilon, points farther apart by more, in proportion. Noise lives on the integer lattice: P(z) ~
exp(-rate * rho(z)), rho the Euclidean norm rounded up to 2**-20, drawn exactly, by rejection from
integer Laplace noise. Two points d apart may be rounded to lattice points d + sqrt(2) side apart,
so rate = epsilon / (radius / side + sqrt(2)), sqrt(2) rounded up: choose a side well below the
radius. The noise's length is close to Gamma(2, side / rate): mean 2 side / rate; the lattice adds
at most 0.71 side. Payload: column and row of the lattice plus 2**31, 4 bytes each. `remap` moves a
report to the most useful place given a public prior, at no cost. docs/proofs/local.md, theorem 14.
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
from dither.local.kept import KeptReports
from dither.local.values import read_numbers
from dither.local.wire import Payloads, get_int, put_int
from dither.privacy.losses import Loss, Pure
from dither.privacy.noise import SystemSource, Words, bernoulli_exp, discrete_laplace
from dither.stored import stored

_NORM_BITS = 20
_EDGE = 1 << 31
_ROUNDING = Fraction(
    14143, 10000
)  # above sqrt(2): how far apart, in cells, rounding may move two points
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
        """Compute the cell of each point (x, y): row * columns + column."""
        x0, y0, x1, y1 = self.box
        if np.isnan(points).any():
            raise ParameterError("places are pairs of numbers, none of them nan")
        column = np.floor((points[:, 0] - x0) / (x1 - x0) * self.columns).clip(0, self.columns - 1)
        row = np.floor((points[:, 1] - y0) / (y1 - y0) * self.rows).clip(0, self.rows - 1)
        cells: NDArray[np.int64] = (row * self.columns + column).astype(np.int64)
        return cells


@lru_cache(maxsize=1 << 16)
def norm_above(x: int, y: int) -> Fraction:
    """The Euclidean norm, rounded up to a multiple of 2**-20."""
    square = (x * x + y * y) << (2 * _NORM_BITS)
    root = isqrt(square)
    return Fraction(root + (root * root < square), 1 << _NORM_BITS)


@stored(side="side", radius="radius")
@dataclass(frozen=True)
class PlanarLaplace(KeptReports):
    """Loss `epsilon` between places within `radius`, on a lattice of cells of side `side` (all in
    one length unit).

    >>> noise = PlanarLaplace(2, radius=200, side=5)
    >>> noise.loss(200).epsilon <= 2 < noise.loss(250).epsilon
    True
    """

    type = "planar_laplace"
    ask = "places"
    side: Fraction = Fraction(1)
    radius: Fraction = Fraction(32)

    def __post_init__(self) -> None:
        """Make the numbers exact, and check that the noise on the grid can be drawn."""
        super().__post_init__()
        for name in ("epsilon", "side", "radius"):
            object.__setattr__(self, name, positive(getattr(self, name), name))
        if not Fraction(1, 1000) <= self._step <= 100:
            raise ParameterError(
                "epsilon / (radius / side + 1.4143) must lie in 1/1000..100: choose another side"
            )

    @property
    def unit(self) -> str:
        return f"place of a user, against places within {float(self.radius):g}"

    @property
    def payload_bytes(self) -> int:
        return 8

    @property
    def rate(self) -> Fraction:
        """Compute the exponent per lattice step, lowered to pay for the rounding of the norm."""
        return self._step * (1 - Fraction(1, 2 ** (_NORM_BITS - 1)))

    @property
    def _step(self) -> Fraction:
        """Loss per cell between lattice points."""
        return self.epsilon / (self.radius / self.side + _ROUNDING)

    def derived(self) -> dict[str, Any]:
        return {"rate": self.rate, "slope": self.rate * _DIAGONAL}

    def weight_exponent(self, x: int, y: int) -> Fraction:
        """-log of the weight of a displacement (in cells), exactly."""
        return self.rate * norm_above(x, y)

    def loss(self, distance: Any = None) -> Loss:
        """Loss between two places at most this far apart (default: `radius`); it is not one for all
        pairs."""
        if distance is None:
            return super().loss()
        apart = exact(distance, "distance") / self.side + _ROUNDING
        return Pure(self._step * apart, neighbours="replace", unit="user within the distance")

    def inputs(self) -> list[Any]:
        return [np.zeros(2), np.array([float(self.radius), 0.0])]

    def law(self, value: Any) -> dict[bytes, Fraction]:
        """Refuse: the probabilities are powers of e, so they are no fractions."""
        raise ParameterError(
            "the weights of planar Laplace are powers of e: compare weight_exponent, which is exact"
        )

    def cells(self, points: Any) -> NDArray[np.int64]:
        """The lattice point nearest to each place."""
        array = read_numbers(points)
        if array.ndim != 2 or array.shape[1] != 2:
            raise ParameterError("places are pairs of numbers, none of them nan")
        return np.clip(np.floor(array / float(self.side) + 0.5), -_EDGE, _EDGE - 1).astype(np.int64)

    def memo_key(self, value: Any, device: int) -> str:
        return ",".join(str(int(coordinate)) for coordinate in self.cells([value])[0])

    def noise(self, count: int, *, source: Words | None = None) -> NDArray[np.int64]:
        """Draw `count` displacements in cells."""
        words = source or SystemSource()
        scale = 1 / (self.rate * _DIAGONAL)
        displacements: list[tuple[int, int]] = []
        while len(displacements) < count:
            block = discrete_laplace(scale, (count - len(displacements) + 8, 2), source=words)
            for x, y in block.tolist():
                excess = self.weight_exponent(x, y) - self.rate * _DIAGONAL * (abs(x) + abs(y))
                if bernoulli_exp(excess, source=words):
                    displacements.append((x, y))
        return np.array(displacements[:count], np.int64).reshape(count, 2)

    def report(
        self, points: NDArray[np.float64], *, source: Words | None = None
    ) -> NDArray[np.int64]:
        """Compute lattice points (in cells) of the noisy places, saturated at +-2**31."""
        cells = self.cells(points)
        noisy_cells: NDArray[np.int64] = np.clip(
            cells + self.noise(len(cells), source=source), -_EDGE, _EDGE - 1
        )
        return noisy_cells

    def permanent(
        self, values: Any, source: Words, devices: NDArray[np.int64] | None = None
    ) -> Payloads:
        column, row = (self.report(values, source=source) + _EDGE).T
        return np.hstack([put_int(column, 4), put_int(row, 4)])

    def places(self, payloads: Payloads) -> NDArray[np.int64]:
        """The lattice points of reports; times `side` they are places. Feed them to `remap`."""
        lattice_points: NDArray[np.int64] = (
            np.stack([get_int(payloads[:, :4]), get_int(payloads[:, 4:])], axis=1) - _EDGE
        )
        return lattice_points

    def remap(
        self, reports: NDArray[np.int64], places: NDArray[np.float64], prior: NDArray[np.float64]
    ) -> NDArray[np.int64]:
        """Find for each report the public place with the least expected distance; return its index.

        The expectation is under the public prior.
        """
        lattice = np.asarray(places, np.float64) / float(self.side)
        apart = np.linalg.norm(lattice[:, None] - lattice[None, :], axis=2)
        away = np.linalg.norm(reports[:, None, :] - lattice[None, :, :], axis=2)
        weight = prior[None, :] * np.exp(
            -float(self.rate) * (away - away.min(axis=1, keepdims=True))
        )
        nearest: NDArray[np.int64] = np.argmin(weight @ apart, axis=1)
        return nearest
