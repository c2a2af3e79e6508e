"""Gradient boosting with trees whose splits are drawn without data: all of the budget goes to the
scores of leaves.

Maddock et al. (2022, "Federated boosted decision trees with differential privacy") find such trees
with Newton steps to be the best use of a budget. A tree is one release: for every leaf, the sum of
slopes and the sum of curvatures of the logistic loss.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import inf, sqrt
from typing import Any

import numpy as np

from dither.canonical import Number
from dither.errors import ParameterError
from dither.learn.columns import ColumnFacts
from dither.learn.linear_classifiers import PrivateClassifier
from dither.learn.residuals import THETA_SCALE
from dither.learn.sums import Array, NoisySums, ReleasePlan
from dither.learn.trees import check_tree_columns, draw_splits, find_leaves, read_depth
from dither.plan.tree_functions import MOST_TREES, ScoredTree

_LARGEST_SCORE = 2.0
_FEWEST_TREES = 50
_GREATEST_TREES = 400
_NOISE = 0.15
"""Trees are added while noise on the mean slope of a leaf stays below this."""


@dataclass(frozen=True)
class BoostingPlan(ReleasePlan):
    """The settings of one run: a release for each tree."""

    depth: int
    learning_rate: float
    clip: float = sqrt(17) / 4


class GradientBoosting(PrivateClassifier):
    """Private gradient boosting for two classes, over public bins and listed values.

    `trees` and `depth` follow by rule from public numbers unless stated. The splits of a tree are
    drawn by the operating system, not from data.
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
        trees: int | None = None,
        depth: int | None = None,
        learning_rate: float = 0.2,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.n = n
        self.bounds = bounds
        self.categories = categories
        self.classes = classes
        self.bins = bins
        self.neighbours = neighbours
        self.trees = trees
        self.depth = depth
        self.learning_rate = learning_rate

    def __sklearn_tags__(self) -> Any:
        """For two classes."""
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    def _check_classes(self) -> None:
        if len(self.classes_) != 2:
            raise ParameterError(
                "GradientBoosting is for two classes: use DecisionTree for three or more"
            )

    def _plan_releases(self, rho: Fraction, people: int, facts: ColumnFacts) -> BoostingPlan:
        check_tree_columns(facts)
        if not 0 < self.learning_rate < inf:
            raise ParameterError("learning_rate is a positive number")
        depth = read_depth(self.depth, 3)
        trees = self.trees
        if trees is None:
            trees = choose_trees(rho, people / 2**depth)
        if isinstance(trees, bool) or not isinstance(trees, int) or not 1 <= trees <= MOST_TREES:
            raise ParameterError(f"trees is a number from 1 to {MOST_TREES:,}")
        return BoostingPlan(rho, trees, depth, float(self.learning_rate))

    def _learn(self, sums: NoisySums, plan: BoostingPlan) -> None:
        noise = plan.find_noise(plan.clip)
        forest: list[ScoredTree] = []
        for _ in range(plan.releases):
            splits = draw_splits(self.columns_, plan.depth)
            slopes, curvatures = sums.release_slopes(forest, splits)
            scores = -plan.learning_rate * slopes / (np.maximum(curvatures, 0) + 2 * noise + 1)
            steps = np.rint(np.clip(scores, -_LARGEST_SCORE, _LARGEST_SCORE) * THETA_SCALE)
            ranges = tuple((int(first), int(stop)) for first, stop in splits)
            forest.append(ScoredTree(ranges, tuple(map(int, steps))))
        self.splits_ = np.array([tree.splits for tree in forest])
        self.scores_ = np.array([tree.scores for tree in forest]) / THETA_SCALE
        self.n_iter_ = plan.releases

    def decision_function(self, X: Any) -> Array:
        """Scores: positive for the second class."""
        rows = self._encode(X)
        total = np.zeros(rows.size)
        for splits, scores in zip(self.splits_, self.scores_, strict=True):
            total += scores[find_leaves(splits, rows)]
        return total

    def predict_proba(self, X: Any) -> Array:
        """The probability of each class."""
        chances = 1 / (1 + np.exp(-self.decision_function(X)))
        return np.stack([1 - chances, chances], axis=1)


def choose_trees(rho: Fraction, people_of_leaf: float) -> int:
    """As many trees as leave little noise on the mean slope of a leaf of average size."""
    trees = int(2 * rho * Fraction(_NOISE * people_of_leaf) ** 2)
    return min(_GREATEST_TREES, max(_FEWEST_TREES, trees))
