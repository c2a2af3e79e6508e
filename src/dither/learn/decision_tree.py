"""A decision tree from noisy histograms: one release a level, and one for the leaves.

Every release counts, in all leaves so far, the rows of each class with each bin or listed value.
Splits are chosen from what was released, which costs nothing more.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import sqrt
from typing import Any

import numpy as np

from dither.canonical import Number
from dither.errors import ParameterError
from dither.learn.columns import ColumnFacts
from dither.learn.linear_classifiers import PrivateClassifier
from dither.learn.sums import Array, NoisySums, ReleasePlan
from dither.learn.trees import (
    NO_SPLIT,
    check_tree_columns,
    find_leaves,
    list_column_splits,
    read_depth,
)

_DEEPEST_BY_RULE = 6
_ROWS_PER_NOISE = 15
"""A level is added while the rows of a leaf are so many standard deviations of the noise."""


@dataclass(frozen=True)
class TreePlan(ReleasePlan):
    """The settings of one tree: a release for each level, and one for its leaves."""

    depth: int
    clip: float


class DecisionTree(PrivateClassifier):
    """A private decision tree over public bins and listed values.

    `depth` levels, by rule from public numbers unless stated. Noisy counts below 0 are taken as 0,
    and `smoothing` people are added to every class of a leaf.
    """

    def __init__(
        self,
        epsilon: Number | None = None,
        *,
        delta: Number | None = None,
        n: int | None = None,
        bounds: Any = None,
        categories: Any = None,
        classes: Any = None,
        bins: Any = "auto",
        neighbours: str = "add_remove",
        depth: int | None = None,
        smoothing: float = 1.0,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.n = n
        self.bounds = bounds
        self.categories = categories
        self.classes = classes
        self.bins = bins
        self.neighbours = neighbours
        self.depth = depth
        self.smoothing = smoothing

    def _plan_releases(self, rho: Fraction, people: int, facts: ColumnFacts) -> TreePlan:
        check_tree_columns(facts)
        if not self.smoothing > 0:
            raise ParameterError("smoothing is a positive number of people, such as 1")
        clip = sqrt(1 + facts.hot_columns)
        depth = read_depth(self.depth, choose_depth(rho, people, clip))
        return TreePlan(rho, depth + 1, depth, clip)

    def _learn(self, sums: NoisySums, plan: TreePlan) -> None:
        classes = len(self.classes_)
        splits = np.zeros((0, 2), np.int64)
        for _ in range(plan.depth):
            counts = sums.release_histograms(splits, classes)
            level = [
                choose_split(leaf, self.columns_, plan.find_noise(plan.clip)) for leaf in counts
            ]
            splits = np.vstack([splits, np.array(level, np.int64)])
        counts = sums.release_leaf_counts(splits, classes)
        self.splits_ = splits
        self.leaf_counts_ = np.maximum(counts, 0) + self.smoothing

    def predict_proba(self, X: Any) -> Array:
        """The share of each class in the leaf of every row."""
        leaves = find_leaves_of(self, X)
        counts = self.leaf_counts_[leaves]
        shares: Array = counts / counts.sum(axis=1, keepdims=True)
        return shares

    def decision_function(self, X: Any) -> Array:
        """Logarithms of shares: of the second class against the first; else one for each class."""
        logarithms: Array = np.log(self.predict_proba(X))
        return logarithms[:, 1] - logarithms[:, 0] if logarithms.shape[1] == 2 else logarithms


def find_leaves_of(model: Any, X: Any) -> Array:
    """The leaf of every row in the tree of a fitted model."""
    rows = model._encode(X)
    return find_leaves(model.splits_, rows)


def choose_depth(rho: Fraction, people: int, clip: float) -> int:
    """The largest depth whose leaves of average size stand well above the noise."""
    depth = 1
    while depth < _DEEPEST_BY_RULE:
        noise = clip * sqrt((depth + 2) / (2 * rho))
        if people / 2 ** (depth + 1) < _ROWS_PER_NOISE * noise:
            break
        depth += 1
    return depth


def choose_split(counts: Array, facts: ColumnFacts, noise: float) -> tuple[int, int]:
    """The split that leaves the purest branches (Gini), by noisy counts of one leaf.

    `counts` has a row for each class: all rows, then rows with each bin or value. A branch whose
    size noise could have made is no branch.
    """
    offset = facts.dense_width - 1
    best = NO_SPLIT
    total = np.maximum(counts[:, 0], 0)
    highest = _measure_purity(total)
    for ranges in list_column_splits(facts):
        for first, stop in ranges:
            second = np.clip(counts[:, first - offset : stop - offset].sum(axis=1), 0, total)
            smallest = 4 * noise * sqrt(len(total) * (stop - first))
            if min(second.sum(), (total - second).sum()) < smallest:
                continue
            purity = _measure_purity(second) + _measure_purity(total - second)
            if purity > highest:
                best = (first, stop)
                highest = purity
    return best


def _measure_purity(counts: Array) -> float:
    """The sum of squares over the sum: the size of a branch if all of it is of one class."""
    return float((counts**2).sum() / max(counts.sum(), 1e-9))
