"""Adaptive blocks: blocks of neighbouring cells that are split where a noisy score says so.

The cells of one count over one to three keys lie on a line, in a plane or in a space. A public tree
halves every axis: its root is all cells, its leaves are single cells. A block is split by a noisy
score: the rows in it (PrivTree), or how far its cells are from all being equal. This module has
the tree and the exact scores; the noise is in `privacy/mechanisms/adaptive_blocks.py`. Proof:
docs/proofs/adaptive-blocks.md.

>>> line = find_whole_block((5,))
>>> [block.stops[0] - block.starts[0] for block in split_block(line, (5,))]
[4, 1]
"""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from math import prod
from typing import Any, NamedTuple

from numpy.typing import NDArray

from dither.catalog import Neighbours
from dither.errors import RefusedError
from dither.plan.algebra import BlockCounts, Cells, Count, CountUnits, CountValues
from dither.plan.analyse import Analysed
from dither.plan.linear import find_aggregate, move_of_cells, refuse_open_keys
from dither.rules import PrivacyRule

MOST_AXES = 3
MOST_THRESHOLD = 1 << 40
SCORES = ("count", "deviation")
_COUNTS = (Count, CountValues, CountUnits)


class CellBlock(NamedTuple):
    """Neighbouring cells: from `starts` up to, and without, `stops` along every axis.

    `length` is that of the block in the public tree, a power of two: at the end of an axis the
    block has fewer cells. `depth` is the number of splits above it.
    """

    starts: tuple[int, ...]
    stops: tuple[int, ...]
    length: int
    depth: int

    @property
    def cell_count(self) -> int:
        """How many cells it has."""
        return prod(stop - start for start, stop in zip(self.starts, self.stops, strict=True))


def find_whole_block(axes: tuple[int, ...]) -> CellBlock:
    """The block of all cells, the root of the tree."""
    length = 1 << (max(axes) - 1).bit_length()
    return CellBlock((0,) * len(axes), axes, length, 0)


def split_block(block: CellBlock, axes: tuple[int, ...]) -> tuple[CellBlock, ...]:
    """The blocks of half the length, in the order of their first cells. Those without cells are
    left out."""
    half = block.length // 2
    corners = product(*((start, start + half) for start in block.starts))
    return tuple(
        CellBlock(
            corner,
            tuple(min(start + half, size) for start, size in zip(corner, axes, strict=True)),
            half,
            block.depth + 1,
        )
        for corner in corners
        if all(start < size for start, size in zip(corner, axes, strict=True))
    )


def take_block(cells: NDArray[Any], block: CellBlock) -> NDArray[Any]:
    """The numbers of a block's cells."""
    slices = map(slice, block.starts, block.stops)
    return cells[tuple(slices)].ravel()


def score_block(numbers: NDArray[Any], score: str) -> int:
    """The exact score of a block: its sum, or the least of sum |x - m| over all m.

    That least is reached where m is the median.
    """
    if score == "count":
        return add_up(numbers)
    ordered = sorted(numbers.tolist())
    half = len(ordered) // 2
    return int(sum(ordered[len(ordered) - half :]) - sum(ordered[:half]))


def add_up(numbers: NDArray[Any]) -> int:
    """Their exact sum: one of int64 would wrap around, and one row more would turn its sign."""
    return int(sum(numbers.tolist()))


def check_blocks(query: BlockCounts, rows: Analysed) -> None:
    """Refuse block counts that have no proof: of sums, with open keys, or with too many axes."""
    check_block_request(query)
    if not isinstance(find_aggregate(query.cells), _COUNTS):
        raise RefusedError(
            "block counts take the cells of one COUNT, COUNT(column) or COUNT(DISTINCT unit)",
            rule=PrivacyRule.NO_RULE,
        )
    refuse_open_keys(query.cells, rows)


def check_block_request(query: BlockCounts) -> None:
    """Refuse what is out of range or of another type, before any plan is analysed."""
    keys = query.cells.keys if type(query.cells) is Cells else ()
    if type(keys) is not tuple or not 1 <= len(keys) <= MOST_AXES:
        raise RefusedError(
            f"block counts take one to {MOST_AXES} keys, each of them an axis",
            rule=PrivacyRule.NO_RULE,
        )
    if query.score not in SCORES:
        raise RefusedError(f"blocks are split by {' or '.join(SCORES)}", rule=PrivacyRule.NO_RULE)
    is_share = type(query.tree_share) is Fraction and 0 < query.tree_share < 1
    is_threshold = type(query.threshold) is int and 0 <= query.threshold <= MOST_THRESHOLD
    if not is_share or not is_threshold:
        raise RefusedError(
            f"block counts take tree_share between 0 and 1, and a threshold from 0 to "
            f"{MOST_THRESHOLD:,}",
            rule=PrivacyRule.PARAMETER_RANGES,
        )


def block_move_in(query: BlockCounts, rows: Analysed, neighbours: Neighbours) -> int:
    """The most by which one unit moves all cells together, in L1."""
    return move_of_cells(query.cells, rows, neighbours).l1
