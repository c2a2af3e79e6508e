"""Runs of cells that have one score each: the cells of a grid that hold rows, and the gaps between
them. docs/proofs/quantiles.md."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

SAFE = 1 << 62
"""Below this, sums and products are exact in 64 bits."""


def rank_scores(
    below: NDArray[Any], inside: NDArray[Any], total: int, q: Fraction, goal: int | None = None
) -> NDArray[Any]:
    """Compute -max(0, b L - a n, b R - (b - a) n) for every cell, exactly.

    L are the rows below the cell, R those above, n all rows, and q = a / b. `goal` is b times the
    rank that is aimed at, where that is another than a n / b.
    """
    a, b = q.as_integer_ratio()
    if b * total >= SAFE and below.dtype != object:
        below = below.astype(object)
        inside = inside.astype(object)
    goal = a * total if goal is None else goal
    score: NDArray[Any] = below * -b
    score += goal
    score_from_above = (below + inside) * b
    score_from_above -= goal
    np.minimum(score, score_from_above, out=score)
    np.minimum(score, 0, out=score)
    return score


class GridRows(NamedTuple):
    """The rows on a grid from `low` to `high`, and b times the rank to choose, for the share a/b.

    `filled` are the cells that hold rows, `upto` the running sums of the rows in them.
    """

    filled: NDArray[Any]
    upto: NDArray[Any]
    low: int
    high: int
    q: Fraction
    goal: int

    @property
    def size(self) -> int:
        return self.high - self.low + 1


Runs: TypeAlias = tuple[NDArray[Any], NDArray[Any], NDArray[Any]]
"""Starts, lengths and scores of runs of cells that have one score each."""


def list_runs(grid: GridRows, first: int, last: int) -> Runs:
    """List starts, lengths and scores of filled[first:last] and the gaps: gap, cell, ..., gap."""
    filled, upto, low, high, q, goal = grid
    cells = filled[first:last]
    ends = upto[first:last]
    before = filled[first - 1] if first else low - 1
    after = filled[last] if last < len(filled) else high + 1
    fence = np.concatenate([[before], cells, [after]]).astype(np.int64)
    sums = np.concatenate([np.array([upto[first - 1] if first else 0], ends.dtype), ends])
    starts = _alternate(fence[:-1] + 1, cells)
    lengths = _alternate(fence[1:] - fence[:-1] - 1, np.ones(len(cells), np.int64))
    total = int(upto[-1]) if len(upto) else 0
    of_cells = rank_scores(sums[:-1], sums[1:] - sums[:-1], total, q, goal)
    return starts, lengths, _alternate(_score_gaps(sums, total, q, goal), of_cells)


def _score_gaps(sums: NDArray[Any], total: int, q: Fraction, goal: int) -> NDArray[Any]:
    """The `rank_scores` of gaps, below which these rows lie: a gap holds none, so its score is
    minus the distance of its rank from the goal."""
    if q.denominator * total >= SAFE and sums.dtype != object:
        sums = sums.astype(object)
    missed: NDArray[Any] = sums * q.denominator
    missed -= goal
    np.abs(missed, out=missed)
    np.negative(missed, out=missed)
    return missed


def _alternate(of_gaps: NDArray[Any], of_cells: NDArray[Any]) -> NDArray[Any]:
    """Put numbers of gaps and cells by turns, from the first gap to the last."""
    both = np.empty(len(of_gaps) + len(of_cells), of_gaps.dtype)
    both[0::2] = of_gaps
    both[1::2] = of_cells
    return both


def list_outside(grid: GridRows, first: int, last: int) -> Runs:
    """List the runs of cells that `_runs` left out."""
    starts, lengths, scores = list_runs(grid, 0, len(grid.filled))
    out = np.ones(len(starts), np.bool_)
    out[2 * first : 2 * last + 1] = False
    return starts[out], lengths[out], scores[out]
