"""PATE: prices of noisy votes, and what one teacher can change."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest

from dither import accounting
from dither.audit import test as audit
from dither.audit.verdict import Budget
from dither.errors import ParameterError
from dither.learn.deep.votes import NO_ANSWER, VoteAggregator, VotePlan, count_votes, plan_votes

SURE = np.repeat(np.array([[1, 2, 0]]), 400, axis=0)


def test_pure_noise_of_the_book_costs_what_the_book_says() -> None:
    """Scale 20 (gamma 0.1), 100 queries: 10 in sum, and below 5.30 at 1e-5, the independent moments
    of Papernot and others (2017)."""
    plan = plan_votes(queries=100, classes=10, epsilon=10, noise="laplace")
    assert plan.scale == 20 * 1024
    assert VoteAggregator(plan).guarantee.epsilon <= 10
    assert 3 < accounting.epsilon(plan.loss(), 1e-5).upper < 5.30


@pytest.mark.parametrize("threshold", [None, 200.0])
def test_gaussian_noise_meets_its_budget_by_the_closed_form(threshold: float | None) -> None:
    """All queries together are one Gaussian mechanism with mu^2 = queries 2 / sigma^2 (+ 1 / s^2);
    delta of Balle and Wang (2018)."""
    plan = plan_votes(queries=50, classes=5, epsilon=2, delta=1e-6, threshold=threshold)
    squared = 50 * 2 * 1024**2 / plan.scale**2
    squared += 50 * 1024**2 / plan.check_scale**2 if threshold else 0
    mu = math.sqrt(squared)

    def normal(x: float) -> float:
        return math.erfc(-x / math.sqrt(2)) / 2

    delta = normal(-2 / mu + mu / 2) - math.exp(2) * normal(-2 / mu - mu / 2)
    assert 0.99e-6 < delta <= 1e-6
    assert VoteAggregator(plan).guarantee.epsilon <= 2


def test_sure_votes_win_and_unsure_ones_are_declined() -> None:
    plan = plan_votes(queries=6, classes=3, epsilon=20, delta=1e-6, threshold=300)
    aggregator = VoteAggregator(plan)
    assert aggregator.answer(SURE).tolist() == [1, 2, 0]
    split = np.arange(400)[:, None] % 3 + np.zeros((1, 3), int)
    assert set(aggregator.answer(split).tolist()) == {NO_ANSWER}
    with pytest.raises(ParameterError, match="left"):
        aggregator.answer(SURE)


def test_one_teacher_changes_two_counts_by_one() -> None:
    changed = SURE.copy()
    changed[0] = [2, 2, 7]
    moved = count_votes(changed, 3) - count_votes(SURE, 3)
    assert np.abs(moved).sum(axis=1).tolist() == [2, 0, 1]


@pytest.mark.parametrize(
    "wrong",
    [
        {"classes": 1},
        {"queries": 0},
        {"epsilon": 0},
        {"delta": 0},
        {"noise": "none"},
        {"noise": "laplace", "threshold": 3},
    ],
)
def test_bad_plans_are_refused(wrong) -> None:
    with pytest.raises(ParameterError):
        plan_votes(**{"queries": 5, "classes": 3, "epsilon": 1, "delta": 1e-6} | wrong)


def answer_often(factor: int, threshold: float | None):
    """Answers to one query, many times, with noise that is too little by a factor."""
    plan = plan_votes(queries=1, classes=2, epsilon=1, delta=1e-3, threshold=threshold)
    small = VotePlan(
        **vars(plan) | {"scale": plan.scale // factor, "check_scale": plan.check_scale // factor}
    )

    def mechanism(votes: list[int], size: int):
        ballots = np.array(votes)[:, None] + np.zeros((1, size), int)
        return VoteAggregator(VotePlan(**vars(small) | {"queries": size})).answer(ballots)

    return mechanism


@pytest.mark.parametrize("threshold", [None, 4.0])
def test_honest_votes_are_not_refuted_and_quiet_ones_are(threshold: float | None) -> None:
    neighbours = [0, 0, 0, 1, 1, 1], [0, 0, 0, 1, 1, 0]
    budget = Budget(20_000, 1e-9)
    honest = audit(answer_often(1, threshold), *neighbours, 1.0, 1e-3, budget=budget)
    assert honest.outcome != "violated"
    quiet = audit(answer_often(30, threshold), *neighbours, 1.0, 1e-3, budget=budget)
    assert quiet.outcome == "violated"


def test_an_aggregator_is_not_copied_and_a_threshold_is_a_number() -> None:
    plan = plan_votes(queries=1, classes=2, epsilon=1, delta=1e-6)
    with pytest.raises(TypeError, match="copied"):
        copy.deepcopy(VoteAggregator(plan))
    with pytest.raises(ParameterError, match="threshold"):
        plan_votes(queries=1, classes=2, epsilon=1, delta=1e-6, threshold=math.nan)


def find_centres(points: np.ndarray, labels: np.ndarray) -> np.ndarray:
    return np.stack([points[labels == label].mean(axis=0) for label in range(3)])


def choose_nearest(centres: np.ndarray, points: np.ndarray) -> np.ndarray:
    return np.argmin(np.square(points[:, None] - centres).sum(axis=2), axis=1)


def test_a_student_learns_from_noisy_winners() -> None:
    """200 teachers of 9 rows each; three classes whose centres lie 6 deviations apart."""
    generator = np.random.default_rng(5)
    true_centres = np.array([[0.0, 0.0], [6.0, 0.0], [0.0, 6.0]])
    labels = np.tile(np.arange(3), 700)
    points = true_centres[labels] + generator.normal(size=(2100, 2))
    queries, tested = points[1800:1860], points[1860:]
    teachers = [
        find_centres(points[rows : rows + 9], labels[rows : rows + 9]) for rows in range(0, 1800, 9)
    ]
    votes = np.stack([choose_nearest(centres, queries) for centres in teachers])
    aggregator = VoteAggregator(plan_votes(queries=60, classes=3, epsilon=3, delta=1e-6))
    student = find_centres(queries, aggregator.answer(votes))
    assert np.mean(choose_nearest(student, tested) == labels[1860:]) > 0.95
    assert aggregator.guarantee.epsilon <= 3
