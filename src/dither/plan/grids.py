"""The public grid on which a quantile is answered: a column's bounds, coarsened by one stated rule
(`coarse_step`).

A value belongs to the last point at or below it.
"""

from __future__ import annotations

from dataclasses import dataclass

from dither.errors import RefusedError
from dither.plan.algebra import Quantiles
from dither.plan.analyse import Analysed
from dither.plan.domain import Columns
from dither.plan.keys import bounds_in
from dither.rules import PrivacyRule

MOST_POINTS = 1 << 20


@dataclass(frozen=True)
class Points:
    """low, low + step, ... in the column's grid integers: `count` of them, and the last value is at
    most `high`."""

    low: int
    high: int
    step: int
    count: int

    def value(self, index: int) -> int:
        return self.low + index * self.step


def coarse_step(length: int, most: int = MOST_POINTS) -> int:
    """Choose the step of a grid: the least of 1, 2, 5, 10, ... that leaves at most `most` points.

    The points lie from 0 to `length`.

    >>> coarse_step(110), coarse_step(3 * 10**6), coarse_step(10**9)
    (1, 5, 1000)
    """
    step = 1
    while length // step + 1 > most:
        step = step * 5 // 2 if str(step)[0] == "2" else step * 2
    return step


def points_between(low: int, high: int, most: int = MOST_POINTS) -> Points:
    """
    >>> points_between(0, 110), points_between(0, 10**9).step
    (Points(low=0, high=110, step=1, count=111), 1000)
    """
    step = coarse_step(high - low, most)
    return Points(low, high, step, (high - low) // step + 1)


def points_in(column: str, columns: Columns) -> Points:
    """The grid of a column among analysed ones."""
    interval = bounds_in(column, columns)
    return points_between(interval.low, interval.high)


def points_of_rows(query: Quantiles, rows: Analysed) -> Points:
    """Make the grid of points of a quantile query.

    Raises RefusedError where shares or ends lie outside (0, 1), or the column has no bounds.
    """
    if not query.shares or any(not 0 < share < 1 for share in query.shares):
        raise RefusedError("quantiles at shares inside (0, 1)", rule=PrivacyRule.PARAMETER_RANGES)
    if query.ends is not None and not (
        len(query.ends) == 2 and all(0 < number < 1 for number in query.ends)
    ):
        raise RefusedError(
            "ends of quantiles at a level and for a part inside (0, 1)",
            rule=PrivacyRule.PARAMETER_RANGES,
        )
    return points_in(query.column, rows.columns)
