"""Square wave (Li et al. 2020): the whole distribution of a bounded number, by expectation
maximisation.

The value's bucket i of `buckets` opens a window of `width` output cells that begins at cell i; the
window has weight R. The collector keeps the histogram of cells (multinomial: its law and variance
are exact) and recovers the distribution by EM, optionally smoothed (EMS). EM is consistent but
biased at finite n, and no variance is claimed for it. Intervals come from the unbiased least
squares solution, whose variance is exact (docs/proofs/local-intervals.md, theorem 5): wide for
single buckets, narrower for ranges (`ordered`) and for fewer buckets. Payload: the cell, W(buckets
+ width - 2) bytes.

>>> SquareWave(1, 0, 1, buckets=64).width
33
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import exp
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dither.errors import ParameterError
from dither.local.estimate import Estimate
from dither.local.linear import Contributions
from dither.local.mean import GRID_BITS, Mean
from dither.local.ordered import Ordered
from dither.local.window import Window
from dither.local.wire import Payloads, get_int, int_width, put_int
from dither.privacy.noise import Words
from dither.stored import stored

Floats = NDArray[np.float64]


@stored(buckets="buckets")
@dataclass(frozen=True)
class SquareWave(Mean):
    """Distribution of a number in [low, high] over equal buckets."""

    type = "square_wave"
    buckets: int = 64

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 2 <= self.buckets <= 4096:
            raise ParameterError("buckets must be an integer between 2 and 4096")

    @property
    def width(self) -> int:
        """Cells of the window: 2b of the paper, b the value that maximises the information, in
        buckets."""
        e = exp(float(self.epsilon))
        x = float(self.epsilon)
        half = (x * e - e + 1) / (2 * e * (e - 1 - x))
        return max(1, round(2 * half * self.buckets))

    @property
    def grid_error(self) -> float:
        """Relative difference of the window's width from the paper's: what rounding to cells cost,
        in utility only."""
        e = exp(float(self.epsilon))
        x = float(self.epsilon)
        return self.width * e * (e - 1 - x) / ((x * e - e + 1) * self.buckets) - 1

    @property
    def cells(self) -> int:
        return self.buckets + self.width - 1

    @property
    def window(self) -> Window:
        return Window(self.odds, self.cells, self.width)

    @property
    def payload_bytes(self) -> int:
        return int_width(self.cells - 1)

    def derived(self) -> dict[str, Any]:
        return {"inside": self.window.inside, "width": self.width, "grid_bits": GRID_BITS}

    def bucket(self, values: Any) -> NDArray[np.int64]:
        """The bucket of each value."""
        buckets: NDArray[np.int64] = np.minimum(
            self.grid(values) * self.buckets >> GRID_BITS, self.buckets - 1
        )
        return buckets

    def inputs(self) -> list[float]:
        step = float(self.high - self.low) / self.buckets
        return [float(self.low) + step * (i + 0.5) for i in range(self.buckets)]

    def memo_key(self, value: Any, device: int) -> str:
        return str(int(self.bucket([value])[0]))

    def permanent(
        self, values: Any, source: Words, devices: NDArray[np.int64] | None = None
    ) -> Payloads:
        return put_int(self.window.draw(self.bucket(values), source), self.payload_bytes)

    def law(self, value: Any) -> dict[bytes, Fraction]:
        """Compute the exact probability of every payload that a device holding `value` may send.

        A payload is a cell; the cells of the window around the value's bucket are the
        likelier ones.
        """
        start = int(self.bucket([value])[0])
        return {
            y.to_bytes(self.payload_bytes, "little"): self.window.weight(start, y)
            for y in range(self.cells)
        }

    @property
    def tally_size(self) -> int:
        return self.cells

    def valid(self, payloads: Payloads) -> NDArray[np.bool_]:
        return get_int(payloads) < self.cells

    def tally(self, payloads: Payloads) -> NDArray[np.int64]:
        return np.bincount(get_int(payloads), minlength=self.cells)

    def debias(self, tally: NDArray[Any], reports: int) -> NDArray[Any]:
        """The histogram of cells itself, whose law is known exactly."""
        return tally

    def target(self, value: Any) -> NDArray[Any]:
        return np.array(list(self.law(value).values()), object)

    def user_variance(self, value: Any) -> NDArray[Any]:
        return np.array([w * (1 - w) for w in self.law(value).values()], object)

    def second_moment(self, share: Fraction) -> Fraction:
        raise ParameterError(
            "square wave estimates a distribution: use one_bit, piecewise or hybrid for a mean"
        )

    @property
    def largest_move(self) -> Fraction:
        return Fraction(1)

    def matrix(self) -> Floats:
        """P(cell | bucket): cells x buckets."""
        rows = np.arange(self.cells)[:, None]
        columns = np.arange(self.buckets)[None, :]
        hit = (rows >= columns) & (rows < columns + self.width)
        return np.where(hit, float(self.odds), 1.0) / float(self.window.total)

    def distribution(
        self,
        tally: NDArray[np.int64],
        *,
        smooth: bool = True,
        rounds: int = 2000,
        tolerance: float = 1e-6,
    ) -> Floats:
        """Estimate the shares of the buckets by EM.

        `smooth`: a 1-2-1 average after every step, for smooth densities.
        """
        shares = np.full(self.buckets, 1 / self.buckets)
        if not tally.any():
            return shares
        matrix = self.matrix()
        counts = tally / tally.sum()
        before = -np.inf
        for _ in range(rounds):
            expected = matrix @ shares
            shares = shares * (matrix.T @ (counts / expected))
            if smooth:
                padded = np.concatenate([shares[:1], shares, shares[-1:]])
                shares = (padded[:-2] + 2 * padded[1:-1] + padded[2:]) / 4
            shares /= shares.sum()
            likelihood = float(counts @ np.log(matrix @ shares))
            if abs(likelihood - before) < tolerance * 1e-3:
                break
            before = likelihood
        return shares

    @cached_property
    def _solution(self) -> Floats:
        """Least squares: buckets x cells. Times the matrix it is the identity, so that it is
        unbiased."""
        matrix = self.matrix()
        return np.linalg.solve(matrix.T @ matrix, matrix.T).astype(np.float64)

    def contribute(self, weights: Floats) -> tuple[Contributions, Floats]:
        """One report's contributions to weighted sums of the unbiased bucket counts, and their
        means."""
        moves = weights @ self._solution
        moments = moves**2 @ self.matrix()
        return Contributions(moments, np.abs(moves).max(axis=1)), weights

    def ordered(self, tally: NDArray[np.int64], reports: int) -> Ordered:
        """Unbiased counts of the buckets, with intervals of ranges and quantiles (as buckets)."""
        return Ordered(self._solution @ tally, reports, self.contribute)

    def estimate(self, tally: NDArray[np.int64], reports: int) -> Estimate:
        """Estimate the count of every bucket by expectation maximisation.

        Its variance is not known, so intervals come from the unbiased least squares
        estimate that goes with it.
        """
        shares = self.distribution(tally)
        contributions, means = self.contribute(np.eye(self.buckets))
        variances = np.maximum(contributions.second_moments - means**2, 0.0)
        unbiased = Estimate(
            self._solution @ tally,
            variances @ (shares * reports),
            reports,
            float(contributions.largest.max()),
            variance_bounds=reports * variances.max(axis=1),
        )
        notes = (
            "values by expectation maximisation, intervals by unbiased least squares: no variance "
            "of the values is claimed",
        )
        unknown = np.full(self.buckets, np.nan)
        return Estimate(
            shares * reports,
            unknown,
            reports,
            float(reports),
            what="count",
            notes=notes,
            unbiased=unbiased,
        )
