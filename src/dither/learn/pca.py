"""Principal components of noisy second moments (Dwork, Talwar, Thakurta and Zhang 2014, "Analyze
Gauss"), with exact integers and rounded Gaussian noise."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin

from dither.canonical import Number
from dither.errors import ParameterError
from dither.learn.base import PrivateEstimator
from dither.learn.columns import FEATURE_SCALE, ColumnFacts
from dither.learn.sums import Array, NoisySums, ReleasePlan


class PCA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, PrivateEstimator):
    """Private principal components of columns that are scaled to [-1, 1] by their bounds.

    Columns are centred at the noisy mean, which the same release gives.
    """

    def __init__(
        self,
        epsilon: Number | None = None,
        *,
        delta: Number | None = None,
        n: int | None = None,
        bounds: Any = None,
        n_components: int | None = None,
        neighbours: str = "add_remove",
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.n = n
        self.bounds = bounds
        self.n_components = n_components
        self.neighbours = neighbours

    categories = None
    bins = None

    def fit(self, X: Any, y: Any = None) -> Any:
        """Fit an array that the caller holds; one row is one person. `y` is not read."""
        return self._fit_arrays(X, None)

    def _plan_releases(self, rho: Fraction, people: int, facts: ColumnFacts) -> ReleasePlan:
        width = len(facts.numbers)
        if self.n_components is not None and not 1 <= self.n_components <= width:
            raise ParameterError(f"n_components is a number from 1 to the {width} columns")
        return ReleasePlan(rho, 1)

    def _learn(self, sums: NoisySums, plan: ReleasePlan) -> None:
        moments = sums.release_moments().matrix[:-1, :-1]
        count = max(1.0, float(moments[0, 0]))
        self.mean_ = np.clip(moments[0, 1:] / count, -1, 1)
        covariance = moments[1:, 1:] / count - np.outer(self.mean_, self.mean_)
        eigenvalues, vectors = np.linalg.eigh(covariance)
        kept = self.n_components or len(eigenvalues)
        self.components_ = vectors[:, ::-1].T[:kept]
        self.explained_variance_ = np.maximum(eigenvalues[::-1][:kept], 0)
        self._n_features_out = kept

    def transform(self, X: Any) -> Array:
        """The coordinates of rows along the components."""
        scaled = self._encode(X).dense[1:].T / FEATURE_SCALE
        coordinates: Array = (scaled - self.mean_) @ self.components_.T
        return coordinates
