"""After a fit: calibration and error of a classifier by group, on test rows that are public or paid
for.

All of it follows from one histogram: how many test rows each group, bin of the predicted chance and
label have. A row is in one cell, so one release with noise pays for everything that is read off it.
Proof: docs/proofs/private-learning.md#after-a-fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dither.canonical import Number
from dither.errors import ParameterError
from dither.learn.base import PrivateEstimator
from dither.learn.encode import find_codes
from dither.learn.guarantees import (
    ModelGuarantee,
    find_rho,
    make_library_guarantee,
    read_budget,
    read_delta,
    read_people,
)
from dither.learn.sums import Array, bound_vectors
from dither.learn.targets import encode_classes
from dither.privacy.losses import Adjacency, compose
from dither.privacy.mechanisms.rounded_gaussian import IntegerRoundedGaussian

BINS = 10
_STEPS = 1 << 8


@dataclass(frozen=True, eq=False)
class GroupMeasures:
    """What a classifier does in one group of test rows.

    `chances` are middles of the bins of predicted chances, `shares` how many of the rows of a bin
    are of the second class; `error` the share of wrong predictions, `noise` the standard deviation
    that noise gives to it.
    """

    group: Any
    rows: float
    error: float
    noise: float
    chances: Array
    shares: Array


@dataclass(frozen=True, eq=False)
class ClassifierMeasures:
    """The measures of all groups, and what they cost: None for public rows."""

    groups: tuple[GroupMeasures, ...]
    guarantee: ModelGuarantee | None


def measure_classifier(
    model: Any,
    X: Any,
    y: Any,
    *,
    groups: Any = None,
    group_values: Sequence[Any] = (),
    is_public: bool = False,
    epsilon: Number | None = None,
    delta: Number | None = None,
    n: int | None = None,
) -> ClassifierMeasures:
    """Calibration and error on test rows, for all of them or by group, for two classes.

    `groups` has a value for each row, and `group_values` all values that there can be. Rows that
    are not public are paid for with `epsilon`, at a declared number `n` of test rows; test rows
    that a model was trained on are paid for twice.
    """
    if len(model.classes_) != 2 or not hasattr(model, "predict_proba"):
        raise ParameterError("measures are of a classifier for two classes that gives chances")
    if is_public == (epsilon is not None):
        raise ParameterError("say that test rows are public, or pay for them: epsilon and n")
    if (groups is None) != (len(group_values) == 0):
        raise ParameterError("groups come with group_values: all values that there can be")
    names = tuple(group_values) or (None,)
    if is_public:
        return ClassifierMeasures(_describe(names, _count(model, X, y, groups, names), 0.0), None)
    people = read_people(n)
    chosen = read_delta(delta, people)
    rho = find_rho(read_budget(epsilon), chosen)
    adjacency = Adjacency("add_remove", "row")
    bound = bound_vectors(_STEPS**2, len(names) * BINS * 2, adjacency)
    noise = IntegerRoundedGaussian.for_rho(rho, bound, adjacency)
    if not isinstance(model, PrivateEstimator):
        raise ParameterError(
            "rows are paid for as if a row's chance followed from that row alone, which is known "
            "of models of dither.learn: give one of them, or public test rows"
        )
    measured = _count(model, X, y, groups, names, one_by_one=True)
    counts = noise.release(measured * _STEPS) / _STEPS
    guarantee = make_library_guarantee(compose(noise.loss()), 1, chosen, {"n": people})
    return ClassifierMeasures(_describe(names, counts, float(noise.sigma) / _STEPS), guarantee)


def _count(
    model: Any, X: Any, y: Any, groups: Any, names: tuple[Any, ...], *, one_by_one: bool = False
) -> Array:
    """Rows by group, bin of the predicted chance and label; a row outside of those is left out.

    `one_by_one` predicts every row by itself: in a product of all of them the last bits of a row
    may follow from how many others there are, and move it over the edge of a bin.
    """
    if one_by_one:
        rows = X.iloc if hasattr(X, "iloc") else np.asarray(X)
        chances = np.array([model.predict_proba(rows[i : i + 1])[0, 1] for i in range(len(X))])
    else:
        chances = model.predict_proba(X)[:, 1]
    chances = np.nan_to_num(chances, nan=0.0)
    bins = np.clip(np.floor(chances * BINS), 0, BINS - 1).astype(np.int64)
    labels = encode_classes(model.classes_, y)
    codes = np.zeros(len(bins), np.int64) if groups is None else find_codes(names, groups)
    is_counted = (labels >= 0) & (codes < len(names))
    cells = ((codes * BINS + bins) * 2 + labels)[is_counted]
    counts = np.bincount(cells, minlength=len(names) * BINS * 2)
    return counts.reshape(len(names), BINS, 2)


def _describe(names: tuple[Any, ...], counts: Array, noise: float) -> tuple[GroupMeasures, ...]:
    return tuple(
        _describe_group(name, np.asarray(cells, float), noise)
        for name, cells in zip(names, counts, strict=True)
    )


def _describe_group(name: Any, cells: Array, noise: float) -> GroupMeasures:
    """A bin below 1/2 predicts the first class, one above it the second."""
    rows = max(1.0, float(cells.sum()))
    wrong = float(cells[: BINS // 2, 1].sum() + cells[BINS // 2 :, 0].sum())
    sizes = np.maximum(cells.sum(axis=1), 1e-9)
    return GroupMeasures(
        group=name,
        rows=rows,
        error=min(1.0, max(0.0, wrong / rows)),
        noise=noise * float(np.sqrt(BINS)) / rows,
        chances=(np.arange(BINS) + 0.5) / BINS,
        shares=np.clip(cells[:, 1] / sizes, 0, 1),
    )
