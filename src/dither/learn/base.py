"""What all estimators share: declared facts, the budget, and encoding.

They follow scikit-learn's conventions: parameters are stored as given and read in `fit`, what was
learnt ends in an underscore, `clone`, `get_params` and pipelines work. There is no `random_state`:
noise comes from the operating system.
"""

from __future__ import annotations

from abc import abstractmethod
from fractions import Fraction
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data

from dither.errors import ParameterError
from dither.learn.columns import ColumnFacts, declare_columns
from dither.learn.encode import EncodedRows, encode_rows
from dither.learn.guarantees import (
    find_rho,
    make_library_guarantee,
    read_budget,
    read_delta,
    read_people,
)
from dither.learn.sums import Array, ArraySums, NoisySums
from dither.privacy.losses import Adjacency

_NEIGHBOURS = ("add_remove", "replace")


class PrivateEstimator(BaseEstimator):
    """The base of all estimators. `fit(X, y)` is a library guarantee: the caller held the data."""

    epsilon: Any
    delta: Any
    n: Any
    bounds: Any
    categories: Any
    bins: Any
    neighbours: Any

    def __sklearn_tags__(self) -> Any:
        """Missing values are encoded by rule, and text where it is listed."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.non_deterministic = True
        return tags

    def _read_public(self) -> None:
        """Check everything that is declared but the columns; refuses before a value is read."""
        self._people = read_people(self.n)
        self._delta = read_delta(self.delta, self._people)
        if self.neighbours not in _NEIGHBOURS:
            raise ParameterError("neighbours is 'add_remove' or 'replace'")
        self._rho: Fraction = find_rho(read_budget(self.epsilon), self._delta)
        if self.bounds is None and not self.categories:
            raise ParameterError(
                "bounds are missing: declare bounds=(low, high) for all columns, or a dict by "
                "column, and categories={column: values}, from public knowledge and not from X"
            )

    def _validate(self, X: Any, y: Any = None, *, reset: bool) -> tuple[Any, Any]:
        """Check the form of X and y, as scikit-learn does."""
        options: dict[str, Any] = {"reset": reset, "ensure_all_finite": False}
        options["dtype"] = None if self.categories else "numeric"
        if y is None and reset and self.__sklearn_tags__().target_tags.required:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is None"
            )
        if y is None:
            return validate_data(self, X, **options), None
        checked, labels = validate_data(self, X, y, **options)
        return checked, labels

    def _declare(self) -> ColumnFacts:
        names = getattr(self, "feature_names_in_", range(self.n_features_in_))
        return declare_columns(list(names), self.bounds, self.categories, self.bins)

    def _encode(self, X: Any) -> EncodedRows:
        """Rows of the declared form, encoded: for predictions."""
        check_is_fitted(self)
        checked, _ = self._validate(X, reset=False)
        return encode_rows(self.columns_, list(checked.T))

    def _fit_arrays(self, X: Any, y: Any) -> Any:
        """Check all that is public, encode, and learn from noisy sums."""
        self._read_public()
        self._read_target()
        checked, values = self._validate(X, y, reset=True)
        self.columns_ = self._declare()
        plan = self._plan_releases(self._rho, self._people, self.columns_)
        rows = encode_rows(self.columns_, list(checked.T))
        adjacency = Adjacency(self.neighbours, "row")
        sums = ArraySums(rows, self._encode_target(values, rows.size), self._rho, adjacency)
        self._learn(sums, plan)
        public = {"n": self._people, "features": self.columns_.width}
        self.guarantee_ = make_library_guarantee(
            sums.loss, len(sums.loss.losses), self._delta, public
        )
        return self

    def _read_target(self) -> None:
        """Check what is declared of the target; refuses before a value is read."""

    def _encode_target(self, y: Any, rows: int) -> Array:
        """The target as numbers of the grid."""
        return np.zeros(rows)

    @abstractmethod
    def _plan_releases(self, rho: Fraction, people: int, facts: ColumnFacts) -> Any:
        """The settings of training, from public numbers alone."""

    @abstractmethod
    def _learn(self, sums: NoisySums, plan: Any) -> None:
        """Train on noisy sums."""
