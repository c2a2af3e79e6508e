"""Rows in the leaves of public trees: which leaf a row falls into, and what it adds there.

Features are integers below 2**13 as floats, so that sums over a range are exact; all else is
elementwise. So the leaf of a row depends on that row alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dither.plan.encodings import FEATURE_SCALE
from dither.plan.tree_functions import ScoredTree, Split, TreeCounts, count_leaves

Array = NDArray[Any]


def find_leaves(splits: tuple[Split, ...], features: Array) -> NDArray[np.int64]:
    """The number of the leaf of every row, from the first branch to the last."""
    nodes = np.zeros(features.shape[1], np.int64)
    for level in range(count_leaves(splits).bit_length() - 1):
        first_node = (1 << level) - 1
        is_second = np.zeros(len(nodes), bool)
        for node in range(first_node, 2 * first_node + 1):
            first, stop = splits[node]
            is_second |= (nodes == node) & (features[first:stop].sum(axis=0) > 0)
        nodes = 2 * nodes + 1 + is_second
    return nodes - len(splits)


def add_scores(forest: Sequence[ScoredTree], features: Array) -> Array:
    """The sum of the scores of every row in all trees, in steps of 2**-16."""
    total = np.zeros(features.shape[1])
    for tree in forest:
        total += np.array(tree.scores, float)[find_leaves(tree.splits, features)]
    return total


def count_in_leaves(function: TreeCounts, features: Array, codes: Array) -> Array:
    """The features of every row at the place of its leaf and class, and 0 elsewhere."""
    cells = find_leaves(function.splits, features) * function.classes + codes
    numbers = features if not function.is_leaf else np.full((1, len(cells)), float(FEATURE_SCALE))
    size = count_leaves(function.splits) * function.classes
    is_in = np.arange(size)[:, None] == np.where(codes < function.classes, cells, -1)
    vectors: Array = is_in[:, None, :] * numbers[None, :, :]
    return vectors.reshape(-1, len(cells))


def spread_over_leaves(numbers: Array, leaves: Array, size: int) -> Array:
    """Every number at the place of the row's leaf, and 0 elsewhere: one block for each number."""
    is_in = np.arange(size)[:, None] == leaves
    spread: Array = numbers[:, None, :] * is_in[None, :, :]
    return spread.reshape(-1, len(leaves))
