"""A rehearsal of training: the same settings and noise on people who are invented from the declared
columns alone. It shows what noise leaves of a model, and nothing about anybody."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from dither.learn.columns import FEATURE_SCALE, CategoryColumn, Column, ColumnFacts
from dither.learn.descent import DescentPlan, descend
from dither.learn.encode import FeatureRows, encode_rows
from dither.learn.residuals import Loss
from dither.learn.sums import Array, ArraySums
from dither.privacy.losses import ADD_REMOVE
from dither.privacy.noise import uniform_below

MOST_INVENTED = 20_000
_FINE = 1 << 30
_QUIET = Fraction(10**9)
"""The rho of a release whose noise is a step or two of 65,536 to the clip norm."""


@dataclass(frozen=True)
class Rehearsal:
    """Shares of right predictions on invented people: with the planned noise, with hardly any, and
    by the model that made the labels."""

    private_accuracy: float
    plain_accuracy: float
    true_accuracy: float


def rehearse_descent(loss: Loss, classes: int, plan: DescentPlan, facts: ColumnFacts) -> Rehearsal:
    """Train on invented people, with the noise of the plan on every mean.

    At most 20,000 are invented; rho grows with the square of what is left out, so that noise beside
    the mean gradient stays the planned one.
    """
    private = shrink_plan(plan)
    plain = replace(private, rho=_QUIET * plan.releases)
    columns = [invent_column(column, private.people) for column in facts.columns]
    rows = encode_rows(facts, columns)
    outputs = 1 if classes == 2 else classes
    truth = 2 * draw_uniforms((outputs, facts.width)) - 1
    truth[:, 0] -= np.median(rows.multiply(truth), axis=1) / FEATURE_SCALE
    labels = _draw_labels(rows, truth)
    return Rehearsal(
        _measure_accuracy(rows, labels, _train(rows, labels, loss, outputs, private)),
        _measure_accuracy(rows, labels, _train(rows, labels, loss, outputs, plain)),
        _measure_accuracy(rows, labels, truth),
    )


def shrink_plan(plan: DescentPlan) -> DescentPlan:
    """The plan for at most 20,000 people, with the same noise on a mean."""
    people = min(plan.people, MOST_INVENTED)
    return replace(plan, rho=plan.rho * Fraction(plan.people, people) ** 2, people=people)


def _train(rows: FeatureRows, labels: Array, loss: Loss, outputs: int, plan: DescentPlan) -> Array:
    return descend(ArraySums(rows, labels, plan, ADD_REMOVE), loss, outputs, plan)


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


def _predict(rows: FeatureRows, weights: Array) -> Array:
    margins = rows.multiply(weights) / FEATURE_SCALE
    codes: Array = margins.argmax(axis=0) if len(weights) > 1 else (margins[0] > 0).astype(int)
    return codes


def _draw_labels(rows: FeatureRows, truth: Array) -> Array:
    """Labels by the logistic model of `truth`; of several classes, the largest score."""
    if len(truth) > 1:
        return _predict(rows, truth)
    margins = rows.multiply(truth)[0] / FEATURE_SCALE
    chances = 1 / (1 + np.exp(-2 * margins))
    labels: Array = (draw_uniforms(rows.size) < chances).astype(int)
    return labels


def _measure_accuracy(rows: FeatureRows, labels: Array, weights: Array) -> float:
    return float(np.mean(_predict(rows, weights) == labels))
