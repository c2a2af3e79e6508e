"""Linear regression from noisy moments, and Poisson regression by gradient descent.

Ridge regression follows AdaSSP (Wang 2018, "Revisiting differentially private linear regression"):
X'X and X'y are released once with noise, and a penalty is added where noise could have made X'X
nearly singular. Here the smallest eigenvalue is read off the noisy X'X, which costs nothing.
"""

from __future__ import annotations

from fractions import Fraction
from math import inf, sqrt
from typing import Any

import numpy as np
from sklearn.base import RegressorMixin

from dither.canonical import Number
from dither.errors import ParameterError
from dither.learn.base import PrivateEstimator
from dither.learn.coefficient_errors import make_intervals
from dither.learn.columns import FEATURE_SCALE, ColumnFacts
from dither.learn.descent import DescentPlan, descend, plan_descent
from dither.learn.encode import read_numbers
from dither.learn.sums import Array, NoisyMoments, NoisySums, ReleasePlan
from dither.learn.table_columns import TableRows, find_target
from dither.learn.targets import read_target_bounds, restore_target, scale_target

_LARGEST_COUNT = 4096
_COUNT_CURVATURE = 8.0
"""Of the loss of counts, for the length of steps: larger ones are met by clipped gradients."""


class PrivateRegressor(RegressorMixin, PrivateEstimator):
    """The base of regressors: the bounds of the target are declared."""

    target_bounds: Any

    def fit(self, X: Any, y: Any) -> Any:
        """Fit arrays that the caller holds; one row is one person. See `guarantee_`."""
        return self._fit_arrays(X, y)

    def _read_target(self) -> None:
        self._bounds = read_target_bounds(self.target_bounds)

    def _read_table_target(self, rows: TableRows, target: str | None) -> None:
        domain = find_target(rows, target)
        if domain.kind == "category":
            raise ParameterError(f"{target!r} is a list of values: use a classifier, or a number")
        self._bounds = (float(domain.low * domain.step), float(domain.high * domain.step))

    def _encode_target(self, y: Any, rows: int) -> Array:
        return scale_target(self._bounds, y)

    def _score_rows(self, X: Any) -> Array:
        rows = self._encode(X)
        scores: Array = rows.multiply(self.weights_)[0] / FEATURE_SCALE
        return scores


class Ridge(PrivateRegressor):
    """Private ridge regression. `penalty` is added to X'X / n of the scaled features.

    Predictions lie within `target_bounds`. `coefficient_intervals()` includes the noise.
    """

    def __init__(
        self,
        epsilon: Number | None = None,
        *,
        delta: Number | None = None,
        n: int | None = None,
        bounds: Any = None,
        categories: Any = None,
        target_bounds: Any = None,
        bins: Any = None,
        neighbours: str = "add_remove",
        penalty: float = 0.0,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.n = n
        self.bounds = bounds
        self.categories = categories
        self.target_bounds = target_bounds
        self.bins = bins
        self.neighbours = neighbours
        self.penalty = penalty

    def _plan_releases(self, rho: Fraction, people: int, facts: ColumnFacts) -> ReleasePlan:
        if not 0 <= self.penalty < inf:
            raise ParameterError("penalty is not negative, such as 0.1")
        return ReleasePlan(rho, 1)

    def _learn(self, sums: NoisySums, plan: ReleasePlan) -> None:
        moments = sums.release_moments()
        weights, covariance = solve_moments(moments, self.penalty * self._people)
        self.weights_ = weights[None, :]
        self.spread_ = np.sqrt(np.maximum(np.diag(covariance), 0))

    @property
    def coef_(self) -> Array:
        """Weights of the features in units of the target, but the intercept."""
        low, high = self._bounds
        coefficients: Array = self.weights_[0, 1:] * ((high - low) / 2)
        return coefficients

    @property
    def intercept_(self) -> float:
        """The prediction where all features are 0."""
        low, high = self._bounds
        return float((self.weights_[0, 0] + 1) * (high - low) / 2 + low)

    def coefficient_intervals(self, confidence: float = 0.95) -> Array:
        """Intervals of `coef_`, a row each: the noise of the release and the spread of the data.

        They are for the model with this penalty, and rest on a normal approximation.
        """
        low, high = self._bounds
        return make_intervals(self.coef_, self.spread_[1:] * ((high - low) / 2), confidence)

    def predict(self, X: Any) -> Array:
        """The expected target of every row."""
        scores = self._score_rows(X)
        return restore_target(self._bounds, np.clip(scores, -1, 1))


class LinearRegression(Ridge):
    """Private least squares: `Ridge` without a penalty of its own."""

    def __init__(
        self,
        epsilon: Number | None = None,
        *,
        delta: Number | None = None,
        n: int | None = None,
        bounds: Any = None,
        categories: Any = None,
        target_bounds: Any = None,
        bins: Any = None,
        neighbours: str = "add_remove",
    ) -> None:
        super().__init__(
            epsilon,
            delta=delta,
            n=n,
            bounds=bounds,
            categories=categories,
            target_bounds=target_bounds,
            bins=bins,
            neighbours=neighbours,
        )


def solve_moments(moments: NoisyMoments, penalty: float) -> tuple[Array, Array]:
    """Weights of least squares from noisy moments, and the covariance of their error.

    Noise with a standard deviation s on each number of a symmetric matrix of width p has a largest
    eigenvalue near 2 s sqrt(p). The penalty lifts the smallest eigenvalue to that.
    """
    width = len(moments.matrix) - 1
    squares = moments.matrix[:width, :width]
    products = moments.matrix[:width, width]
    eigenvalues, vectors = np.linalg.eigh(squares)
    floor = max(2 * moments.noise * sqrt(width), 1e-9)
    ridge = max(penalty, floor - float(eigenvalues[0]))
    inverse = (vectors / (eigenvalues + ridge)) @ vectors.T
    weights = inverse @ products
    return weights, _estimate_covariance(moments, inverse, squares, weights)


def _estimate_covariance(
    moments: NoisyMoments, inverse: Array, squares: Array, weights: Array
) -> Array:
    """inverse (V + N) inverse: V of the residuals, N of the noise in X'y - (X'X) weights."""
    count = max(1.0, float(squares[0, 0]))
    products = moments.matrix[:-1, -1]
    residual = moments.matrix[-1, -1] - 2 * weights @ products + weights @ squares @ weights
    variance = max(0.0, float(residual)) / count
    noise = (1 + float(weights @ weights)) * np.eye(len(weights)) + np.outer(weights, weights)
    spread = variance * np.maximum(squares, 0) + moments.noise**2 * noise
    covariance: Array = inverse @ spread @ inverse
    return covariance


class PoissonRegression(PrivateRegressor):
    """Private Poisson regression of counts, with the logarithm as its link.

    `target_bounds` are the least and the largest count; larger counts are cut off.
    """

    def __init__(
        self,
        epsilon: Number | None = None,
        *,
        delta: Number | None = None,
        n: int | None = None,
        bounds: Any = None,
        categories: Any = None,
        target_bounds: Any = None,
        bins: Any = "auto",
        neighbours: str = "add_remove",
        clip: float | None = None,
        steps: int | None = None,
        learning_rate: float | None = None,
        penalty: float = 0.0,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.n = n
        self.bounds = bounds
        self.categories = categories
        self.target_bounds = target_bounds
        self.bins = bins
        self.neighbours = neighbours
        self.clip = clip
        self.steps = steps
        self.learning_rate = learning_rate
        self.penalty = penalty

    def __sklearn_tags__(self) -> Any:
        """Counts are not negative."""
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = True
        tags.regressor_tags.poor_score = True
        return tags

    def _read_target(self) -> None:
        super()._read_target()
        self._check_counts()

    def _read_table_target(self, rows: TableRows, target: str | None) -> None:
        super()._read_table_target(rows, target)
        self._check_counts()

    def _check_counts(self) -> None:
        low, high = self._bounds
        if low < 0 or high > _LARGEST_COUNT:
            raise ParameterError(f"counts lie between 0 and {_LARGEST_COUNT:,}: see target_bounds")

    def _encode_target(self, y: Any, rows: int) -> Array:
        low, high = self._bounds
        counts: Array = np.clip(read_numbers(y), low, high)
        return counts

    def _plan_releases(self, rho: Fraction, people: int, facts: ColumnFacts) -> DescentPlan:
        return plan_descent(
            rho,
            people,
            facts.largest_norm,
            steps=self.steps,
            learning_rate=self.learning_rate,
            clip=self.clip,
            penalty=self.penalty,
            curvature=_COUNT_CURVATURE,
        )

    def _learn(self, sums: NoisySums, plan: DescentPlan) -> None:
        self.plan_ = plan
        self.weights_ = descend(sums, "poisson", 1, plan)
        self.n_iter_ = plan.steps

    def predict(self, X: Any) -> Array:
        """The expected count of every row."""
        scores = self._score_rows(X)
        low, high = self._bounds
        counts: Array = np.clip(np.exp(np.minimum(scores, 700)), low, high)
        return counts
