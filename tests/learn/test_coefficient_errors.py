"""Intervals of coefficients: their coverage, the closed form against a simulated descent, and what
is refused."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction as F
from typing import Any

import numpy as np
import pytest

from dither import learn
from dither.errors import ParameterError
from dither.learn.coefficient_errors import estimate_curvature, trace_steps
from dither.learn.descent import MOMENTUM, count_averaged, plan_descent
from tests.datasets.regional_clinic import Clinic
from tests.learn.test_tables import ROWS, clinic, connect

__all__ = ["clinic"]

TRUTH = np.array([2.0, -1.0, 0.0])


def draw_people(draws: Any, rows: int) -> tuple[Any, Any]:
    X = draws.uniform(-1, 1, (rows, 3))
    return X, (draws.random(rows) < 1 / (1 + np.exp(-0.5 - X @ TRUTH))).astype(int)


@pytest.mark.parametrize(
    ("epsilon", "rows", "fits"), [(2, 4000, 20), pytest.param(0.3, 8000, 60, marks=pytest.mark.all)]
)
def test_intervals_hold_the_coefficients_of_the_population(
    epsilon: float, rows: int, fits: int
) -> None:
    """95% intervals of three coefficients, new people in every fit. Fewer than two thirds of 60 (or
    of 180) hold with a chance below 1e-12 (binomial); measured: 84 to 86 of 90."""
    draws = np.random.default_rng(11)
    inside = 0
    for _ in range(fits):
        X, y = draw_people(draws, rows)
        model = learn.LogisticRegression(
            epsilon, n=rows, bounds=(-1, 1), classes=(0, 1), bins=None, intervals=True
        ).fit(X, y)
        low, high = model.coefficient_intervals().T
        inside += int(((low <= TRUTH) & (high >= TRUTH)).sum())
    assert inside >= 2 * fits
    assert model.guarantee_.epsilon <= epsilon
    assert model.guarantee_.releases == model.n_iter_ + model.plan_.moments


def test_the_law_of_descent_is_that_of_simulated_runs() -> None:
    """Oracle: 4,000 runs of the recursion itself with normal noise. A mean of 4,000 squares is
    within 15% with a chance above 1 - 1e-9."""
    plan = replace(plan_descent(F(1), 1000, 2.0, steps=30, learning_rate=0.3), penalty=0.02)
    eigenvalues = np.array([0.0, 0.01, 0.3, 1.0])
    reached, gains = trace_steps(eigenvalues, plan)
    draws = np.random.default_rng(12)
    for noise, target in ((0.0, 1.0), (1.0, 0.0)):
        theta = np.zeros((4000, 4))
        velocity = np.zeros_like(theta)
        total = np.zeros_like(theta)
        for step in range(plan.steps):
            gradient = eigenvalues * (theta - target) + noise * draws.normal(size=theta.shape)
            velocity = MOMENTUM * velocity + gradient + plan.penalty * theta
            theta = theta - plan.learning_rate * velocity
            if step >= plan.steps - count_averaged(plan.steps):
                total += theta / count_averaged(plan.steps)
        if noise == 0:
            assert np.allclose(total[0], reached)
        else:
            assert np.all(np.abs((total**2).mean(axis=0) / gains**2 - 1) < 0.15)


def test_the_curvature_is_that_of_normal_features() -> None:
    """Oracle: the mean over 400,000 drawn people; each number has an error of about 0.0005."""
    draws = np.random.default_rng(13)
    spread = np.array([[0.3, 0.1], [0.1, 0.2]])
    people = draws.multivariate_normal([0.2, -0.1], spread, 400_000)
    x = np.hstack([np.ones((400_000, 1)), people])
    theta = np.array([0.3, 1.5, -1.0])
    chances = 1 / (1 + np.exp(-x @ theta))
    drawn = (x * (chances * (1 - chances))[:, None]).T @ x / 400_000
    ours = estimate_curvature(x.T @ x / 400_000, theta)
    assert np.abs(ours - drawn).max() < 0.01


def test_intervals_without_noise_of_training_would_be_too_short() -> None:
    """Planted bug: intervals of the people alone. At epsilon 0.2 noise is most of the error."""
    draws = np.random.default_rng(14)
    X, y = draw_people(draws, 3000)
    model = learn.LogisticRegression(
        0.2, n=3000, bounds=(-1, 1), classes=(0, 1), bins=None, intervals=True
    ).fit(X, y)
    of_people = np.sqrt(4 * 3 / 3000)  # at least: curvature is at most E[x^2] / 4 = 1/12
    assert model.spread_[1:].min() > 2 * of_people


def test_intervals_are_bought_or_refused() -> None:
    X, y = draw_people(np.random.default_rng(15), 200)
    options: dict[str, Any] = {"n": 200, "bounds": (-1, 1), "classes": (0, 1), "bins": None}
    with pytest.raises(ParameterError, match="intervals=True"):
        learn.LogisticRegression(1, **options).fit(X, y).coefficient_intervals()
    for name, wrong in (
        ("SVC", {}),
        ("LogisticRegression", {"classes": (0, 1, 2)}),
        ("LogisticRegression", {"solver": "newton"}),
    ):
        with pytest.raises(ParameterError, match="two classes by the logistic loss and descent"):
            getattr(learn, name)(1, intervals=True, **(options | wrong)).fit(X, y)
    model = learn.LogisticRegression(1, intervals=True, **options).fit(X, y)
    again = learn.read_model(learn.write_model(model))
    assert (again.coefficient_intervals(0.9) == model.coefficient_intervals(0.9)).all()
    with pytest.raises(ParameterError, match="confidence"):
        model.coefficient_intervals(1.5)


def test_a_table_sells_intervals(clinic: Clinic) -> None:
    con = connect(clinic)
    model = learn.LogisticRegression(20, n=ROWS, bins=None, intervals=True, steps=40)
    plan = model.plan(con, "patients", target="readmitted", columns=["age"])
    model.fit_table(con, "patients", target="readmitted", columns=["age"])
    low, high = model.coefficient_intervals().T
    assert low[0] < model.coef_[0, 0] - model.bias_[1] < high[0] and low[0] > 0
    assert plan.releases == model.guarantee_.releases == 45
    ridge = learn.Ridge(epsilon=20, n=ROWS).fit_table(
        con, "patients", target="stays", columns=["age"]
    )
    again = learn.read_model(learn.write_model(ridge))
    assert (again.coefficient_intervals() == ridge.coefficient_intervals()).all()


def test_a_table_without_numbers_refuses_intervals_before_the_charge(clinic: Clinic) -> None:
    """It failed after the charge: the kernel needs a column of numbers as the label of moments."""
    con = connect(clinic)
    model = learn.LogisticRegression(1, n=ROWS, steps=5, intervals=True)
    with pytest.raises(ParameterError, match="needs a column of numbers"):
        model.fit_table(con, "patients", target="readmitted", columns=["ward", "urgent"])
    assert con.budget().pots[0].spent == 0


def test_moments_of_too_many_features_are_refused_before_the_charge(clinic: Clinic) -> None:
    """Their vector is longer than the kernel allows, which it said after all steps were paid."""
    con = connect(clinic)
    edges = {"age": [number / 8 for number in range(1, 600)]}
    model = learn.LogisticRegression(1, n=ROWS, steps=5, bins=edges, intervals=True)
    with pytest.raises(ParameterError, match="products of two of"):
        model.fit_table(con, "patients", target="readmitted", columns=["age"])
    assert con.budget().pots[0].spent == 0
