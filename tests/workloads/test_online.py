"""Online answers: a model that is compared with the data, and updates that are paid first."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dither import steward
from dither.data.measure import Measurer
from dither.errors import DitherError, RefusedError, UnavailableError
from dither.plan.algebra import Linear
from dither.plan.operators import Dense, Identity
from dither.privacy.kernel.request import Price, Request, Step
from tests.workloads.conftest import Survey

YOUNG = "age < 4 OR cost = 9"


def test_all_is_charged_first_and_hits_are_measured(survey: Survey) -> None:
    """At epsilon 10^4 noise is below one row: a flat model fits age, and not age by area."""
    con = survey.connect("pure")
    with con.online(["age", "area"], table="survey", epsilon=10**4, updates=3, within=20) as online:
        assert survey.read_spent() == 10**4 == online.charged
        assert online.rows == pytest.approx(1200, abs=2)
        flat = online.count(age=(0, 7))
        assert flat.source == "model" and flat.count == pytest.approx(600, abs=2)
        assert online.updates_left == 3
        wrong = online.count(area="south", age=[1, 3])
        truth = survey.count("age", "area")[[1, 3], 2].sum()
        assert abs(wrong.count - truth) <= 20 + 2
        hit = online.count(area=None)
        assert abs(hit.count - survey.count("area")[3]) <= 20 + 2
    assert survey.read_spent() == 10**4


def test_answers_are_marked_when_updates_run_out(survey: Survey) -> None:
    con = survey.connect("pure")
    how: dict[str, Any] = {"table": "survey", "where": YOUNG, "epsilon": 10**4, "within": 5}
    old = ((survey.age >= 8) & (survey.cost == 9)).sum()
    with con.online(["age"], updates=1, **how) as online:
        empty = online.count(age=(8, 15))
        assert empty.source == "measured" and empty.count == pytest.approx(old, abs=2)
        assert online.count(age=(8, 15)).source == "unchecked"
        last = online.count(age=(0, 3))
        assert last.source == "unchecked" and last.low is None and last.updates_left == 0
        assert "unchecked" in str(last)
        assert np.isclose(online.model.sum(), online.rows)


def test_nothing_is_read_once_updates_are_used(
    survey: Survey, monkeypatch: pytest.MonkeyPatch
) -> None:
    con = survey.connect("pure")
    how: dict[str, Any] = {"table": "survey", "where": YOUNG, "epsilon": 10**4, "within": 5}
    with con.online(["age"], updates=1, **how) as online:
        online.count(age=(8, 15))

        def refuse(*_: Any, **__: Any) -> None:
            raise AssertionError("data was read")

        monkeypatch.setattr(Measurer, "measure", refuse)
        online.count(age=(0, 3))
        request = make_request(online, Dense(((1,) * 16,)))
        with pytest.raises(RefusedError, match="all updates"):
            online._lease._lease.compare(request, 0)


def test_a_comparison_that_fails_is_an_incident_and_ends_the_lease(
    survey: Survey, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A comparison reads data, whatever comes of it: its failure is one bit, and is counted."""
    con = survey.connect("pure")
    online = con.online(["age"], table="survey", epsilon=10**4, updates=3, within=20)

    def fail(*_: Any, **__: Any) -> None:
        raise RuntimeError("row 17 of Jane Doe")

    with monkeypatch.context() as patch:
        patch.setattr(Measurer, "measure", fail)
        with pytest.raises(UnavailableError) as caught:
            online.count(age=(0, 7))
    assert caught.value.__context__ is None and "Jane" not in str(caught.value)
    assert len(steward.open_ledger(survey.state).incidents_open()) == 1
    with pytest.raises(RefusedError):
        online.count(age=(0, 7))
    assert survey.read_spent() == 10**4


def make_request(online: Any, operator: Any) -> Request:
    step = Step(Linear(online._lease._cells, operator), "linear_laplace", Fraction(1))
    return Request((step,), Price(Fraction(1)), "total")


def test_noises_follow_the_rows_of_one_person(survey: Survey) -> None:
    """Two rows of a person, epsilon 1, 9 updates: 0.1 for the rows, 0.1 for every epoch."""
    con = survey.connect("pure")
    with con.online(["age"], table="survey", epsilon=1, updates=9) as online:
        epoch = online._lease.epoch
        assert epoch.sensitivity == 2
        assert epoch.value_scale == pytest.approx(2 / 0.05, rel=1e-5)
        assert epoch.loss().epsilon <= Fraction(1, 10)
        assert online.updates_left == 9


def test_only_single_sums_of_the_leased_cells_are_compared(survey: Survey) -> None:
    con = survey.connect("pure")
    with con.online(["age"], table="survey", epsilon=100) as online:
        lease = online._lease._lease
        for operator in (Dense(((2,) * 16,)), Identity(16), Dense(((1,) * 16, (0,) * 15 + (1,)))):
            with pytest.raises(RefusedError, match="one sum"):
                lease.compare(make_request(online, operator), 0)
        other = con.bind("SELECT sex, COUNT(*) FROM survey GROUP BY sex").queries[0]
        step = Step(Linear(other, Dense(((1, 0),))), "linear_laplace", Fraction(1))  # type: ignore[arg-type]
        with pytest.raises(RefusedError, match="one sum"):
            lease.compare(Request((step,), Price(Fraction(1)), "total"), 0)
        for estimate in (1.5, True, 1 << 61):
            with pytest.raises(DitherError, match="an estimate"):
                lease.compare(make_request(online, Dense(((1,) * 16,))), estimate)
        assert online.updates_left == 20


@pytest.mark.parametrize(
    "change",
    [
        {"updates": 0},
        {"updates": 10**6},
        {"within": 0},
        {"within": 2**61},
        {"within": "much"},
        {"epsilon": 0},
        {"by": []},
        {"by": ["nothing"]},
        {"confidence": 2},
        {"table": "nowhere"},
    ],
    ids=str,
)
def test_bad_terms_are_refused_before_anything_is_spent(
    survey: Survey, change: dict[str, Any]
) -> None:
    con = survey.connect("pure")
    with pytest.raises(DitherError):
        con.online(**({"by": ["age"], "table": "survey", "epsilon": 1} | change))
    assert survey.read_spent() == 0


def test_budgets_that_count_rho_refuse(survey: Survey) -> None:
    with pytest.raises(RefusedError, match="count epsilon"):
        survey.connect("zcdp").online(["age"], table="survey", epsilon=1)


def test_values_that_are_not_declared_are_refused(survey: Survey) -> None:
    with survey.connect("pure").online(["age"], table="survey", epsilon=1) as online:
        for values in ({"sex": "f"}, {"age": 99}, {"age": (5, 1)}, {"age": (1, 2, 3)}, {"age": []}):
            with pytest.raises(DitherError):
                online.count(**values)
