"""The auditor on whole trainings: honest ones are not refuted, one with too little noise is."""

from __future__ import annotations

from fractions import Fraction as F
from typing import Any

import numpy as np
import pytest

from dither.audit import test as audit
from dither.audit.verdict import Budget
from dither.learn.columns import declare_columns
from dither.learn.descent import descend, plan_descent
from dither.learn.encode import encode_rows
from dither.learn.guarantees import find_rho
from dither.learn.sums import ArraySums, ReleasePlan
from dither.privacy.losses import ADD_REMOVE
from dither.privacy.mechanisms.rounded_gaussian import IntegerRoundedGaussian

EPSILON = F(1)
DELTA = F(1, 1000)
FACTS = declare_columns(["x"], (-1, 1), None, None)
FEW = [(-1.0, 0), (0.5, 1), (0.2, 1), (-0.3, 0)]
NEIGHBOURS = (FEW, [*FEW, (1.0, 0)])
"""With and without one row that every gradient is pulled by."""


class QuietSums(ArraySums):
    """The planted mistake: noise for a hundredth of the sensitivity."""

    def _pay(self, largest: int, length: int) -> IntegerRoundedGaussian:
        return super()._pay(largest // 100, length)


def train(kind: type[ArraySums], people: list[tuple[float, int]], size: int) -> Any:
    """The slope after two steps, `size` times."""
    plan = plan_descent(find_rho(EPSILON, DELTA), 1, 1.0, steps=2, learning_rate=1.0, clip=0.5)
    x, y = (np.array(column) for column in zip(*people, strict=True))
    rows = encode_rows(FACTS, [x])
    releases = ReleasePlan(plan.rho, plan.releases)
    sums = (kind(rows, y, releases, ADD_REMOVE) for _ in range(size))
    return np.array([descend(source, "logistic", 1, plan)[0, 1] for source in sums])


def train_honestly(people: list[tuple[float, int]], size: int) -> Any:
    return train(ArraySums, people, size)


def train_quietly(people: list[tuple[float, int]], size: int) -> Any:
    return train(QuietSums, people, size)


@pytest.mark.parametrize("runs", [400, pytest.param(20_000, marks=pytest.mark.all)])
def test_an_honest_training_is_not_refuted(runs: int) -> None:
    verdict = audit(
        train_honestly, *NEIGHBOURS, float(EPSILON), float(DELTA), budget=Budget(runs, 1e-9)
    )
    assert verdict.outcome != "violated"


def test_a_training_with_too_little_noise_is_refuted() -> None:
    """A hundred times too little: the row moves the slope by twenty standard deviations."""
    verdict = audit(
        train_quietly, *NEIGHBOURS, float(EPSILON), float(DELTA), budget=Budget(400, 1e-9)
    )
    assert verdict.outcome == "violated"
