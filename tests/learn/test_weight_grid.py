"""Weights chosen on grids: the exact law on neighbours, a planted scale, refusals, and accuracy."""

from __future__ import annotations

from fractions import Fraction as F
from itertools import product
from math import log
from typing import Any

import numpy as np
import pytest
from scipy.special import logsumexp
from sklearn.linear_model import LogisticRegression as PlainRegression

from dither import learn
from dither.errors import ParameterError
from dither.learn import weight_grid
from dither.learn.columns import declare_columns
from dither.learn.encode import encode_rows
from dither.learn.residuals import FACTOR_SCALE, THETA_SCALE
from dither.learn.weight_grid import RADII, add_losses, bound_loss, list_grid, make_choice
from dither.privacy.losses import Adjacency, Neighbours
from dither.privacy.mechanisms.score_selection import ScoreSelection
from tests.datasets.regional_clinic import Clinic
from tests.learn.test_guarantees import CLASSIFIER, Untouchable
from tests.learn.test_tables import ROWS, clinic, connect

__all__ = ["clinic"]

FACTS = declare_columns(["x"], (-1, 1), None, None)
EXTREMES = list(product((-1.0, 0.3, 1.0), (-1.0, 1.0, 0.0)))
"""A value and a sign; 0 for a label that is not declared."""
FEW = [(-1.0, 1.0), (0.5, -1.0)]
OPTIONS: dict[str, Any] = {"n": 2000, "bounds": (-1, 1), "classes": (0, 1), "bins": None}


def find_logarithms(
    people: list[tuple[float, float]], centre: Any, radius: float, choice: ScoreSelection, most: int
) -> Any:
    """Oracle: the logarithm of the chance of every point, from the scores and the scale."""
    values = np.array([value for value, _ in people])
    signs = np.array([sign for _, sign in people])
    points = list_grid(2, radius) + (0 if centre is None else centre)
    scores = -np.array(add_losses(encode_rows(FACTS, [values]), signs, points, centre, most), float)
    scaled = scores / float(choice.scale)
    return scaled - logsumexp(scaled)


def find_worst_loss(
    neighbours: Neighbours, shrink: int = 1, few: list[Any] = FEW, centre_at: Any = (0.7, -1.2)
) -> float:
    """The largest privacy loss of any choice over neighbours of a small table, for epsilon 1."""
    worst = 0.0
    for number, radius in enumerate(RADII):
        centre = None if number == 0 else np.array([centre_at]) * THETA_SCALE
        most = bound_loss(FACTS.largest_norm, radius, is_first=number == 0) // shrink
        adjacency = Adjacency(neighbours, "row")
        choice = make_choice(F(1), most, adjacency, is_first=number == 0)
        most *= shrink
        others = [[*few, person] for person in EXTREMES]
        laws = [find_logarithms(table, centre, radius, choice, most) for table in others]
        if neighbours == "add_remove":
            laws_before = [find_logarithms(few, centre, radius, choice, most)]
        else:
            laws_before = laws
        for one, two in product(laws_before, laws):
            worst = max(worst, float(np.abs(one - two).max()))
    return worst


@pytest.mark.parametrize("neighbours", ["add_remove", "replace"])
def test_no_neighbour_moves_a_chance_by_more_than_epsilon(neighbours: Neighbours) -> None:
    assert 0.2 < find_worst_loss(neighbours) <= 1


@pytest.mark.parametrize("neighbours", ["add_remove", "replace"])
def test_a_row_in_the_place_of_its_opposite_moves_no_chance_further(neighbours: Neighbours) -> None:
    """Where both rows are far on the wrong side losses are linear, and fall for one as they rise
    for the other: twice as far as one row moves them. A hundred others hold the likely points at
    the far end, so that the odds there show all of it."""
    few = [(-1.0, 1.0)] * 100
    assert 0.4 < find_worst_loss(neighbours, few=few, centre_at=(-7.5, 0.0)) <= 1


@pytest.mark.parametrize("neighbours", ["add_remove", "replace"])
def test_a_scale_for_a_quarter_of_the_loss_is_caught(neighbours: Neighbours) -> None:
    """Planted bug: losses are larger than the scale is for."""
    assert find_worst_loss(neighbours, shrink=4) > 1


def test_losses_are_those_of_the_logistic_model() -> None:
    """Oracle: ln(1 + e^-m) in floats, a step of 2**-10 of the margin apart at most."""
    values = np.array([-1.0, 0.25, 1.0])
    signs = np.array([1.0, -1.0, 0.0])
    points = np.array([[0.5, -2.0], [0.0, 7.5]]) * THETA_SCALE
    ours = add_losses(encode_rows(FACTS, [values]), signs, points, None, 1 << 30)
    for number, (intercept, slope) in enumerate(points / THETA_SCALE):
        margins = (intercept + slope * values) * signs
        expected = sum(np.logaddexp(0, -margins[:2]))
        assert abs(ours[number] / FACTOR_SCALE - expected) < 3 / 1024


def test_pure_epsilon_takes_the_grid_by_rule_and_finds_the_weights() -> None:
    """Oracle: scikit-learn's minimum. A choice falls short of the best by t scales with a chance
    below 4,096 e^-t: at epsilon 20 and 2,000 rows by less than 0.01 a row."""
    draws = np.random.default_rng(1)
    X = draws.uniform(-1, 1, (2000, 2))
    y = (draws.random(2000) < 1 / (1 + np.exp(-3 * X[:, 0] + X[:, 1]))).astype(int)
    model = learn.LogisticRegression(20, delta=0, **OPTIONS).fit(X, y)
    assert model.solver_ == "grid" and "pure epsilon" in model.solver_reason_
    assert model.guarantee_.epsilon == 20 and model.guarantee_.delta == 0
    plain = PlainRegression(C=1e6).fit(X, y)
    assert np.abs(model.coef_ - plain.coef_).max() < 1.0
    assert model.score(X, y) > plain.score(X, y) - 0.03


@pytest.mark.parametrize(
    ("name", "wrong", "words"),
    [
        ("SVC", {"delta": 0}, "logistic loss"),
        ("LogisticRegression", {"delta": 0, "classes": (0, 1, 2)}, "logistic loss"),
        ("LogisticRegression", {"delta": 0, "solver": "descent"}, "delta above 0"),
        ("LogisticRegression", {"delta": 0, "solver": "output"}, "delta above 0"),
        ("Ridge", {"delta": 0, "target_bounds": (0, 1)}, "delta"),
    ],
)
def test_what_is_not_pure_is_refused_before_a_value_is_read(
    name: str, wrong: dict[str, Any], words: str
) -> None:
    estimator = getattr(learn, name)()
    allowed = estimator.get_params()
    options = {key: value for key, value in (CLASSIFIER | wrong).items() if key in allowed}
    with pytest.raises(ParameterError, match=words):
        estimator.set_params(**options).fit(Untouchable(), Untouchable())


def test_many_features_and_tables_are_refused(clinic: Clinic) -> None:
    X = np.zeros((10, 9))
    with pytest.raises(ParameterError, match="up to 5 features"):
        learn.LogisticRegression(1, delta=0, **OPTIONS).fit(X, np.zeros(10))
    con = connect(clinic)
    for options in ({"delta": 0}, {"solver": "grid"}):
        with pytest.raises(ParameterError, match="exact iterates"):
            learn.LogisticRegression(1, n=ROWS, **options).fit_table(
                con, "patients", target="readmitted"
            )
    assert clinic.spent() == {"total": 0}


def test_the_loss_of_a_row_is_cut_off_where_the_scale_is_for_less() -> None:
    """Whatever the table says, no row adds more than `largest`."""
    rows = encode_rows(FACTS, [np.array([1.0])])
    points = list_grid(2, 8.0)
    for centre, least in ((None, 0), (np.zeros((1, 2)), -100)):
        added = add_losses(rows, np.array([-1.0]), points, centre, 100)
        assert max(added) == 100 and min(added) >= least
    assert weight_grid.bound_loss(1.0, 8.0, is_first=True) >= FACTOR_SCALE * log(1 + np.exp(8))
