"""Training on registered tables: paid from the ledger first, through the kernel alone, planned from
the catalog (rules P28, P29, P44 and P49 of the review)."""

from __future__ import annotations

import os
from dataclasses import replace
from fractions import Fraction as F
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from dither import learn, steward
from dither.errors import BudgetError, ParameterError, RefusedError
from dither.learn.descent import plan_descent
from dither.learn.encode import encode_rows
from dither.learn.rehearsal import shrink_plan
from dither.learn.sums import STEPS, ArraySums, ReleasePlan
from dither.learn.table_columns import find_rows, list_feature_columns, read_table_features
from dither.learn.table_sums import TableSums
from dither.privacy.losses import ADD_REMOVE
from dither.session import Connection
from tests.case_lists import mark_rest
from tests.datasets.catalog_texts import write_head, write_private_head
from tests.datasets.regional_clinic import Clinic

TABLE = (
    write_head("clinic", "county-residents", "patient_id: {protected: true}")
    + write_private_head("patients", "{column: patient_id}", 1, unique="[[patient_id]]")
    + """\
      patient_id: {type: id}
      ward: {type: category, values: [a, b], other: keep, nulls: keep}
      age: {type: integer, bounds: [0, 110], nulls: keep, provenance: public life tables}
      stays: {type: integer, bounds: [0, 9], nulls: drop, provenance: the hospital's rule}
      urgent: {type: boolean, nulls: {value: false}}
      readmitted: {type: boolean, nulls: drop}
"""
)
ROWS = 600
NAMES = ["ward", "age", "stays", "urgent"]


def invent_patients(seed: int = 1) -> pd.DataFrame:
    """Older people in ward a come back more often."""
    draws = np.random.default_rng(seed)
    age = draws.integers(0, 111, ROWS).astype(object)
    ward = draws.choice(["a", "b", "c", ""], ROWS)
    margin = (age.astype(float) - 55) / 15 + 2 * (ward == "a")
    age[::9] = ""
    return pd.DataFrame(
        {
            "patient_id": [f"p{number}" for number in range(ROWS)],
            "ward": ward,
            "age": age,
            "stays": draws.integers(0, 10, ROWS),
            "urgent": draws.random(ROWS) < 0.3,
            "readmitted": draws.random(ROWS) < 1 / (1 + np.exp(-margin)),
        }
    )


def register(folder: Path, seed: int = 1) -> Clinic:
    folder.mkdir()
    os.environ["XDG_STATE_HOME"] = str(folder / "xdg")
    invent_patients(seed).to_csv(folder / "patients.csv", index=False)
    (folder / "clinic.yaml").write_text(TABLE)
    steward.register(folder / "clinic.yaml")
    return Clinic(folder / "clinic.yaml")


@pytest.fixture
def clinic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Clinic:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return register(tmp_path / "site")


def connect(clinic: Clinic, rho: Any = 10**9) -> Connection:
    clinic.open(rule="zcdp", delta_conversion="1e-6", rho=rho, ceiling=rho)
    return clinic.connect()


def test_a_model_of_a_table_is_paid_first_and_predicts_frames(clinic: Clinic) -> None:
    con = connect(clinic)
    model = learn.LogisticRegression(epsilon=20, n=ROWS)
    plan = model.plan(con, "patients", target="readmitted")
    assert clinic.spent() == {"total": 0}
    model.fit_table(con, "patients", target="readmitted")
    spent = clinic.spent()["total"]
    assert F(plan.rho) * F(999, 1000) < spent <= F(plan.rho) * F(1001, 1000)
    guarantee = model.guarantee_
    assert guarantee.unit == "person" and guarantee.neighbours == "add_remove"
    assert guarantee.epsilon <= 20 and guarantee.releases == plan.releases
    assert "ledger" in guarantee.trust and guarantee.public["dataset"] == "clinic"
    people = invent_patients()
    frame = people[NAMES].replace("", None)
    assert model.score(frame, people["readmitted"]) > 0.8  # the model that made them: 0.89
    assert (learn.read_model(learn.write_model(model)).predict(frame) == model.predict(frame)).all()
    assert clinic.verify().ok


@pytest.mark.parametrize("name", mark_rest(["NaiveBayes", "SVC"], quick=1))
def test_other_classifiers_train_on_the_rows_of_a_select(clinic: Clinic, name: str) -> None:
    con = connect(clinic)
    model = getattr(learn, name)(epsilon=20, n=ROWS)
    sql = "SELECT age, ward, readmitted FROM patients WHERE stays > 2"
    model.fit_table(con, sql, target="readmitted", columns=["age", "ward"])
    people = invent_patients()
    assert list(model.feature_names_in_) == ["age", "ward"]
    assert model.score(people[["age", "ward"]].replace("", None), people["readmitted"]) > 0.75


@pytest.mark.all
def test_regressions_and_components_of_a_table(clinic: Clinic) -> None:
    con = connect(clinic)
    ridge = learn.Ridge(epsilon=20, n=ROWS)
    ridge.fit_table(con, "patients", target="stays", columns=["age", "urgent"])
    assert abs(ridge.predict(invent_patients()[["age", "urgent"]]).mean() - 4.5) < 1
    counts = learn.PoissonRegression(epsilon=20, n=ROWS, bins=None)
    counts.fit_table(con, "patients", target="stays", columns=["age"])
    pca = learn.PCA(epsilon=20, n=ROWS).fit_table(con, "patients", columns=["age", "stays"])
    assert pca.components_.shape == (2, 2)


def make_both_sums(con: Connection, label: str | None) -> tuple[Any, Any]:
    """The sums of the kernel and of arrays with the same rows, at a price that leaves no noise."""
    rows = find_rows(con, "patients")
    features = read_table_features(rows, list_feature_columns(rows, label, NAMES), "auto")
    plan = ReleasePlan(F(6 * 10**6), 4)  # sigma is 1/1,700 of the clip norm
    table = TableSums(con, rows.plan, features, label, plan)
    people = invent_patients().replace("", None)
    encoded = encode_rows(features.facts, [people[name].to_numpy() for name in NAMES])
    labels = people["readmitted"].to_numpy().astype(int)
    return table, ArraySums(encoded, labels, plan, ADD_REMOVE)


def test_the_kernel_and_arrays_add_up_the_same(clinic: Clinic) -> None:
    """One arithmetic in two places: sums differ by a step a row at most, and by noise of 0.001 of
    the clip norm in each (twenty standard deviations: a chance far below 1e-9)."""
    con = connect(clinic)
    table, arrays = make_both_sums(con, "readmitted")
    theta = np.random.default_rng(4).normal(0, 1, (1, arrays.width))
    slack = 20 * 2 / 1700 + ROWS / STEPS
    with table:
        for clip in (0.5, 10.0):
            kernel = table.release_gradient("logistic", theta, clip)
            assert np.abs(kernel - arrays.release_gradient("logistic", theta, clip)).max() < (
                slack * clip
            )
        features = table.release_features(3.0) - arrays.release_features(3.0)
        assert np.abs(features).max() < slack * 3


def test_a_plan_is_the_same_whatever_the_rows_are(tmp_path: Path, monkeypatch: Any) -> None:
    """Byte for byte, on two datasets with one catalog."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    model = learn.LogisticRegression(epsilon=1, n=ROWS)
    plans = []
    for seed in (1, 2):
        con = register(tmp_path / f"site{seed}", seed).connect()
        plans.append(model.plan(con, "patients", target="readmitted"))
    assert plans[0] == plans[1] and str(plans[0]) == str(plans[1])
    assert "charged first" in str(plans[0])
    few = replace(plans[0], risk_floor=1.0)
    assert "not possible at this n" in str(few)


def test_a_rehearsal_trains_invented_people_and_spends_nothing(clinic: Clinic) -> None:
    """At epsilon 10,000 noise on a mean gradient is 1e-4: it decides for few people at most."""
    con = connect(clinic)
    model = learn.LogisticRegression(epsilon=10_000, n=ROWS)
    rehearsal = model.rehearse(con, "patients", target="readmitted", columns=["age"])
    assert abs(rehearsal.private_accuracy - rehearsal.plain_accuracy) < 0.05
    wards = model.rehearse(con, "patients", target="ward", columns=["age"])
    assert wards.true_accuracy == 1  # of three classes the largest score is the label
    assert clinic.spent() == {"total": 0}


def test_a_rehearsal_of_many_people_has_the_noise_of_all_of_them() -> None:
    plan = plan_descent(F(1, 10), 1_000_000, 3.0)
    assert shrink_plan(plan, 1_000_000).people == 20_000
    assert abs(shrink_plan(plan, 1_000_000).noise / plan.noise - 1) < 1e-12


@pytest.mark.parametrize(
    ("name", "target"),
    mark_rest(
        [
            ("Ridge", "stays"),
            ("NaiveBayes", "ward"),
            ("SVC", "readmitted"),
            ("DecisionTree", "readmitted"),
            ("GradientBoosting", "readmitted"),
            ("Lasso", "stays"),
            ("PoissonRegression", "stays"),
        ],
        quick=2,
    ),
)
def test_every_estimator_with_a_target_rehearses(clinic: Clinic, name: str, target: str) -> None:
    """With hardly any noise a model explains part of what the invented model explains, and at an
    epsilon of 10,000 the planned noise changes little."""
    con = connect(clinic)
    model = getattr(learn, name)(epsilon=10_000, n=ROWS)
    rehearsal = model.rehearse(con, "patients", target=target, columns=["age", "urgent"])
    assert rehearsal.true_accuracy > 0.3
    assert abs(rehearsal.private_accuracy - rehearsal.plain_accuracy) < 0.3
    assert clinic.spent() == {"total": 0}
    with pytest.raises(ParameterError, match="target"):
        learn.PCA(epsilon=1, n=ROWS).rehearse(con, "patients", columns=["age"])


def test_what_is_refused_costs_nothing(clinic: Clinic) -> None:
    con = connect(clinic, rho="0.001")
    for model, target, columns, error in (
        (learn.LogisticRegression(epsilon=1), "readmitted", None, ParameterError),
        (learn.LogisticRegression(n=ROWS), "readmitted", None, ParameterError),
        (learn.LogisticRegression(epsilon=1, n=ROWS), "patient_id", None, ParameterError),
        (learn.LogisticRegression(epsilon=1, n=ROWS), "age", ["age"], ParameterError),
        (learn.SVC(epsilon=1, n=ROWS), "stays", None, ParameterError),
        (learn.Ridge(epsilon=1, n=ROWS), "ward", None, ParameterError),
        (
            learn.Ridge(epsilon=1, n=ROWS, bins={"age": [i / 20 for i in range(1, 2200)]}),
            "stays",
            None,
            RefusedError,
        ),
        (learn.LogisticRegression(epsilon=1, n=ROWS), "readmitted", None, BudgetError),
    ):
        with pytest.raises(error):
            model.fit_table(con, "patients", target=target, columns=columns)
    assert clinic.spent() == {"total": 0}
