"""Budgets and guarantees of fits on arrays: exact composition, declared numbers, refusals before a
value is read (rules P28, P43 and P44 of the review)."""

from __future__ import annotations

from fractions import Fraction as F
from typing import Any

import mpmath
import numpy as np
import pytest

from dither import accounting, learn
from dither.errors import ParameterError
from dither.learn.columns import declare_columns
from dither.learn.descent import descend, plan_descent
from dither.learn.encode import encode_rows
from dither.learn.guarantees import find_rho, read_delta
from dither.learn.sums import ArraySums, ReleasePlan, count_grid_steps
from dither.privacy.losses import Adjacency, RoundedGaussian
from tests.case_lists import mark_between

COMMON: dict[str, Any] = {"epsilon": 1, "n": 500, "bounds": (-3, 3)}
CLASSIFIER = COMMON | {"classes": (0, 1)}
REGRESSOR = COMMON | {"target_bounds": (-5, 5)}


def make_arrays(rows: int = 500) -> tuple[Any, Any]:
    draws = np.random.default_rng(5)
    X = draws.normal(size=(rows, 2))
    return X, (X[:, 0] + draws.normal(size=rows) > 0).astype(int)


class Untouchable:
    """An array whose values nobody may read."""

    shape = (500, 2)

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise AssertionError("a value was read")

    def __len__(self) -> int:
        raise AssertionError("rows were counted")


@pytest.mark.parametrize(("epsilon", "sigma"), [(1, "3.7306"), (F(1, 10), None), (3, None)])
def test_rho_is_that_of_the_exact_gaussian_curve(epsilon: Any, sigma: str | None) -> None:
    """Oracle: delta of Balle and Wang (2018) in mpmath; sigma 3.7306 at epsilon 1 is theirs."""
    rho = find_rho(F(epsilon), F(1, 10**5))
    mu = mpmath.sqrt(2 * mpmath.mpf(rho.numerator) / rho.denominator)
    eps = mpmath.mpf(F(epsilon).numerator) / F(epsilon).denominator
    delta = mpmath.ncdf(-eps / mu + mu / 2) - mpmath.exp(eps) * mpmath.ncdf(-eps / mu - mu / 2)
    assert 0.999999e-5 < delta <= 1e-5
    if sigma is not None:
        assert abs(1 / mu - mpmath.mpf(sigma)) < 1e-4


@pytest.mark.parametrize("neighbours", ["add_remove", "replace"])
def test_all_releases_together_cost_what_was_stated_and_hardly_less(neighbours: Any) -> None:
    X, y = make_arrays()
    model = learn.LogisticRegression(**CLASSIFIER, delta=1e-5, neighbours=neighbours).fit(X, y)
    guarantee = model.guarantee_
    assert 0.9999 < guarantee.epsilon <= 1 and guarantee.delta == 1e-5
    assert guarantee.releases == model.n_iter_ == 100
    loss = accounting.from_json(guarantee.loss)
    (repeated,) = loss.losses
    step = repeated.loss
    assert (
        repeated.count == 100
        and isinstance(step, RoundedGaussian)
        and step.neighbours == neighbours
    )
    steps = count_grid_steps(model.plan_.release_rho, Adjacency(neighbours, "row"))
    assert step.l2_squared == (steps * (2 if neighbours == "replace" else 1)) ** 2
    assert accounting.epsilon(loss, 1e-5).upper == guarantee.epsilon
    assert "library guarantee: the caller held the data" in guarantee.trust


@pytest.mark.parametrize(
    "name",
    mark_between(
        [
            "Ridge",
            "NaiveBayes",
            "PCA",
            "PoissonRegression",
            "SVC",
            "KMeans",
            "DecisionTree",
            "GradientBoosting",
        ],
        step=2,
    ),
)
def test_every_estimator_spends_its_epsilon_and_no_more(name: str) -> None:
    X, y = make_arrays()
    estimator = getattr(learn, name)()
    options = CLASSIFIER | {"target_bounds": (0, 5), "delta": 1e-6}
    allowed = estimator.get_params()
    estimator.set_params(**{key: value for key, value in options.items() if key in allowed})
    estimator.fit(X, y)
    assert 0.9999 < estimator.guarantee_.epsilon <= 1


def make_sums(releases: int, rho: F = F(1)) -> ArraySums:
    facts = declare_columns(["a"], (-3, 3), None, None)
    X, y = make_arrays()
    rows = encode_rows(facts, [X[:, 0]])
    return ArraySums(rows, y, ReleasePlan(rho, releases), Adjacency("add_remove", "row"))


def test_a_release_after_the_planned_ones_is_refused() -> None:
    sums = make_sums(2)
    sums.release_features(2.0)
    sums.release_gradient("logistic", np.zeros((1, 2)), 1.0)
    with pytest.raises(ParameterError, match="all 2 planned releases"):
        sums.release_moments()
    assert sums.count == 2


def test_noise_has_the_planned_scale_on_every_release() -> None:
    """1,000 draws: chi-square with 1,000 degrees leaves [0.7, 1.4] with a chance below 1e-9."""
    sums = make_sums(500, F(500, 2))  # rho 1/2 each: sigma is the clip norm
    draws = np.array([sums.release_gradient("logistic", np.zeros((1, 2)), 2.0) for _ in range(500)])
    centred = (draws - draws.mean(axis=0)) / 2.0
    assert 0.7 < (centred**2).sum() / 998 < 1.4


def test_the_number_of_rows_enters_no_scale() -> None:
    """Fits on 100 and 500 rows have the same plan, the same losses and the same divisor."""
    models = []
    for rows in (100, 500):
        X, y = make_arrays(rows)
        models.append(learn.LogisticRegression(**CLASSIFIER).fit(X, y))
    assert models[0].plan_ == models[1].plan_
    assert models[0].guarantee_ == models[1].guarantee_
    assert models[0].plan_.people == 500


def test_the_divisor_of_descent_is_the_declared_number() -> None:
    """Without noise to speak of, weights after one step are the sum over n, not over the rows."""

    class Sums:
        width = 2

        def release_gradient(self, loss: str, theta: Any, clip: float) -> Any:
            return np.array([[10.0, -20.0]])

    plan = plan_descent(F(1), 1000, 1.0, steps=1, learning_rate=2.0)
    assert np.allclose(descend(Sums(), "logistic", 1, plan), [[-0.02, 0.04]])  # type: ignore[arg-type]


@pytest.mark.parametrize("missing", ["epsilon", "n", "bounds", "classes"])
def test_a_missing_declaration_is_refused_before_a_value_is_read(missing: str) -> None:
    options = {key: value for key, value in CLASSIFIER.items() if key != missing}
    with pytest.raises(ParameterError, match=missing):
        learn.LogisticRegression(**options).fit(Untouchable(), Untouchable())


@pytest.mark.parametrize(
    ("name", "wrong", "words"),
    [
        ("LogisticRegression", {"delta": 0.01}, "below 1 / n"),
        ("LogisticRegression", {"epsilon": -1}, "epsilon"),
        ("LogisticRegression", {"n": 0}, "public number of people"),
        ("LogisticRegression", {"neighbours": "both"}, "neighbours"),
        ("LogisticRegression", {"classes": (1,)}, "classes"),
        ("SVC", {"classes": (0, 1, 2)}, "two classes"),
        ("Ridge", {"target_bounds": None}, "target_bounds"),
        ("Lasso", {"target_bounds": None}, "target_bounds"),
        ("GradientBoosting", {"classes": (0, 1, 2)}, "two classes"),
        ("KMeans", {"bounds": None}, "bounds"),
        ("DecisionTree", {"n": None}, "public number"),
        ("PoissonRegression", {"target_bounds": (-1, 3)}, "counts"),
    ],
)
def test_what_breaks_a_proof_is_refused_before_a_value_is_read(
    name: str, wrong: dict[str, Any], words: str
) -> None:
    estimator = getattr(learn, name)()
    options = CLASSIFIER | {"target_bounds": (0, 5)} | wrong
    allowed = estimator.get_params()
    estimator.set_params(**{key: value for key, value in options.items() if key in allowed})
    with pytest.raises(ParameterError, match=words):
        estimator.fit(Untouchable(), Untouchable())


def test_an_undeclared_column_is_refused_and_declarations_are_checked() -> None:
    for bounds, categories, bins, words in (
        ({"a": (0, 1)}, None, None, "'b' has neither"),
        ({"a": (0, 1), "z": (0, 1)}, {"b": "xy"}, None, "no column 'z'"),
        ((1, 1), None, None, "lower one first"),
        ((0, 1), {"b": "xx"}, None, "once each"),
        ((0, 1), None, {"a": (0.5, 0.2)}, "increasing edges"),
    ):
        with pytest.raises(ParameterError, match=words):
            declare_columns(["a", "b"], bounds, categories, bins)


def test_a_value_that_is_no_number_is_missing_and_in_no_message() -> None:
    X = np.array([["secret", 1], [2, "3"]], object)
    model = learn.LogisticRegression(**CLASSIFIER).fit(X, [0, 1])
    assert model.predict(X).shape == (2,)


@pytest.mark.parametrize("wrong", [{"clip": 0}, {"clip": np.inf}, {"penalty": -1}, {"steps": 0}])
def test_settings_without_a_meaning_are_refused(wrong: dict[str, Any]) -> None:
    X, y = make_arrays()
    with pytest.raises(ParameterError):
        learn.LogisticRegression(**CLASSIFIER, **wrong).fit(X, y)


def test_delta_by_rule_is_below_one_over_n() -> None:
    assert read_delta(None, 10) == F(1, 10**5)
    assert read_delta(None, 10**6) == F(1, 10**7)
