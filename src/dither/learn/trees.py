"""Public trees over bins and listed values: the splits there can be, and where a row falls.

Splits are ranges (first, stop) of features, in the order of a heap, as the kernel has them
(`dither.plan.tree_functions`): a row goes to the second branch if its bin or value is in the range.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dither.errors import ParameterError
from dither.learn.columns import ColumnFacts, NumericColumn
from dither.learn.encode import FeatureRows
from dither.privacy.noise import uniform_below

Array = NDArray[Any]
NO_SPLIT = (0, 0)
"""Every row goes to the first branch."""
DEEPEST = 8


def list_column_splits(facts: ColumnFacts) -> list[list[tuple[int, int]]]:
    """All splits of every column that has bins or listed values: numbers from an edge on, single
    values, missing ones."""
    splits = []
    first = facts.dense_width
    for column in facts.columns:
        stop = first + column.hot_width
        if stop == first:
            continue
        if isinstance(column, NumericColumn):
            ranges = [(start, stop - 1) for start in range(first + 1, stop - 1)]
            ranges.append((stop - 1, stop))
        else:
            ranges = [(value, value + 1) for value in range(first, stop)]
        splits.append(ranges)
        first = stop
    return splits


def check_tree_columns(facts: ColumnFacts) -> None:
    """Refuse columns without bins or listed values."""
    if not facts.hot_columns:
        raise ParameterError(
            "a tree splits bins and listed values: leave bins='auto', or give edges"
        )


def draw_splits(facts: ColumnFacts, depth: int) -> Array:
    """A complete tree whose splits are drawn without data: a column, then one of its splits."""
    columns = list_column_splits(facts)
    splits = []
    for _ in range((1 << depth) - 1):
        ranges = columns[int(np.asarray(uniform_below(len(columns), 1))[0])]
        splits.append(ranges[int(np.asarray(uniform_below(len(ranges), 1))[0])])
    return np.array(splits, np.int64).reshape(-1, 2)


def find_leaves(splits: Array, rows: FeatureRows) -> NDArray[np.int64]:
    """The number of the leaf of every row, from the first branch to the last."""
    starts = _list_starts(rows.facts)
    nodes = np.zeros(rows.size, np.int64)
    every_row = np.arange(rows.size)
    columns = np.maximum(np.searchsorted(starts, splits[:, 0], side="right") - 1, 0)
    for _ in range((len(splits) + 1).bit_length() - 1):
        codes = rows.codes[columns[nodes], every_row]
        is_second = (codes >= splits[nodes, 0]) & (codes < splits[nodes, 1])
        nodes = 2 * nodes + 1 + is_second
    return nodes - len(splits)


def _list_starts(facts: ColumnFacts) -> list[int]:
    """The first feature of every column with bins or listed values."""
    starts = []
    first = facts.dense_width
    for column in facts.columns:
        if column.hot_width:
            starts.append(first)
        first += column.hot_width
    return starts


def count_rows(splits: Array, rows: FeatureRows, labels: Array, classes: int) -> Array:
    """How many rows there are in every leaf and class: in all, and with each bin or value."""
    is_labelled = labels >= 0
    cells = (find_leaves(splits, rows) * classes + labels)[is_labelled]
    size = (len(splits) + 1) * classes
    width = 1 + rows.facts.width - rows.facts.dense_width
    total = np.zeros(size * width, np.int64)
    total[::width] = np.bincount(cells, minlength=size)
    for codes in rows.codes:
        positions = cells * width + codes[is_labelled] - (rows.facts.dense_width - 1)
        total += np.bincount(positions, minlength=size * width)
    return total.reshape(len(splits) + 1, classes, width)


def read_depth(depth: Any, chosen: int) -> int:
    """The stated number of levels, else the one by rule."""
    if depth is None:
        return chosen
    if isinstance(depth, bool) or not isinstance(depth, int) or not 1 <= depth <= DEEPEST:
        raise ParameterError(f"depth is a number from 1 to {DEEPEST}")
    return depth
