"""Linear classifiers by gradient descent on noisy sums: logistic regression, and a support vector
machine whose hinge is rounded."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from math import sqrt
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from dither.canonical import Number
from dither.errors import ParameterError
from dither.learn.base import PrivateEstimator
from dither.learn.coefficient_errors import find_weight_errors, make_intervals
from dither.learn.columns import FEATURE_SCALE, ColumnFacts
from dither.learn.descent import DescentPlan, descend, plan_descent
from dither.learn.encode import FeatureRows, encode_rows
from dither.learn.guarantees import LIBRARY, find_rho, make_library_guarantee
from dither.learn.newton import NewtonPlan, plan_newton, step_by_newton
from dither.learn.perturbation import (
    MOST_EPSILON,
    REFUSED_MINIMUM,
    NoisyMinimum,
    check_convergence,
    find_strength,
    perturb_objective,
    perturb_output,
    read_signs,
)
from dither.learn.residuals import Loss
from dither.learn.sampled_descent import plan_samples
from dither.learn.solvers import ONE_RELEASE, choose_solver
from dither.learn.sums import Array, NoisyMoments, NoisySums
from dither.learn.table_columns import TableRows, find_target
from dither.learn.targets import encode_classes, read_classes, read_table_classes
from dither.learn.weight_grid import check_grid_width, choose_weights
from dither.privacy.charges.conversions import rho_for
from dither.privacy.losses import Adjacency, compose


class PrivateClassifier(ClassifierMixin, PrivateEstimator):
    """The base of classifiers: classes are declared, and scores are linear in the features."""

    classes: Any

    def _read_target(self) -> None:
        self.classes_ = read_classes(self.classes)
        self._check_classes()

    def _read_table_target(self, rows: TableRows, target: str | None) -> None:
        self.classes_ = read_table_classes(find_target(rows, target))
        self._check_classes()

    def _check_classes(self) -> None:
        """Refuse classes that the model is not for."""

    def _encode_target(self, y: Any, rows: int) -> Array:
        return encode_classes(self.classes_, y)

    def fit(self, X: Any, y: Any) -> Any:
        """Fit arrays that the caller holds; one row is one person. See `guarantee_`."""
        return self._fit_arrays(X, y)

    def decision_function(self, X: Any) -> Array:
        """Scores: positive for the second of two classes; else a column for each class."""
        check_is_fitted(self)
        scores = self._encode(X).multiply(self.weights_).T / FEATURE_SCALE
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def predict(self, X: Any) -> Array:
        """The class of every row."""
        scores = self.decision_function(X)
        codes = (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
        classes: Array = self.classes_[codes]
        return classes


class _DescentClassifier(PrivateClassifier):
    """A linear classifier by gradient descent."""

    clip: Any
    steps: Any
    learning_rate: Any
    penalty: Any

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
        clip: float | None = None,
        steps: int | None = None,
        learning_rate: float | None = None,
        penalty: float = 0.0,
        solver: str = "auto",
        intervals: bool = False,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.n = n
        self.bounds = bounds
        self.categories = categories
        self.classes = classes
        self.bins = bins
        self.neighbours = neighbours
        self.clip = clip
        self.steps = steps
        self.learning_rate = learning_rate
        self.penalty = penalty
        self.solver = solver
        self.intervals = intervals

    def _read_delta(self) -> Fraction:
        """A delta of 0 asks for pure epsilon."""
        if isinstance(self.delta, (int, float, Fraction)) and self.delta == 0:
            return Fraction(0)
        return super()._read_delta()

    def _check_classes(self) -> None:
        """Choose the solver, by rule unless it is stated."""
        self._choose_solver(is_table=False)

    def _read_table_target(self, rows: TableRows, target: str | None) -> None:
        super()._read_table_target(rows, target)
        self._choose_solver(is_table=True)

    def _choose_solver(self, *, is_table: bool) -> None:
        choice = choose_solver(
            self.solver,
            self._choose_loss(),
            is_table=is_table,
            neighbours=self.neighbours,
            is_pure=self._delta == 0,
        )
        self.solver_ = choice.name
        self.solver_reason_ = choice.reason
        if self.intervals and (choice.name != "descent" or self._choose_loss() != "logistic"):
            raise ParameterError(
                "intervals are for two classes by the logistic loss and descent: leave them out"
            )

    def _fit_arrays(self, X: Any, y: Any) -> Any:
        """A minimum that is released once is paid for as such; all else by noisy sums."""
        self._read_public()
        self._read_target()
        if self.solver_ in ONE_RELEASE:
            return self._fit_minimum(X, y)
        return super()._fit_arrays(X, y)

    def _fit_minimum(self, X: Any, y: Any) -> Any:
        """Fit arrays by one release of a noisy minimum."""
        self._check_bounds()
        if self.solver_ == "objective" and self._budget > MOST_EPSILON:
            raise ParameterError(f"solver='objective' is for epsilon up to {MOST_EPSILON}")
        checked, values = self._validate(X, y, reset=True)
        self.columns_ = self._declare()
        self._check_minimum()
        rows = encode_rows(self.columns_, list(checked.T))
        minimum = self._release_minimum(rows, self._encode_target(values, rows.size))
        self.weights_ = minimum.weights[None, :]
        public = {"n": self._people, "features": self.columns_.width, "solver": self.solver_}
        self.guarantee_ = make_library_guarantee(
            compose(*minimum.losses), len(minimum.losses), self._delta, public
        )
        if self.solver_ != "grid":
            self.guarantee_ = replace(self.guarantee_, trust=f"{LIBRARY}; {REFUSED_MINIMUM}")
        return self

    def _check_minimum(self) -> None:
        """Refuse, by public numbers, a minimum that has no proof or would not be reached."""
        width = self.columns_.width
        if self.solver_ == "grid":
            check_grid_width(width)
            return
        penalty = self.penalty * self._people
        longest = self.columns_.largest_norm
        if self.solver_ == "objective":
            penalty = find_strength(penalty, longest, self._budget)
        check_convergence(self._people, width, longest, penalty)

    def _release_minimum(self, rows: FeatureRows, labels: Array) -> NoisyMinimum:
        adjacency = Adjacency(self.neighbours, "row")
        penalty = self.penalty * self._people
        is_labelled, signs = read_signs(labels)
        if self.solver_ == "grid":
            codes = np.zeros(rows.size)
            codes[is_labelled] = signs
            return choose_weights(rows, codes, penalty, self._budget, adjacency)
        features = rows.expand()[is_labelled]
        longest = self.columns_.largest_norm
        if self.solver_ == "output":
            rho = find_rho(self._budget, self._delta)
            loss = self._choose_loss()
            return perturb_output(features, signs, longest, penalty, loss, rho, adjacency)
        return perturb_objective(
            features, signs, longest, penalty, self._budget, self._delta, adjacency
        )

    def _plan_releases(
        self, rho: Fraction, people: int, facts: ColumnFacts
    ) -> DescentPlan | NewtonPlan:
        if self.solver_ in ONE_RELEASE:
            raise ParameterError(
                f"solver={self.solver_!r} is paid by epsilon and delta, not in parts: use descent"
            )
        if self.solver_ == "newton":
            return plan_newton(
                rho, people, facts, steps=self.steps, clip=self.clip, penalty=self.penalty
            )
        if self.solver_ == "sampled":
            self._check_whole_budget(rho)
            return plan_samples(
                self._budget,
                self._delta,
                people,
                facts.largest_norm,
                steps=self.steps,
                learning_rate=self.learning_rate,
                clip=self.clip,
                penalty=self.penalty,
            )
        if self.intervals:
            facts.check_moments("intervals=True")
        return plan_descent(
            rho,
            people,
            facts.largest_norm,
            steps=self.steps,
            learning_rate=self.learning_rate,
            clip=self.clip,
            penalty=self.penalty,
            has_moments=bool(self.intervals),
        )

    def _check_whole_budget(self, rho: Fraction) -> None:
        """Refuse a part of the budget: samples are calibrated for epsilon and delta."""
        if rho not in (
            find_rho(self._budget, self._delta),
            rho_for(self._budget, self._delta),
        ):
            raise ParameterError(
                f"solver={self.solver_!r} is paid by epsilon and delta, not in parts: use descent"
            )

    def _choose_loss(self) -> Loss:
        return "logistic" if len(self.classes_) == 2 else "multinomial"

    def _learn(self, sums: NoisySums, plan: DescentPlan | NewtonPlan) -> None:
        self.plan_ = plan
        self.n_iter_ = plan.steps
        if isinstance(plan, NewtonPlan):
            self.weights_ = step_by_newton(sums, plan)
            return
        outputs = 1 if len(self.classes_) == 2 else len(self.classes_)
        self.weights_ = descend(sums, self._choose_loss(), outputs, plan)
        if plan.moments:
            self._find_errors(sums, plan)

    def _find_errors(self, sums: NoisySums, plan: DescentPlan) -> None:
        """Buy second moments, and tell from them how far the weights may be off."""
        released = [sums.release_moments(has_label=False) for _ in range(plan.moments)]
        matrix = np.mean([moments.matrix for moments in released], axis=0) / plan.people
        noise = released[0].noise / (sqrt(plan.moments) * plan.people)
        errors = find_weight_errors(
            self.weights_[0],
            NoisyMoments(matrix[:-1, :-1], noise),
            plan,
            sums.noise * plan.clip / plan.people,
        )
        self.bias_ = errors.bias
        self.spread_ = errors.spread

    def coefficient_intervals(self, confidence: float = 0.95) -> Array:
        """Intervals of the weights of the features, a row each: they hold the noise of all
        releases, the steps that were left to go, and the spread of the people.

        Bought with the model: `intervals=True`. They rest on a normal approximation, and on
        gradients that are not clipped, as is the rule with `intervals`.
        """
        check_is_fitted(self)
        if not hasattr(self, "spread_"):
            raise ParameterError("intervals are bought with the model: fit it with intervals=True")
        return make_intervals(self.coef_[0] - self.bias_[1:], self.spread_[1:], confidence)

    @property
    def coef_(self) -> Array:
        """Weights of the features but the intercept: `columns_.list_names()` names them."""
        coefficients: Array = self.weights_[:, 1:]
        return coefficients

    @property
    def intercept_(self) -> Array:
        """Weights of the intercept."""
        intercept: Array = self.weights_[:, 0]
        return intercept


class LogisticProbabilities:
    """Probabilities of classes from the scores of a logistic model."""

    decision_function: Any

    def predict_proba(self, X: Any) -> Array:
        """The probability of each class."""
        scores = self.decision_function(X)
        if scores.ndim == 1:
            scores = np.stack([np.zeros_like(scores), scores], axis=1)
        powers = np.exp(scores - scores.max(axis=1, keepdims=True))
        shares: Array = powers / powers.sum(axis=1, keepdims=True)
        return shares

    def predict_log_proba(self, X: Any) -> Array:
        """Logarithms of `predict_proba`."""
        logarithms: Array = np.log(np.maximum(self.predict_proba(X), 1e-300))
        return logarithms


class LogisticRegression(LogisticProbabilities, _DescentClassifier):
    """Private logistic regression: binary, or multinomial for three classes and more.

    `bounds` and `categories` declare the columns, `classes` the labels, `n` the number of people:
    public knowledge, never taken from X or y. Settings that are not stated follow by rule from
    public numbers. Proof: docs/proofs/private-learning.md.
    """


class SVC(_DescentClassifier):
    """A private linear support vector machine for two classes; its hinge is rounded (Huber).

    Parameters are those of `LogisticRegression`.
    """

    def __sklearn_tags__(self) -> Any:
        """For two classes."""
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    def _check_classes(self) -> None:
        if len(self.classes_) != 2:
            raise ParameterError("SVC is for two classes: use LogisticRegression for three or more")
        super()._check_classes()

    def _choose_loss(self) -> Loss:
        return "huber"
