"""Quantiles with an interval in values, which needs no knowledge of the data.

Two more choices are made around each quantile.

The lower end is the exponential mechanism aimed t rows below the quantile, the upper end t rows
above, with t the number of rows by which such a choice misses with probability at most (1 - level)
/ 2: it is public. As many rows that nobody has stand in the lowest (or highest) cell, so that a
small group gets the bounds of the grid. An end passes the exact quantile only by missing by t rows
or more, whatever the data and however few. Guarantee: the losses of the quantiles and of two
exponential mechanisms for each, composed. Proof: docs/proofs/quantiles.md#ends.

>>> both = QuantilesWithEnds(Quantile(Fraction(1, 2), Fraction(1)), Fraction(1, 4), Fraction(19,
...     20), cells=8)
>>> both.rows(Fraction(1, 2)), both.release_sparse([2, 4, 6], [100_000, 2_000, 100_000], cells=8)
(25, [4, 4, 4])
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

from dither.canonical import positive, quote
from dither.error_terms import ErrorTerms
from dither.errors import ParameterError
from dither.privacy.losses import BoundedRange, Loss, Neighbours, compose
from dither.privacy.mechanisms.protocol import (
    SparseHistogram,
    check_filled_cells,
    sparse_histogram,
)
from dither.privacy.mechanisms.quantile import (
    Quantile,
    RowsOfUnits,
    choose,
    choose_quantile,
    rank_sensitivity,
)
from dither.privacy.mechanisms.quantile_levels import put_on_grid
from dither.privacy.mechanisms.quantiles import JointQuantiles
from dither.privacy.noise import Words
from dither.privacy.noise.source import check_source


@dataclass(frozen=True)
class QuantilesWithEnds(RowsOfUnits):
    """The quantiles of `point`, and two ends of an interval for each.

    Each end costs `epsilon_each`; the public grid has `cells` cells.
    """

    stored_name: ClassVar[str] = "QuantilesWithEnds"  # in digests of stored releases: never changes

    point: Quantile | JointQuantiles
    epsilon_each: Fraction
    level: Fraction
    cells: int

    def __post_init__(self) -> None:
        """Make epsilon_each exact, and check the level of the intervals."""
        object.__setattr__(self, "epsilon_each", positive(self.epsilon_each, "epsilon_each"))
        if not 0 < self.level < 1 or not float(1 - self.level):
            raise ParameterError(
                f"the level of ends must lie inside (0, 1), got {quote(self.level)}"
            )
        self.loss()

    @property
    def shares(self) -> tuple[Fraction, ...]:
        return self.point.shares

    @property
    def rows_per_unit(self) -> int:
        return self.point.rows_per_unit

    @property
    def neighbours(self) -> Neighbours:
        return self.point.neighbours

    @property
    def unit(self) -> str:
        return self.point.unit

    def loss(self) -> Loss:
        """What quantiles and ends cost together."""
        end = BoundedRange(self.epsilon_each, neighbours=self.neighbours, unit=self.unit)
        return compose(self.point.loss(), end * (2 * len(self.shares)))

    def error_terms(self, column: int = 0) -> ErrorTerms:
        """How far the rank of the quantile itself may be off.

        It also says how many rows away its ends are aimed.
        """
        share = column % len(self.shares)
        point = self.point.error_terms(share)
        return ErrorTerms(point.law, {**point.numbers, "aimed_rows": self.rows(self.shares[share])})

    @property
    def parameters(self) -> Mapping[str, Fraction]:
        """None: quantiles and ends have scales of their own."""
        return {}

    def describe(self) -> str:
        """The quantiles and their ends, in words."""
        return f"{self.point.describe()}, and two more choices around each for its interval"

    def release_exact(self, exact: SparseHistogram, source: Words) -> list[int]:
        """The chosen cells: all shares, then all lower ends, then all upper ones."""
        return self.release_sparse(exact.filled, exact.counts, cells=exact.cells, source=source)

    def scale(self, share: Fraction) -> Fraction:
        """Scores of an end are divided by this before noise is added.

        An end of the least or the largest value is aimed at a rank inside: it is not monotone.
        """
        neighbours: Neighbours = "add_remove" if self.point.by_rows else self.neighbours
        return 2 * self.rows_per_unit * rank_sensitivity(share, neighbours) / self.epsilon_each

    def rows(self, share: Fraction) -> int:
        """Compute t, the number of rows from the quantile at which an end is aimed.

        All cells beyond the exact quantile together win with chance at most cells * exp(-b t /
        scale); one row more covers every way to interpolate between two rows.
        """
        misses = math.log(2 * self.cells / float(1 - self.level)) * (1 + 1e-12)
        return math.ceil(self.scale(share) / share.denominator * Fraction(misses)) + 1

    def release(self, counts: Any, *, source: Words | None = None) -> list[int]:
        """The chosen cells; `counts` are the rows in every cell of the public grid."""
        return self.release_exact(sparse_histogram(counts), check_source(source))

    def release_sparse(
        self, filled_cells: Any, counts: Any, *, cells: int, source: Words | None = None
    ) -> list[int]:
        """Choose cells for all shares, then for all lower ends, then for all upper ones.

        Raises ParameterError for a grid of another size.
        """
        if cells != self.cells:
            raise ParameterError(
                f"the ends were made for a grid of {self.cells} cells, got {quote(cells)}"
            )
        filled, rows = check_filled_cells(filled_cells, counts, cells)
        supply = check_source(source)
        grid = put_on_grid(filled, rows, 0, cells - 1)
        if isinstance(self.point, Quantile):
            chosen = [choose_quantile(self.point, grid, supply)]
        else:
            chosen = self.point.release_sparse(filled, rows, cells=cells, source=supply)
        for share, scale, shift in self._aims:
            chosen.append(choose(grid, share, scale, supply, shift))
        return chosen

    @cached_property
    def _aims(self) -> tuple[tuple[Fraction, Fraction, int], ...]:
        """Share, scale and rows away of all lower ends, then of all upper ones."""
        return tuple(
            (share, self.scale(share), direction * self.rows(share))
            for direction in (-1, 1)
            for share in self.shares
        )
