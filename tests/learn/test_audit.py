"""The auditor on whole trainings: honest ones are not refuted, one with too little noise is."""

from __future__ import annotations

from fractions import Fraction as F
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

from dither import learn
from dither.audit import test as audit
from dither.audit.verdict import Budget
from dither.learn.columns import declare_columns
from dither.learn.descent import descend, plan_descent
from dither.learn.encode import encode_rows
from dither.learn.guarantees import find_rho
from dither.learn.residuals import FACTOR_SCALE, find_residuals
from dither.learn.sums import ArraySums, ReleasePlan, quantise_weights
from dither.learn.weight_grid import choose_weights
from dither.privacy.losses import ADD_REMOVE
from dither.privacy.mechanisms.rounded_gaussian import IntegerRoundedGaussian
from dither.privacy.noise.rounded import rounded_gaussian

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


class InsideSums(ArraySums):
    """The planted mistake: noise is added to each row before it is clipped, not to the sum."""

    def release_gradient(self, loss: Any, theta: Any, clip: float) -> Any:
        noise = self._pay_gradient(theta.size)
        scale = float(noise.sigma) / self._grid_steps * clip
        factors = find_residuals(loss, self._rows.multiply(quantise_weights(theta)), self._labels)
        draws = np.asarray(rounded_gaussian(F(1 << 20), (self._rows.size, theta.size))) / (1 << 20)
        noisy = factors[0][:, None] / FACTOR_SCALE * self._rows.expand() + scale * draws
        norms = np.linalg.norm(noisy, axis=1, keepdims=True)
        return (noisy * np.minimum(1, clip / norms)).sum(axis=0)[None, :]


def train_stream(people: list[tuple[float, int]], size: int) -> Any:
    """The slope of a stream of three steps, all people in the first of them."""
    x, y = (np.array(column) for column in zip(*people, strict=True))
    model = learn.StreamClassifier(
        float(EPSILON), delta=float(DELTA), n=5, bounds=(-1, 1), classes=(0, 1), bins=None, steps=3
    )
    slopes = []
    for _ in range(size):
        stream = clone(model).partial_fit(x[:, None], y)
        slopes.append(stream.weights_[0, 1])
    return np.array(slopes)


def train_by_choice(people: list[tuple[float, int]], size: int) -> Any:
    """The slope that is chosen on grids: pure epsilon."""
    x, y = (np.array(column) for column in zip(*people, strict=True))
    rows = encode_rows(FACTS, [x])
    signs = np.where(y == 1, 1.0, -1.0)
    return np.array(
        [choose_weights(rows, signs, 0.0, EPSILON, ADD_REMOVE).weights[1] for _ in range(size)]
    )


@pytest.mark.parametrize(
    ("subject", "delta", "runs"),
    [
        (train_stream, float(DELTA), 60),
        pytest.param(train_stream, float(DELTA), 1000, marks=pytest.mark.all),
        pytest.param(train_by_choice, 0.0, 200, marks=pytest.mark.all),
    ],
)
def test_honest_streams_and_choices_are_not_refuted(subject: Any, delta: float, runs: int) -> None:
    verdict = audit(subject, *NEIGHBOURS, float(EPSILON), delta, budget=Budget(runs, 1e-9))
    assert verdict.outcome != "violated"


def test_noise_inside_the_sum_is_caught() -> None:
    """A row still moves the sum by its own length; the noise of 400 rows does not grow with the
    scale that was paid for, since every row is cut off at the clip norm after it."""
    sums = InsideSums(
        encode_rows(FACTS, [np.ones(400)]),
        np.ones(400, int),
        ReleasePlan(F(1, 10**6), 200),
        ADD_REMOVE,
    )
    theta = np.zeros((1, 2))
    draws = np.array([sums.release_gradient("logistic", theta, 0.5)[0, 1] for _ in range(200)])
    honest = ArraySums(
        encode_rows(FACTS, [np.ones(400)]),
        np.ones(400, int),
        ReleasePlan(F(1, 10**6), 1),
        ADD_REMOVE,
    )
    assert draws.std() < 0.1 * honest.noise * 0.5


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
