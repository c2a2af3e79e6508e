"""Workloads asked of a registered table: price, consistency, intervals and refusals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from dither.data.measure import Measurer
from dither.errors import DitherError, RefusedError
from dither.workloads import CountingWorkload, cube, identity, marginals, prefixes, ranges, total
from tests.case_lists import mark_between, mark_rest
from tests.workloads.conftest import ROWS, Survey

PAIRS = marginals(2, of=["age", "sex", "area"])


def test_a_preview_reads_no_data_and_spends_nothing(
    survey: Survey, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("data was read")

    monkeypatch.setattr(Measurer, "measure", refuse)
    preview = survey.connect("zcdp").workload(PAIRS, table="survey", rho=0.1).preview()
    assert not survey.read_spent()
    assert [row.queries for row in preview.products] == [32, 64, 8]
    assert preview.gap == pytest.approx(1, abs=2e-3)
    assert preview.lower_bound <= preview.root_mean_squared_error * (1 + 1e-6)
    assert "no strategy is below" in str(preview) and "residuals" in preview.strategy


@pytest.mark.parametrize("rule", mark_rest(["pure", "approx", "zcdp"], quick=1))
def test_one_request_is_charged_once_and_repeats_are_free(survey: Survey, rule: str) -> None:
    con = survey.connect(rule)
    price = {"rho": 0.5} if rule == "zcdp" else {"epsilon": 1}
    asked = con.workload(PAIRS, table="survey", **price)
    charge = asked.preview().charge
    first = asked.answer()
    spent = survey.read_spent()
    assert float(spent) == pytest.approx(float(charge.amount))
    assert 0 < spent <= 1
    again = con.workload(PAIRS, table="survey", **price).answer()
    assert survey.read_spent() == spent and again.info["repeated"]
    assert again.tables == first.tables


def test_tables_add_up_to_each_other(survey: Survey) -> None:
    result = survey.connect("zcdp").cube(["age", "sex", "area"], up_to=2, table="survey", rho=0.1)
    answered = result.answer()
    tables = {product.columns: answered.answer(product) for product in answered.products}
    pair = tables["age", "sex"].reshape(16, 2)
    assert np.allclose(pair.sum(axis=1), tables["age",])
    assert np.allclose(pair.sum(axis=0), tables["sex",])
    assert np.allclose(tables["sex", "area"].reshape(2, 4).sum(axis=0), tables["area",])
    assert tables[()] == pytest.approx(pair.sum())
    assert not answered.biased and len(answered.raw) == len(answered.offer.plan.steps)


WORKLOADS: dict[str, tuple[CountingWorkload, Callable[[Survey], np.ndarray]]] = {
    "identity": (identity("age", "sex"), lambda survey: survey.count("age", "sex").ravel()),
    "other order": (identity("sex", "age"), lambda survey: survey.count("sex", "age").ravel()),
    "prefixes": (prefixes("age"), lambda survey: survey.count("age").cumsum()),
    "ranges": (
        ranges("age"),
        lambda survey: np.array(
            [survey.count("age")[i : j + 1].sum() for i in range(16) for j in range(i, 16)]
        ),
    ),
    "product": (
        prefixes("age") * identity("area"),
        lambda survey: survey.count("age", "area").cumsum(axis=0).ravel(),
    ),
    "pairs": (marginals(2, of=["sex", "area"]), lambda survey: survey.count("sex", "area").ravel()),
}


@pytest.mark.parametrize("rule", ["pure", "zcdp"])
@pytest.mark.parametrize("name", mark_between(WORKLOADS, step=3))
def test_answers_are_the_true_ones_at_a_high_price(survey: Survey, name: str, rule: str) -> None:
    """Errors of 6.5 standard deviations have a chance below 1e-10 with Gaussian noise; with
    Laplace noise 20 deviations do."""
    workload, truth = WORKLOADS[name]
    price = {"rho": 10**4} if rule == "zcdp" else {"epsilon": 10**4}
    result = survey.connect(rule).workload(workload, table="survey", **price).answer()
    (product,) = workload.products
    errors = np.abs(result.answer(product) - truth(survey))
    deviations = result.find_half_widths(product) / 1.95
    assert (errors <= 20 * deviations).all()
    assert deviations.max() < 1


def test_intervals_cover_as_often_as_they_say(survey: Survey) -> None:
    """320 cells of identity at level 0.95, independent: 47 misses have a chance below 1e-10."""
    con = survey.connect("pure")
    truth = survey.count("age", "sex").ravel()
    misses = 0
    for _ in range(10):
        asked = con.workload(identity("age", "sex"), table="survey", epsilon=0.5)
        table = asked.answer(fresh=True).table("age", "sex")
        low = table["count_low"].to_numpy()
        high = table["count_high"].to_numpy()
        misses += int(((truth < low) | (truth > high)).sum())
    assert binom.sf(46, 320, 0.05) < 1e-10
    assert misses <= 46


def test_keys_name_what_each_row_asks_for(survey: Survey) -> None:
    con = survey.connect("zcdp")
    result = con.workload(ranges("age") * identity("area"), table="survey", rho=1).answer()
    table = result.table("age", "area").slice(0, 5).to_pydict()
    assert table["age_from"] == [0] * 5 and table["age_to"] == [0, 0, 0, 0, 1]
    assert table["area"] == ["north", "east", "south", None, "north"]
    up_to = con.workload(prefixes("age"), table="survey", rho=1).answer().table("age")
    assert up_to["age_up_to"].to_pylist() == list(range(16))


def test_noise_follows_the_rows_of_one_person(survey: Survey) -> None:
    """Two rows of a person move a count by 2: sigma^2 = 2^2 / (2 rho), with L2 norm 1."""
    con = survey.connect("zcdp")
    asked = con.workload(identity("age"), table="survey", rho=0.5)
    (product,) = asked.bound.workload.products
    assert asked.preview().list_errors(product) == pytest.approx(np.full(16, 2.0), rel=1e-3)


def test_sums_and_conditions(survey: Survey) -> None:
    con = survey.connect("zcdp")
    how: dict[str, Any] = {"table": "survey", "aggregate": "SUM(cost)", "rho": 10**4}
    result = con.workload(identity("sex"), where="age < 4", **how).answer()
    truth = [survey.cost[(survey.sex == code) & (survey.age < 4)].sum() for code in (0, 1)]
    (product,) = result.products
    assert np.allclose(result.answer(product), truth, atol=5)


@pytest.mark.parametrize(
    ("rule", "workload", "noise"),
    [
        ("approx", total(), "laplace"),
        ("zcdp", total(), "gaussian"),
        ("pure", PAIRS, "laplace"),
    ],
)
def test_the_noise_is_chosen_in_the_measure_of_the_pot(
    survey: Survey, rule: str, workload: CountingWorkload, noise: str
) -> None:
    """One count at epsilon 1: Laplace noise errs less (11.1 against 20.3 in the design). A pot of
    zCDP adds up rhos, and a pure pot pays for no Gaussian noise."""
    price = {"rho": 1} if rule == "zcdp" else {"epsilon": 1}
    offer = survey.connect(rule).workload(workload, table="survey", **price).offer
    assert offer.noise == noise
    if rule == "approx":
        assert any("times the error" in reason for reason in offer.reasons)


def test_counts_in_sql_over_the_same_rows_are_one_workload(survey: Survey) -> None:
    con = survey.connect("zcdp")
    questions = [
        "SELECT sex, COUNT(*) FROM survey WHERE age < 4 GROUP BY sex",
        "SELECT sex, area, COUNT(*) FROM survey WHERE age < 4 GROUP BY sex, area",
        "SELECT COUNT(*) FROM survey WHERE age < 4",
    ]
    result = con.workload(questions, rho=10**4).answer()
    assert [product.columns for product in result.products] == [("sex",), ("sex", "area"), ()]
    truth = [((survey.sex == code) & (survey.age < 4)).sum() for code in (0, 1)]
    assert np.allclose(result.table("sex")["count"].to_numpy(), truth, atol=1)
    for wrong in (
        [],
        [*questions, "SELECT AVG(cost) FROM survey WHERE age < 4"],
        ["SELECT sex, COUNT(*) AS n FROM survey GROUP BY sex HAVING COUNT(*) > 5"],
        ["SELECT sex, COUNT(*) AS n FROM survey GROUP BY sex LIMIT 1"],
    ):
        with pytest.raises(DitherError):
            con.workload(wrong, rho=1)
    with pytest.raises(DitherError, match="name the table"):
        con.workload(PAIRS, rho=1)
    with pytest.raises(DitherError, match="themselves"):
        con.workload(questions, table="survey", rho=1)


def test_a_rehearsal_is_free(survey: Survey) -> None:
    asked = survey.connect("zcdp").workload(PAIRS, table="survey", rho=1)
    assert len(asked.rehearse().tables) == 3
    assert not survey.read_spent()


def test_a_certificate_says_what_was_measured_and_computed(survey: Survey) -> None:
    result = survey.connect("zcdp").workload(PAIRS, table="survey", rho=1).answer()
    body = result.certificate()["body"]
    assert body["post_processing"][0].startswith("workload: residuals")
    assert len(body["mechanisms"]) == len(result.offer.plan.steps)


REFUSED: dict[str, tuple[CountingWorkload, dict[str, Any], str]] = {
    "an unknown column": (identity("height"), {}, "no column height"),
    "a person's name": (identity("person"), {}, "no column person"),
    "ranges over nulls": (ranges("area"), {}, "may be null"),
    "prefixes over many values": (prefixes("code"), {}, "200,000 values"),
    "too many cells": (prefixes("age") * identity("code"), {}, "3,200,000 cells"),
    "a marginal of too many cells": (identity("age", "code"), {}, "3,200,000 cells"),
    "too many queries": (cube(["code"], 1) * ranges("age"), {}, "27,2"),
    "people who may be in two cells": (
        identity("sex"),
        {"aggregate": "COUNT(DISTINCT person)"},
        "does not add up",
    ),
    "a limit in the condition": (identity("sex"), {"where": "age < 4 LIMIT 1"}, "LIMIT"),
    "keys in the condition": (identity("sex"), {"where": "age < 4 GROUP BY sex"}, "no GROUP BY"),
    "an aggregate that does not add up": (
        identity("sex"),
        {"aggregate": "MAX(cost)"},
        "no other aggregate",
    ),
    "a sum of names": (identity("sex"), {"aggregate": "SUM(person)"}, "an id outside"),
    "an unknown table": (identity("sex"), {"table": "nothing"}, "no table nothing"),
    "a confidence of 2": (identity("sex"), {"confidence": 2}, "confidence"),
    "no price": (identity("sex"), {"rho": None}, "price"),
    "two prices": (identity("sex"), {"epsilon": 1}, "price"),
}


@pytest.mark.parametrize("name", mark_between(REFUSED, step=3))
def test_what_cannot_be_answered_is_refused_before_anything_is_read(
    survey: Survey, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("data was read")

    monkeypatch.setattr(Measurer, "measure", refuse)
    workload, terms, words = REFUSED[name]
    con = survey.connect("zcdp")
    with pytest.raises(DitherError, match=words) as refusal:
        con.workload(workload, **({"table": "survey", "rho": 1} | terms)).answer()
    assert not survey.read_spent()
    assert str(ROWS) not in str(refusal.value)


def test_a_pot_that_cannot_pay_refuses(survey: Survey) -> None:
    con = survey.connect("pure")
    with pytest.raises(DitherError):
        con.workload(PAIRS, table="survey", epsilon=10**7).answer()
    with pytest.raises(RefusedError):
        con.workload(PAIRS, table="survey", rho=1).answer()
    assert not survey.read_spent()


@pytest.mark.parametrize("rho", ["1", "0.000001"])
def test_planes_of_sums_have_noise_that_can_be_drawn(survey: Survey, rho: str) -> None:
    """Two spectral strategies of 31 bits each would need noise of 2^63 units: in fewer bits they
    err at most a few per cent more, and answers are those of the smaller integers."""
    con = survey.connect("zcdp")
    plane = ranges("age") * ranges("cost")
    preview = con.workload(plane, table="survey", rho=rho).preview()
    assert preview.gap < 1.15 if rho == "1" else preview.gap < 1.3
    result = con.workload(plane, table="survey", rho=10**5).answer()
    true = np.zeros((16, 10))
    np.add.at(true, (survey.age, survey.cost), 1)
    first, last = np.triu_indices(16)
    rows = np.concatenate([np.zeros((1, 10)), true.cumsum(axis=0)])
    along = rows[last + 1] - rows[first]
    columns = np.concatenate([np.zeros((len(first), 1)), along.cumsum(axis=1)], axis=1)
    start, end = np.triu_indices(10)
    exact = (columns[:, end + 1] - columns[:, start]).ravel()
    assert np.abs(result.answer(result.products[0]) - exact).max() < 2
