"""A public grid for quantiles: the values that may be answered, in order.

It is fixed before any data is seen.

A large domain is coarsened by the rule of `dither.plan.grids.coarse_step`. A value belongs to the
last grid point at or below it, after clamping to the ends.

>>> QuantileGrid.between(0, 110)[35], QuantileGrid.between(0, 10**9).step
(35, 1000)
>>> QuantileGrid.of(["low", "middle", "top"])[1]
'middle'
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any

from dither.canonical import quote
from dither.errors import ParameterError
from dither.plan.grids import MOST_POINTS, coarse_step


@dataclass(frozen=True)
class QuantileGrid:
    """Either low, low + step, ...

    (`cells` of them) or an explicit increasing tuple of any ordered type.
    """

    low: Any
    step: Any
    cells: int
    values: tuple[Any, ...] | None = None

    @classmethod
    def between(
        cls,
        low: int | Fraction,
        high: int | Fraction,
        resolution: int | Fraction = 1,
        most: int = MOST_POINTS,
    ) -> QuantileGrid:
        """Make the grid of points from low to high, coarsened to at most `most` cells.

        Raises ParameterError for floats.
        """
        if any(isinstance(x, float) for x in (low, high, resolution)) or not (
            resolution > 0 and low <= high
        ):
            raise ParameterError(
                f"a grid needs exact low <= high and a positive resolution, got {quote(low)}, "
                f"{quote(high)}"
            )
        if most < 1:
            raise ParameterError(f"most must be positive, got {quote(most)}")
        length = int((Fraction(high) - Fraction(low)) // Fraction(resolution))
        step = coarse_step(length, most)
        return cls(low, step * resolution, length // step + 1)

    @classmethod
    def of(cls, values: Sequence[Any]) -> QuantileGrid:
        """Make the grid of exactly these values, strictly increasing.

        They can be of any ordered type: dates, decimals, text in its collation.
        """
        if not len(values) or any(not a < b for a, b in pairwise(values)):
            raise ParameterError(
                "the values of a grid must be strictly increasing, and at least one"
            )
        return cls(values[0], None, len(values), tuple(values))

    def __getitem__(self, cell: int) -> Any:
        if not 0 <= cell < self.cells:
            raise IndexError(cell)
        return self.values[cell] if self.values is not None else self.low + cell * self.step

    def cell(self, value: Any) -> int:
        """The cell of a value, clamped to the ends."""
        if self.values is not None:
            return max(0, bisect_right(self.values, value) - 1)
        return min(self.cells - 1, max(0, int((value - self.low) // self.step)))
