"""Tuning that is paid: every trial and every score is part of the guarantee.

All trials compose. Their scores are noisy, so looking at all of them costs nothing more. Private
selection that hides the losing trials is not done here: whoever can see a trial must be charged for
it.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.model_selection import ParameterGrid
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import check_is_fitted

from dither.accounting import epsilon as find_epsilon
from dither.errors import ParameterError
from dither.learn.guarantees import find_rho, read_budget, read_delta, read_people
from dither.learn.sums import Array
from dither.plan.norms import Sensitivity
from dither.privacy.loss_documents import read_loss
from dither.privacy.losses import Adjacency, compose
from dither.privacy.mechanisms.rounded_gaussian import IntegerRoundedGaussian
from dither.privacy.noise import uniform_below

_SCORE_SHARE = Fraction(1, 10)
"""Of what a trial costs, so much is for its score."""
_PUBLIC = frozenset(["epsilon", "delta", "n", "bounds", "categories", "classes", "neighbours"])


class PrivateSearchCV(ClassifierMixin, BaseEstimator):
    """The best of a grid of settings of a classifier, by paid accuracy on held-out rows.

    `epsilon` pays for all trials, their scores and the final fit together: `search_share` of the
    budget (as rho) for the search, the rest for the fit on all rows. A row is in the held-out part
    with a probability of one fifth, by a coin of its own. A `library guarantee`, as `fit` is.
    """

    def __init__(
        self,
        estimator: Any = None,
        param_grid: Any = None,
        *,
        search_share: float = 0.4,
    ) -> None:
        self.estimator = estimator
        self.param_grid = param_grid
        self.search_share = search_share

    def fit(self, X: Any, y: Any) -> Any:
        """Try all settings, buy their scores, and fit the best on all rows."""
        settings = self._read_settings()
        people = read_people(self.estimator.n)
        delta = read_delta(self.estimator.delta, people)
        rho = find_rho(read_budget(self.estimator.epsilon), delta)
        share = Fraction(self.search_share).limit_denominator(10**6)
        trial_rho = rho * share / len(settings)
        is_held_out = np.asarray(uniform_below(5, len(y))) == 0
        labels = np.asarray(y)
        fitted_rows = _safe_indexing(X, np.flatnonzero(~is_held_out))
        scored_rows = _safe_indexing(X, np.flatnonzero(is_held_out))
        scores = []
        losses = []
        releases = []
        for setting in settings:
            trial = clone(self.estimator).set_params(**setting)
            fit_rho = trial_rho * (1 - _SCORE_SHARE)
            trial.fit_with_rho(fitted_rows, labels[~is_held_out], fit_rho)
            is_right = trial.predict(scored_rows) == labels[is_held_out]
            noise = make_score_noise(trial_rho * _SCORE_SHARE, trial.neighbours)
            scores.append(int(noise.release([int(np.sum(is_right))])[0]))
            losses += [read_loss(trial.guarantee_.loss), noise.loss()]
            releases += [trial.guarantee_.releases, 1]
        self.scores_ = np.array(scores) * 5 / people
        self.best_params_ = settings[int(np.argmax(scores))]
        self.best_estimator_ = clone(self.estimator).set_params(**self.best_params_)
        self.best_estimator_.fit_with_rho(X, y, rho * (1 - share))
        losses.append(read_loss(self.best_estimator_.guarantee_.loss))
        releases.append(self.best_estimator_.guarantee_.releases)
        loss = compose(*losses)
        self.guarantee_ = replace(
            self.best_estimator_.guarantee_,
            epsilon=find_epsilon(loss, delta).upper,
            releases=sum(releases),
            loss=loss.to_json(),
            tuning=f"{len(settings)} trials and their scores are included in epsilon",
        )
        self.classes_ = self.best_estimator_.classes_
        self.n_features_in_ = self.best_estimator_.n_features_in_
        return self

    def _read_settings(self) -> list[dict[str, Any]]:
        if self.estimator is None or self.param_grid is None:
            raise ParameterError(
                "estimator and param_grid are missing: give a classifier and a dict"
            )
        settings = list(ParameterGrid(self.param_grid))
        public = _PUBLIC & {name for setting in settings for name in setting}
        if public:
            raise ParameterError(f"{min(public)} is declared, not tuned: set it in the estimator")
        if not settings or not 0 < self.search_share < 1:
            raise ParameterError("the grid has a setting, and search_share lies between 0 and 1")
        return settings

    def predict(self, X: Any) -> Array:
        """The class of every row, by the best model."""
        check_is_fitted(self)
        classes: Array = self.best_estimator_.predict(X)
        return classes


def make_score_noise(rho: Fraction, neighbours: Any) -> IntegerRoundedGaussian:
    """Noise for a count of right predictions, in which a row is counted once or not at all.

    A replaced row may leave the count or join it: it moves the count by 1 as well.
    """
    adjacency = Adjacency(neighbours, "row")
    return IntegerRoundedGaussian.for_rho(rho, Sensitivity.of(largest=1), adjacency)
