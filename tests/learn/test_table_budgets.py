"""Budgets and warnings of training on tables: what a budget of another delta pays, samples by the
kernel, and signs of target leakage."""

from __future__ import annotations

import hashlib
import json
from fractions import Fraction as F
from typing import Any

import pytest

from dither import accounting, learn
from dither.errors import ParameterError
from dither.learn.leakage_lint import find_conditions, find_sources, lint_target
from dither.learn.table_columns import find_rows
from dither.privacy.losses import PoissonSampled
from dither.session import Connection
from tests.datasets.regional_clinic import Clinic
from tests.learn.test_tables import ROWS, clinic, connect

__all__ = ["clinic"]


def connect_approx(clinic: Clinic, delta_per_question: str) -> Connection:
    clinic.open(
        rule="approx",
        delta="1e-3",
        delta_per_question=delta_per_question,
        epsilon=100,
        ceiling=100,
    )
    return clinic.connect()


@pytest.mark.parametrize(
    ("of_budget", "of_estimator", "expected"),
    [("1e-9", 1e-4, 1e-9), ("1e-4", 1e-6, 1e-6), ("1e-9", None, 1e-9), ("1e-4", None, 1e-5)],
)
def test_a_budget_pays_no_more_than_was_stated_whatever_its_delta(
    clinic: Clinic, of_budget: str, of_estimator: Any, expected: float
) -> None:
    """A budget counts epsilon at its own delta: at 1e-9 the noise for (2, 1e-4) costs 3.1."""
    con = connect_approx(clinic, of_budget)
    assert con.question_delta == F(of_budget)
    model = learn.LogisticRegression(2, n=ROWS, delta=of_estimator, steps=5)
    plan = model.plan(con, "patients", target="readmitted", columns=["age"])
    model.fit_table(con, "patients", target="readmitted", columns=["age"])
    assert 0 < clinic.spent()["total"] <= 2
    assert plan.delta == model.guarantee_.delta == expected
    assert model.guarantee_.epsilon <= 2


def test_a_budget_without_a_delta_for_questions_has_none(clinic: Clinic) -> None:
    assert connect(clinic).question_delta == 0


def test_descent_on_samples_is_paid_by_the_exact_curve(clinic: Clinic) -> None:
    con = connect_approx(clinic, "1e-6")
    model = learn.LogisticRegression(20, n=ROWS, delta=1e-6, solver="sampled", steps=60)
    model.fit_table(con, "patients", target="readmitted", columns=["age", "ward"])
    assert model.plan_.rate == F(1, 2) and 15 < clinic.spent()["total"] <= 20
    loss = accounting.from_json(model.guarantee_.loss)
    assert isinstance(loss.loss, PoissonSampled) and loss.count == 60
    assert model.guarantee_.epsilon <= 20
    weights = dict(zip(model.columns_.list_names(), model.weights_[0], strict=True))
    assert weights["age"] > 0  # older people come back


def test_samples_of_arrays_cost_what_was_stated_and_noise_is_for_all_steps() -> None:
    """The accountant's figure is within the hundredth that is left for pots; at 400 steps of rate
    1/2 the noise is below that of whole passes, since a sample tells less."""
    import numpy as np

    draws = np.random.default_rng(3)
    X = draws.uniform(-1, 1, (2000, 2))
    y = (draws.random(2000) < 1 / (1 + np.exp(-3 * X[:, 0]))).astype(int)
    options: dict[str, Any] = {"n": 2000, "bounds": (-1, 1), "classes": (0, 1), "bins": None}
    sampled = learn.LogisticRegression(1, solver="sampled", delta=1e-5, **options).fit(X, y)
    whole = learn.LogisticRegression(1, steps=400, delta=1e-5, **options).fit(X, y)
    assert 0.97 < sampled.guarantee_.epsilon <= 1
    assert sampled.plan_.release_rho > whole.plan_.release_rho
    assert sampled.plan_.noise > whole.plan_.noise  # on a mean over a sample
    assert sampled.score(X, y) > 0.74
    with pytest.raises(ParameterError, match="add_remove"):
        learn.LogisticRegression(1, solver="sampled", neighbours="replace", **options).fit(X, y)
    with pytest.raises(ParameterError, match="not in parts"):
        learn.LogisticRegression(1, solver="sampled", **options).fit_with_rho(X, y, F(1, 100))


def test_a_sum_over_samples_is_the_sum_of_the_rows_on_average() -> None:
    """600 samples at rate 1/4 of 40 equal rows: counts of mean 10 and deviation 2.7; the mean of
    600 is within 1 with a chance above 1 - 1e-15."""
    import numpy as np

    from dither.learn.columns import declare_columns
    from dither.learn.encode import encode_rows
    from dither.learn.sampled_descent import SampledPlan
    from dither.learn.sums import ArraySums
    from dither.privacy.losses import ADD_REMOVE

    facts = declare_columns(["a"], (-1, 1), None, None)
    rows = encode_rows(facts, [np.ones(40)])
    plan = SampledPlan(F(10**6) * 600, 600, 1.0, 2.0, 40, rate=F(1, 4))
    sums = ArraySums(rows, np.zeros(40, int), plan, ADD_REMOVE)
    gradients = [sums.release_gradient("logistic", np.zeros((1, 2)), 2.0) for _ in range(600)]
    assert abs(np.mean(gradients) - 0.5 * 10) < 0.5
    assert np.std([gradient[0, 0] for gradient in gradients]) > 1


def test_features_that_know_the_target_are_named(clinic: Clinic) -> None:
    con = connect(clinic)
    model = learn.LogisticRegression(20, n=ROWS, steps=2)
    sql = "SELECT age, ward, stays, stays > 3 AS long_stay FROM patients WHERE stays > 1"
    plan = model.plan(con, sql, target="long_stay")
    assert any("'stays' is computed from" in warning for warning in plan.warnings)
    assert any("rows are chosen by" in warning for warning in plan.warnings)
    assert not any("'age'" in warning for warning in plan.warnings)
    assert "warning: 'stays'" in str(plan)
    with pytest.warns(UserWarning, match="'stays' is computed from"):
        model.fit_table(con, sql, target="long_stay")
    assert model.plan(con, "patients", target="readmitted").warnings == ()


def test_sources_of_columns_are_those_of_the_tables(clinic: Clinic) -> None:
    con = connect(clinic)
    rows = find_rows(con, "SELECT age + stays AS both, ward FROM patients WHERE urgent")
    assert find_sources(rows.plan, "both") == {"age", "stays"}
    assert find_sources(rows.plan, "ward") == {"ward"}
    assert find_conditions(rows.plan) == {"urgent"}
    assert lint_target(rows.plan, None, ["ward"]) == ()
    named = lint_target(find_rows(con, "patients").plan, "readmitted", ["readmission_days", "age"])
    assert len(named) == 1 and "named like the target" in named[0]


def test_bins_at_bought_quantiles_are_paid_apart_and_fit(clinic: Clinic) -> None:
    """Ages are uniform on 0 to 110 without a ninth; at epsilon 10 a quantile of 530 people is off
    by a few ranks."""
    clinic.open(epsilon=100, ceiling=100)
    con = clinic.connect()
    edges = learn.buy_bins(con, "patients", ["age", "stays"], epsilon=10, bins=5)
    assert clinic.spent()["total"] == 10
    assert list(edges["age"]) == sorted(set(edges["age"])) and 2 <= len(edges["age"]) <= 4
    assert all(0 < edge <= 110 for edge in edges["age"])
    model = learn.LogisticRegression(1, n=ROWS, bins=edges)
    plan = model.plan(con, "patients", target="readmitted", columns=["age"])
    assert plan.features == 1 + 1 + len(edges["age"]) + 2
    for columns, bins in ((["ward"], 5), ([], 5), (["age"], 1)):
        with pytest.raises(ParameterError):
            learn.buy_bins(con, "patients", columns, epsilon=1, bins=bins)
    assert clinic.spent()["total"] == 10


def test_edges_of_bins_on_a_table_are_checked(clinic: Clinic) -> None:
    con = connect(clinic)
    model = learn.LogisticRegression(1, n=ROWS, bins={"age": (50.0, 20.0)})
    with pytest.raises(ParameterError, match="increasing edges"):
        model.plan(con, "patients", target="readmitted", columns=["age"])


def test_a_certificate_names_the_model_and_its_release_in_history(clinic: Clinic) -> None:
    con = connect(clinic)
    model = learn.LogisticRegression(2, n=ROWS, steps=3)
    model.fit_table(con, "patients", target="readmitted", columns=["age"])
    certificate = json.loads(learn.write_model_certificate(model))
    text = learn.write_model(model)
    assert certificate["model_sha256"] == hashlib.sha256(text.encode()).hexdigest()
    assert certificate["guarantee"]["epsilon"] <= 2 and certificate["solver"] == "descent"
    assert any("age" in fact for fact in certificate["unprotected"])
    release = certificate["guarantee"]["public"]["release"]
    assert release in {entry.release_id for entry in con.history().releases}
    again = learn.read_model(text)
    assert again.guarantee_ == model.guarantee_
