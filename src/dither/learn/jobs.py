"""What a curator needs to train a model as a job: an estimator by name, from plain parameters."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from dither.errors import ParameterError
from dither.learn import _MODULES
from dither.learn.base import PrivateEstimator
from dither.learn.model_files import write_model
from dither.learn.table_columns import TableRows
from dither.plan.algebra import Plan
from dither.plan.domain import Columns


def train_model(
    access: Any,
    name: str,
    parameters: Any,
    rows: tuple[Plan, Columns],
    target: str | None,
    columns: list[str],
) -> str:
    """Train the estimator of this name on the rows of a plan; the model as JSON text.

    `access` has the catalog, and opens the lease that pays for all steps.
    """
    estimator = make_estimator(name, parameters)
    estimator.fit_rows(access, TableRows(*rows), target=target, columns=columns)
    return write_model(estimator)


def make_estimator(name: str, parameters: Any) -> PrivateEstimator:
    """An estimator with these parameters; refused where it has no such name or parameter."""
    if name not in _MODULES:
        raise ParameterError(f"no estimator of this name: there are {', '.join(_MODULES)}")
    kind: type[PrivateEstimator] = getattr(import_module(f"dither.learn.{_MODULES[name]}"), name)
    known = kind().get_params(deep=False)
    if not isinstance(parameters, dict) or not set(parameters) <= set(known):
        raise ParameterError(f"the parameters of {name} are {', '.join(known)}")
    return kind(**parameters)
