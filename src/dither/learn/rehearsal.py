"""A rehearsal of training: the same settings and noise on people who are invented from the declared
columns alone. It shows what noise leaves of a model, and nothing about anybody."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, TypeVar

import numpy as np

from dither.learn.columns import FEATURE_SCALE, CategoryColumn, Column, ColumnFacts
from dither.learn.encode import FeatureRows, encode_rows
from dither.learn.sums import Array, ArraySums, ReleasePlan
from dither.privacy.losses import ADD_REMOVE
from dither.privacy.noise import uniform_below

Plan = TypeVar("Plan", bound=ReleasePlan)
MOST_INVENTED = 20_000
_FINE = 1 << 30
_QUIET = Fraction(10**9)
"""The rho of a release whose noise is a step or two of 65,536 to the clip norm."""


@dataclass(frozen=True)
class Rehearsal:
    """Scores on invented people: with the planned noise, with hardly any, and by the model that
    made the labels.

    A score is the share of right predictions; for numbers, the share of the variance that is
    explained.
    """

    private_accuracy: float
    plain_accuracy: float
    true_accuracy: float


def rehearse_fit(
    estimator: Any, plan: ReleasePlan, facts: ColumnFacts, people: int, classes: int | None
) -> Rehearsal:
    """Train an estimator on invented people, with the noise of the plan on every mean.

    At most 20,000 are invented; rho grows with the square of what is left out, so that noise beside
    a mean stays the planned one. `classes` is None for a target that is a number.
    """
    private = shrink_plan(plan, people)
    plain = replace(private, rho=_QUIET * plan.releases)
    size = min(people, MOST_INVENTED)
    rows = encode_rows(facts, [invent_column(column, size) for column in facts.columns])
    truth = 2 * draw_uniforms((1 if classes in (None, 2) else classes, facts.width)) - 1
    truth[:, 0] -= np.median(rows.multiply(truth), axis=1) / FEATURE_SCALE
    margins = rows.multiply(truth) / FEATURE_SCALE
    if classes is None:
        return _rehearse_numbers(estimator, rows, margins[0], private, plain)
    labels = _draw_labels(margins)
    guess = margins.argmax(axis=0) if len(margins) > 1 else (margins[0] > 0).astype(int)
    kinds = list(estimator.classes_)
    codes = {
        name: np.array([kinds.index(value) for value in _predict(estimator, rows, labels, used)])
        for name, used in (("private", private), ("plain", plain))
    }
    return Rehearsal(
        float(np.mean(codes["private"] == labels)),
        float(np.mean(codes["plain"] == labels)),
        float(np.mean(guess == labels)),
    )


def _rehearse_numbers(
    estimator: Any, rows: FeatureRows, margins: Array, private: ReleasePlan, plain: ReleasePlan
) -> Rehearsal:
    """The same for a number: half of its spread is explained by the features."""
    spread = float(np.std(margins)) or 1.0
    noise = np.sqrt(12) * (draw_uniforms(rows.size) - 0.5)
    low, high = estimator._bounds
    centre = (low + high) / 2
    reach = (high - low) / 8 / spread
    values = np.clip(centre + reach * (margins + spread * noise), low, high)
    labels = estimator._encode_target(values, rows.size)
    scores = [
        _explain(values, np.asarray(_predict(estimator, rows, labels, used), float))
        for used in (private, plain)
    ]
    return Rehearsal(scores[0], scores[1], _explain(values, centre + reach * margins))


def _explain(values: Array, predicted: Array) -> float:
    return 1 - float(np.mean((values - predicted) ** 2) / max(float(np.var(values)), 1e-12))


def shrink_plan(plan: Plan, people: int) -> Plan:
    """The plan for at most 20,000 people, with the same noise on a mean."""
    size = min(people, MOST_INVENTED)
    changes: dict[str, Any] = {"rho": plan.rho * Fraction(people, size) ** 2}
    if hasattr(plan, "people"):
        changes["people"] = size
    return replace(plan, **changes)


def _predict(estimator: Any, rows: FeatureRows, labels: Array, plan: ReleasePlan) -> Any:
    """What a copy of the estimator predicts for these rows when it has learnt from them."""
    model = copy(estimator)
    model.columns_ = rows.facts
    model._people = rows.size
    model._encode = lambda _: rows
    model._learn(ArraySums(rows, labels, plan, ADD_REMOVE), plan)
    return model.predict(rows)


def draw_uniforms(shape: int | tuple[int, ...]) -> Array:
    """Numbers between 0 and 1."""
    uniforms: Array = (np.asarray(uniform_below(_FINE, shape)) + 0.5) / _FINE
    return uniforms


def invent_column(column: Column, people: int) -> Any:
    """Values of a column, all equally likely."""
    if isinstance(column, CategoryColumn):
        codes = np.asarray(uniform_below(len(column.values), people))
        return np.array([column.values[code] for code in codes.tolist()], object)
    return column.low + (column.high - column.low) * draw_uniforms(people)


def _draw_labels(margins: Array) -> Array:
    """Labels by the logistic model of these scores; of several classes, the largest score."""
    if len(margins) > 1:
        codes: Array = margins.argmax(axis=0)
        return codes
    chances = 1 / (1 + np.exp(-2 * margins[0]))
    labels: Array = (draw_uniforms(margins.shape[1]) < chances).astype(int)
    return labels
