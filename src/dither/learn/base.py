"""What all estimators share: declared facts, the budget, and encoding.

They follow scikit-learn's conventions: parameters are stored as given and read in `fit`, what was
learnt ends in an underscore, `clone`, `get_params` and pipelines work. There is no `random_state`:
noise comes from the operating system.
"""

from __future__ import annotations

import json
import warnings
from abc import abstractmethod
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data

from dither.canonical import number_text
from dither.errors import ParameterError
from dither.learn.columns import ColumnFacts, declare_columns
from dither.learn.encode import FeatureRows, encode_rows
from dither.learn.guarantees import (
    check_settings,
    find_rho,
    make_ledger_guarantee,
    make_library_guarantee,
    read_budget,
    read_delta,
    read_people,
)
from dither.learn.leakage_lint import lint_target
from dither.learn.rehearsal import Rehearsal, rehearse_fit
from dither.learn.sums import Array, ArraySums, NoisySums, ReleasePlan
from dither.learn.table_columns import (
    TableFeatures,
    TableRows,
    find_rows,
    list_feature_columns,
    read_table_features,
)
from dither.learn.table_sums import TableSums
from dither.learn.training_plan import TrainingPlan, describe_training
from dither.privacy.charges.conversions import rho_for
from dither.privacy.losses import Adjacency

_NEIGHBOURS = ("add_remove", "replace")


@dataclass(frozen=True)
class TableTraining:
    """Everything public that training on a table needs."""

    rows: TableRows
    features: TableFeatures
    plan: ReleasePlan
    adjacency: Adjacency


def write_parameters(parameters: dict[str, Any]) -> str:
    """The parameters of an estimator as JSON text; exact numbers become texts."""
    try:
        return json.dumps(parameters, default=_write_number, allow_nan=False)
    except (TypeError, ValueError):
        raise ParameterError(
            "a parameter of this estimator is no number, text, list or dict: a served dataset "
            "trains with what JSON can write"
        ) from None


def _write_number(value: Any) -> Any:
    if isinstance(value, (Fraction, Decimal)):
        return str(value)
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError


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
        tags.input_tags.string = True
        tags.non_deterministic = True
        return tags

    def _read_public(self) -> None:
        """Check everything that is declared but the columns; refuses before a value is read."""
        check_settings(self.get_params(deep=False))
        self._people = read_people(self.n)
        self._delta = self._read_delta()
        if self.neighbours not in _NEIGHBOURS:
            raise ParameterError("neighbours is 'add_remove' or 'replace'")
        self._budget = read_budget(self.epsilon)

    def _read_delta(self) -> Fraction:
        return read_delta(self.delta, self._people)

    def _check_bounds(self) -> None:
        """Refuse columns without any declaration."""
        if self.bounds is None and not self.categories:
            raise ParameterError(
                "bounds are missing: declare bounds=(low, high) for all columns, or a dict by "
                "column, and categories={column: values}, from public knowledge and not from X"
            )

    def _validate(self, X: Any, y: Any = None, *, reset: bool) -> tuple[Any, Any]:
        """Check the form of X and y, as scikit-learn does, but for the values of X: a value that
        is no number is missing, since an error would show it."""
        options: dict[str, Any] = {"reset": reset, "ensure_all_finite": False, "dtype": None}
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

    def _encode(self, X: Any) -> FeatureRows:
        """Rows of the declared form, encoded: for predictions."""
        check_is_fitted(self)
        checked, _ = self._validate(X, reset=False)
        return encode_rows(self.columns_, list(checked.T))

    def _fit_arrays(self, X: Any, y: Any) -> Any:
        """Fit arrays for the whole budget of the estimator."""
        self._read_public()
        return self.fit_with_rho(X, y, find_rho(self._budget, self._delta))

    def fit_with_rho(self, X: Any, y: Any, rho: Fraction) -> Any:
        """Fit arrays for this rho in place of `epsilon`: the caller composes it with the rest.

        All that is public is checked first; then rows are encoded and learnt from by noisy sums.
        """
        self._read_public()
        self._check_bounds()
        self._read_target()
        checked, values = self._validate(X, y, reset=True)
        self.columns_ = self._declare()
        plan = self._plan_releases(rho, self._people, self.columns_)
        rows = encode_rows(self.columns_, list(checked.T))
        adjacency = Adjacency(self.neighbours, "row")
        sums = ArraySums(rows, self._encode_target(values, rows.size), plan, adjacency)
        self._learn(sums, plan)
        public = {"n": self._people, "features": self.columns_.width}
        self.guarantee_ = make_library_guarantee(sums.loss, sums.count, self._delta, public)
        return self

    def fit_table(
        self, con: Any, table_or_sql: str, *, target: str | None = None, columns: Any = None
    ) -> Any:
        """Fit a registered table, or the rows of a SELECT, through the kernel of a connection.

        The whole price is charged before the first step. Bounds, listed values and neighbours come
        from the catalog, the privacy unit too; `n` is declared in the constructor.
        """
        rows = find_rows(con, table_or_sql)
        document = self._fit_elsewhere(con, rows, target, columns)
        if document is None:
            return self.fit_rows(con, rows, target=target, columns=columns)
        from dither.learn.model_files import read_learnt

        read_learnt(self, document)
        return self

    def _fit_elsewhere(
        self, con: Any, rows: TableRows, target: str | None, columns: Any
    ) -> str | None:
        """The text of the model that a curator elsewhere trained as one job; None where it is here.

        All that is public is checked first, so that what it would refuse is not sent.
        """
        training = self._prepare_rows(con, rows, target, columns)
        for sentence in self._lint(training, target):
            warnings.warn(sentence, stacklevel=3)
        names = [str(column.name) for column in training.features.facts.columns]
        terms = {
            "estimator": type(self).__name__,
            "parameters": write_parameters(self.get_params(deep=False)),
            "rows": rows.plan,
            "target": target,
            "columns": names,
        }
        document: str | None = con.run_algorithm("fit", terms)
        return document

    def fit_rows(
        self, con: Any, rows: TableRows, *, target: str | None = None, columns: Any = None
    ) -> Any:
        """Fit the rows of a plan where the kernel is: `fit_table` once its table is bound."""
        training = self._prepare_rows(con, rows, target, columns)
        self.columns_ = training.features.facts
        with TableSums(con, training.rows.plan, training.features, target, training.plan) as sums:
            self._learn(sums, training.plan)
            paid = {"charged": number_text(sums.charged), "release": sums.release_id}
            grid_steps = sums.grid_steps
        names = [column.name for column in self.columns_.columns]
        self.feature_names_in_ = np.array(names, object)
        self.n_features_in_ = len(names)
        public = {
            "n": self._people,
            "features": self.columns_.width,
            "dataset": con.catalog.dataset,
        }
        self.guarantee_ = make_ledger_guarantee(
            training.plan,
            self._delta,
            training.adjacency,
            public | paid,
            grid_steps,
        )
        return self

    def plan(
        self, con: Any, table_or_sql: str, *, target: str | None = None, columns: Any = None
    ) -> TrainingPlan:
        """What `fit_table` would do and cost. Reads the catalog alone and spends nothing."""
        training = self._prepare_rows(con, find_rows(con, table_or_sql), target, columns)
        return describe_training(
            training.plan,
            training.features.facts,
            self._people,
            self._budget,
            self._delta,
            self._lint(training, target),
        )

    def rehearse(
        self, con: Any, table_or_sql: str, *, target: str | None = None, columns: Any = None
    ) -> Rehearsal:
        """Train on people who are invented from the catalog, with the planned settings and noise.

        Reads the catalog alone and spends nothing. For estimators with a target.
        """
        if target is None:
            raise ParameterError("a rehearsal scores predictions of a target: name one")
        training = self._prepare_rows(con, find_rows(con, table_or_sql), target, columns)
        classes = getattr(self, "classes_", None)
        return rehearse_fit(
            self,
            training.plan,
            training.features.facts,
            self._people,
            None if classes is None else len(classes),
        )

    def _lint(self, training: TableTraining, target: str | None) -> tuple[str, ...]:
        names = [str(column.name) for column in training.features.facts.columns]
        return lint_target(training.rows.plan, target, names)

    def _prepare_rows(
        self, con: Any, rows: TableRows, target: str | None, columns: Any
    ) -> TableTraining:
        """Check all that is public, and choose the settings."""
        self._read_public()
        self._read_table_target(rows, target)
        names = list_feature_columns(rows, target, columns)
        features = read_table_features(rows, names, self.bins)
        self._lower_delta(con)
        rho = rho_for(self._budget, self._delta)
        plan = self._plan_releases(rho, self._people, features.facts)
        adjacency = Adjacency(con.catalog.neighbours, con.catalog.unit.label)
        return TableTraining(rows, features, plan, adjacency)

    def _lower_delta(self, con: Any) -> None:
        """Take the delta of the budget where it is below the estimator's: a budget counts epsilon
        at its own delta, and pays no more than was stated."""
        if con.question_delta:
            self._delta = min(self._delta, con.question_delta)

    def _read_table_target(self, rows: TableRows, target: str | None) -> None:
        """Check the target of a table, and take its facts from the catalog."""

    def _read_target(self) -> None:
        """Check what is declared of the target; refuses before a value is read."""

    def _encode_target(self, y: Any, rows: int) -> Array:
        """The target as numbers of the grid."""
        return np.zeros(rows)

    @abstractmethod
    def _plan_releases(self, rho: Fraction, people: int, facts: ColumnFacts) -> Any:
        """A `ReleasePlan`: the settings of training, from public numbers alone."""

    @abstractmethod
    def _learn(self, sums: NoisySums, plan: Any) -> None:
        """Train on noisy sums."""
