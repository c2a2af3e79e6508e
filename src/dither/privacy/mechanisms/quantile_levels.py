"""Levels of the scores of a quantile, from which a cell is drawn in a few steps, however many rows
there are.

With c the scale and missed(g) minus the score of cell g, level j begins at the integer start[j] >=
j c ln 2: cells of level j have a weight exp(-missed / c) of at most 2**-j, and more than half of
that. Cells that miss by less than some number are one interval of the grid, so all levels are found
by binary search. A cell is proposed with a chance in proportion to 2**-level, and kept with chance
2**level exp(-missed / c). The last level holds all other cells, however far. Proof:
docs/proofs/quantiles.md#levels.
"""

from __future__ import annotations

from bisect import bisect_right
from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dither.privacy.noise import Words, uniform_below
from dither.privacy.noise.enclosed import decide
from dither.privacy.noise.enclosure import exp_minus

SAFE = 1 << 61
"""Below this, sums of four such numbers are exact in 64 bits."""
_ABOVE_LN2 = Fraction(6931472, 10**7)
_SPARE_LEVELS = 10
"""So many levels more than the grid has bits: of 2**10 proposals less than one is of the last."""


class GridRows(NamedTuple):
    """The rows on a grid.

    `fence` are its lowest cell, the cells that hold rows, and its highest one; `sums` are 0 and the
    running sums of the rows in these cells.
    """

    fence: NDArray[Any]
    sums: NDArray[Any]


class RankLevels(NamedTuple):
    """The levels of one choice: the share q = a / b of all rows, and `shift` rows above that.

    The cells of level j or less are an interval that begins at firsts[j]. Of its weights, in units
    of 2**-last, weights[j] are its size times 2**(last - 1 - j), in the last level its size; so a
    cell of level j has 2**(last - j) of all `total` weights.
    """

    grid: GridRows
    q: Fraction
    shift: int
    scale: Fraction
    starts: tuple[int, ...]
    firsts: list[int]
    weights: list[int]
    total: int

    @property
    def last(self) -> int:
        """The last level."""
        return len(self.starts) - 1


def put_on_grid(filled: NDArray[Any], rows: NDArray[Any], low: int, high: int) -> GridRows:
    """Add up the rows in the cells of a grid from `low` to `high`.

    Sums cannot wrap round: they are Python integers once 64 bits might not do.
    """
    if rows.dtype != object and len(rows) and float(rows.max()) * len(rows) >= SAFE:
        rows = rows.astype(object)
    fence = np.empty(len(filled) + 2, np.int64)
    fence[0] = low
    fence[1:-1] = filled
    fence[-1] = high
    sums = np.zeros(len(rows) + 1, rows.dtype)
    np.cumsum(rows, out=sums[1:])
    return GridRows(fence, sums)


def list_levels(grid: GridRows, q: Fraction, scale: Fraction, shift: int = 0) -> RankLevels:
    """Find the cells of every level by binary search in the running sums."""
    fence, sums = grid
    a, b = q.as_integer_ratio()
    rows = int(sums[-1])
    cells = int(fence[-1] - fence[0]) + 1
    starts = list_starts(scale, cells.bit_length() + _SPARE_LEVELS)
    is_wide = max(starts[-1], b * (rows + 1 + abs(shift))) >= SAFE
    reach = list_reach(starts, is_wide)
    sums_there = np.minimum(np.maximum((reach + (a * rows + b)) // b + shift, 0), rows + 1)
    edges = fence[np.searchsorted(sums, sums_there.astype(sums.dtype, copy=False))]
    lowest, highest = edges.reshape(2, -1)
    sizes = (highest - lowest + 1).tolist()
    weights = [size << len(sizes) - 1 - level for level, size in enumerate(sizes)]
    return RankLevels(
        grid,
        q,
        shift,
        scale,
        starts,
        [*lowest.tolist(), int(fence[0])],
        [*weights, cells],
        sum(weights) + cells,
    )


@lru_cache(maxsize=64)
def list_starts(scale: Fraction, last: int) -> tuple[int, ...]:
    """List where levels begin: integers that are at least level * scale * ln 2."""
    width, unit = (scale * _ABOVE_LN2).as_integer_ratio()
    return tuple(-(-level * width // unit) for level in range(last + 1))


@lru_cache(maxsize=64)
def list_reach(starts: tuple[int, ...], is_wide: bool) -> NDArray[Any]:
    """List how far below the goal, then above it, the sums of the cells of each level may be.

    With g = a n + b, the first sum that is not too small is (g - start) // b, and the first that is
    too large (g + start - 1) // b: where the next level starts at start.
    """
    ends = np.array(starts[1:], object if is_wide else np.int64)
    return np.concatenate([-ends, ends - 1])


def count_missed(levels: RankLevels, cell: int) -> int:
    """Compute b times the rows by which a cell misses the rank: max(0, b L - goal, goal - b (L +
    E)).

    L are the rows below the cell, and E those in it. No row lies below the lowest cell, and all do
    up to the highest, whatever the goal is.
    """
    fence, sums = levels.grid
    a, b = levels.q.as_integer_ratio()
    goal = a * int(sums[-1]) + b * levels.shift
    before = int(np.searchsorted(fence[1:-1], cell))
    holds_rows = before + 1 < len(sums) and fence[before + 1] == cell
    too_low = goal - b * int(sums[before + holds_rows]) if cell < fence[-1] else 0
    too_high = b * int(sums[before]) - goal if cell > fence[0] else 0
    return max(0, too_low, too_high)


def by_weight(levels: RankLevels, source: Words) -> int:
    """Choose a cell by the exponential mechanism: the first that is proposed and kept."""
    while True:
        cell = propose(levels, source)
        if is_kept(levels, count_missed(levels, cell), source):
            return cell


def by_flips(levels: RankLevels, source: Words) -> int:
    """Choose a cell by permute-and-flip: the first that is proposed and kept at its first visit.

    Cells are visited in continuous time, each at rate 1, and a visit is a proposal with chance
    2**-level. `stretches` are the rates, in units of 2**-last, of independent exponential times
    that lie between all that is known to have happened.
    """
    stretches: list[int] = []
    visited: set[int] = set()
    while True:
        stretches.append(levels.total)
        cell = propose(levels, source)
        if cell in visited:
            continue
        visited.add(cell)
        missed = count_missed(levels, cell)
        rate = (1 << levels.last) - (1 << levels.last - find_level(levels, missed))
        if not happens(stretches, rate, source) and is_kept(levels, missed, source):
            return cell


def propose(levels: RankLevels, source: Words) -> int:
    """Draw a cell, one of level j with a chance in proportion to 2**-j."""
    place = int(uniform_below(levels.total, source=source))
    level = 0
    while place >= levels.weights[level]:
        place -= levels.weights[level]
        level += 1
    return levels.firsts[level] + (place >> max(0, levels.last - 1 - level))


def find_level(levels: RankLevels, missed: int) -> int:
    """Find the level of cells that miss by so much."""
    return bisect_right(levels.starts, missed) - 1


def is_kept(levels: RankLevels, missed: int, source: Words) -> bool:
    """Throw the coin of a proposed cell: 2**level exp(-missed / scale), which is at most 1.

    It is thrown for every cell, also where it is sure.
    """
    level = find_level(levels, missed)
    gap = missed / levels.scale
    return decide(lambda bits: exp_minus(gap, bits + level), int(source.words(1)[0]), source)


def happens(stretches: list[int], rate: int, source: Words) -> bool:
    """Draw whether something that happens at this rate does so in these exponential times.

    `stretches` are their rates. They change to what is known of them after that.
    """
    for place, stretch in enumerate(stretches):
        stretches[place] = stretch + rate
        if int(uniform_below(stretch + rate, source=source)) < rate:
            stretches.insert(place + 1, stretch)
            return True
    return False
