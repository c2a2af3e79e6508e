"""Naive Bayes from noisy histograms of every column in every class.

Histograms are two releases: the sum of the features, and the multinomial gradient at weights 0,
which is that sum over the number of classes minus the sum in each class.
"""

from __future__ import annotations

from fractions import Fraction
from math import sqrt
from typing import Any

import numpy as np

from dither.canonical import Number
from dither.errors import ParameterError
from dither.learn.columns import ColumnFacts
from dither.learn.linear_classifiers import PrivateClassifier
from dither.learn.sums import Array, NoisySums, ReleasePlan


class NaiveBayes(PrivateClassifier):
    """Private naive Bayes over listed values and public bins.

    A noisy count below 0 is taken as 0, and `smoothing` people are added to every cell.
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
        self.smoothing = smoothing

    def _plan_releases(self, rho: Fraction, people: int, facts: ColumnFacts) -> ReleasePlan:
        if not self.smoothing > 0:
            raise ParameterError("smoothing is a positive number of people, such as 1")
        return ReleasePlan(rho, 2)

    def _learn(self, sums: NoisySums, plan: ReleasePlan) -> None:
        counts = release_class_sums(sums, self.columns_, len(self.classes_))
        self.weights_ = find_log_chances(self.columns_, counts, self.smoothing)

    def predict_proba(self, X: Any) -> Array:
        """The probability of each class."""
        scores = self.decision_function(X)
        if scores.ndim == 1:
            scores = np.stack([np.zeros_like(scores), scores], axis=1)
        powers = np.exp(scores - scores.max(axis=1, keepdims=True))
        shares: Array = powers / powers.sum(axis=1, keepdims=True)
        return shares


def release_class_sums(sums: NoisySums, facts: ColumnFacts, classes: int) -> Array:
    """The noisy sum of the features in every class, a row each: two releases."""
    norm = facts.largest_norm
    zero = np.zeros((classes, sums.width))
    gradient = sums.release_gradient("multinomial", zero, norm * sqrt(1 - 1 / classes) * (1 + 1e-3))
    features = sums.release_features(norm)
    counts: Array = features[None, :] / classes - gradient
    return counts


def find_log_chances(facts: ColumnFacts, counts: Array, smoothing: float) -> Array:
    """Weights that add up logarithms of chances: of the class, and of each column's value in it.

    For two classes one row is enough: the second minus the first.
    """
    cells = np.maximum(counts, 0) + smoothing
    weights = np.zeros_like(cells)
    weights[:, 0] = np.log(cells[:, 0] / cells[:, 0].sum())
    first = facts.dense_width
    for column in facts.columns:
        stop = first + column.hot_width
        if stop > first:
            chances = cells[:, first:stop]
            weights[:, first:stop] = np.log(chances / chances.sum(axis=1, keepdims=True))
        first = stop
    return weights[1:] - weights[:1] if len(weights) == 2 else weights
