"""Streams: what one person moves in the tree, sums without noise, planted levels, copies and forks,
and the price of all models on the way."""

from __future__ import annotations

import copy
import os
import pickle
from fractions import Fraction as F
from math import ceil, log2
from typing import Any

import numpy as np
import pytest

from dither import learn
from dither.errors import ParameterError
from dither.learn import streams
from dither.learn.streams import GradientTree, StreamPlan, plan_stream
from dither.privacy.losses import ADD_REMOVE, Adjacency, RoundedGaussian
from tests.datasets.regional_clinic import Clinic
from tests.learn.test_guarantees import CLASSIFIER, Untouchable
from tests.learn.test_tables import ROWS, clinic, connect

__all__ = ["clinic"]


class Recorder:
    """Noise that adds nothing, and keeps what it was asked to release."""

    def __init__(self) -> None:
        self.blocks: list[Any] = []

    def release(self, block: Any) -> Any:
        self.blocks.append(block.copy())
        return block


def run_tree(steps: int, vectors: Any, kind: type[StreamPlan] = StreamPlan) -> tuple[Any, Any]:
    """All sums of a tree without noise, and its blocks."""
    tree = GradientTree(kind(F(1), steps, 1.0, 1.0, 10), vectors.shape[1:], ADD_REMOVE)
    recorder = Recorder()
    tree._noise = recorder  # type: ignore[assignment]
    sums = [tree.add(vector) for vector in vectors]
    return np.array(sums), recorder.blocks


@pytest.mark.parametrize("steps", [1, 2, 3, 7, 8, 20])
def test_sums_without_noise_are_running_sums_with_a_block_for_each_digit(steps: int) -> None:
    vectors = np.random.default_rng(steps).integers(-99, 99, (steps, 1, 3))
    sums, blocks = run_tree(steps, vectors)
    assert (sums == vectors.cumsum(axis=0)).all()
    assert len(blocks) == steps  # one closes at each step: the others are in no sum


def find_largest_move(steps: int) -> float:
    """The squared length of what one person of length 1 moves in all released blocks, at worst."""
    worst = 0.0
    for step in range(steps):
        vectors = np.zeros((steps, 1, 1), np.int64)
        vectors[step] = 1
        _, blocks = run_tree(steps, vectors)
        worst = max(worst, float(sum((block**2).sum() for block in blocks)))
    return worst


class PrintedLevels(StreamPlan):
    """Planted bug: the logarithm rounded up, which is none at one step."""

    @property
    def levels(self) -> int:
        return max(1, ceil(log2(self.steps)))


def test_one_person_moves_the_tree_by_what_is_paid_for() -> None:
    """Brute force over all steps of trees of 1 to 40 steps; the printed number of levels is too
    small at every power of two."""
    for steps in range(1, 41):
        plan = StreamPlan(F(1), steps, 1.0, 1.0, 10)
        tree = GradientTree(plan, (1, 1), ADD_REMOVE)
        assert isinstance(tree.loss, RoundedGaussian)
        paid = tree.loss.l2_squared / tree.grid_steps**2
        assert find_largest_move(steps) <= paid == steps.bit_length()
    assert any(
        find_largest_move(steps) > PrintedLevels(F(1), steps, 1.0, 1.0, 10).levels
        for steps in (2, 4, 8, 16)
    )


def test_a_replaced_person_costs_twice_the_noise() -> None:
    plan = StreamPlan(F(1), 8, 1.0, 1.0, 10)
    single = GradientTree(plan, (1, 3), ADD_REMOVE).loss
    double = GradientTree(plan, (1, 3), Adjacency("replace", "row")).loss
    assert isinstance(single, RoundedGaussian) and isinstance(double, RoundedGaussian)
    assert double.l2_squared == 4 * single.l2_squared
    assert abs(double.sigma / single.sigma - 2) < 1e-6


def test_noise_of_a_sum_grows_with_the_binary_digits_of_its_step() -> None:
    """2,000 numbers after 7 and after 8 steps: three blocks and one. Chi-square with 2,000 degrees
    leaves [0.8, 1.25] with a chance below 1e-9."""
    plan = StreamPlan(F(8), 15, 1.0, 1.0, 10)
    tree = GradientTree(plan, (1, 2000), ADD_REMOVE)
    sigma = float(tree._noise.sigma)
    for step in range(1, 9):
        sums = tree.add(np.zeros((1, 2000), np.int64))
        ratio = float(np.mean((sums / sigma) ** 2)) / step.bit_count()
        assert 0.8 < ratio < 1.25


def make_people(rows: int = 4000) -> tuple[Any, Any]:
    draws = np.random.default_rng(2)
    X = draws.uniform(-1, 1, (rows, 2))
    return X, (draws.random(rows) < 1 / (1 + np.exp(-3 * X[:, 0]))).astype(int)


OPTIONS: dict[str, Any] = {
    "n": 4000,
    "bounds": (-1, 1),
    "classes": (0, 1),
    "bins": None,
    "delta": 1e-5,
}


def test_a_stream_learns_day_by_day_for_one_price() -> None:
    """The model that made the labels is right for 79% of the rows."""
    X, y = make_people()
    model = learn.StreamClassifier(2, steps=40, **OPTIONS)
    prices = []
    for day in range(40):
        model.partial_fit(X[day::40], y[day::40])
        prices.append(model.guarantee_.epsilon)
    assert model.n_iter_ == 40 and model.score(X, y) > 0.75
    assert set(prices) == {prices[0]} and 1.999 < prices[0] <= 2
    with pytest.raises(ParameterError, match="all 40 planned steps"):
        model.partial_fit(X, y)
    assert learn.StreamClassifier(2, **OPTIONS).fit(X, y).score(X, y) > 0.75


def test_a_copy_or_a_fork_of_a_stream_does_not_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Noise of a block would be drawn twice for one price; and an open block is an exact sum."""
    X, y = make_people(200)
    model = learn.StreamClassifier(2, steps=5, **OPTIONS).partial_fit(X, y)
    for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert "_tree" not in vars(twin)
        assert (twin.predict(X) == model.predict(X)).all()
        with pytest.raises(ParameterError, match="does not go on"):
            twin.partial_fit(X, y)
    monkeypatch.setattr(os, "getpid", lambda: 1)
    with pytest.raises(ParameterError, match="process where it began"):
        model.partial_fit(X, y)


@pytest.mark.parametrize(
    "wrong", [{"steps": 0}, {"steps": None}, {"clip": -1}, {"learning_rate": 0}, {"n": None}]
)
def test_what_breaks_a_stream_is_refused_before_a_value_is_read(wrong: dict[str, Any]) -> None:
    with pytest.raises(ParameterError):
        learn.StreamClassifier(**(CLASSIFIER | wrong)).partial_fit(Untouchable(), Untouchable())


def test_a_stream_is_of_arrays(clinic: Clinic) -> None:
    con = connect(clinic)
    with pytest.raises(ParameterError, match="arrays"):
        learn.StreamClassifier(1, n=ROWS).fit_table(con, "patients", target="readmitted")
    assert clinic.spent() == {"total": 0}


def test_settings_of_a_stream_are_public() -> None:
    plan = plan_stream(F(1), 10_000, 2.0, 64, None, None)
    assert plan.clip == 1 and plan.levels == 7
    assert plan == plan_stream(F(1), 10_000, 2.0, 64, None, None)
    assert streams.MOST_STEPS == 65536
