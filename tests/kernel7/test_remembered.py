"""What is remembered between questions (bindings, offers, calibrations) never outlives what it was made from."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction as F

import pytest
from clinic7 import Clinic

import dither
from dither import steward
from dither.errors import BudgetError, RefusedError
from dither.plan.algebra import Cells, Compare, Count, Filter, Scan
from dither.privacy import kernel as kernel_module
from dither.privacy.request import Price, Request, Step

pytest_plugins = ["clinic7_fixtures"]
MEAN = "SELECT AVG(age) AS a, COUNT(*) AS n FROM patients"
COUNT = "SELECT COUNT(*) AS n FROM patients"
OLD = Filter(Scan("patients"), Compare("age", ">=", F(65)))


def scales(con, sql: str = MEAN, **price) -> list[float]:
    return [float(step.mechanism.scale) for step in con.kernel.price(con.request(sql, **price)).steps]


def test_a_question_is_bound_and_calibrated_once(clinic: Clinic, monkeypatch: pytest.MonkeyPatch) -> None:
    clinic.open()
    con = clinic.connect()
    con.sql(COUNT, epsilon="0.1", fresh=True)

    def never(*_args: object, **_how: object) -> None:
        raise AssertionError("computed again")

    monkeypatch.setattr(kernel_module, "calibrate", never)
    monkeypatch.setattr("dither.session.bind", never)
    con.sql(COUNT, epsilon="0.1", fresh=True)
    assert clinic.spent()["total"] == F(1, 5)
    with pytest.raises(AssertionError):
        con.sql(COUNT, epsilon="0.2", fresh=True)
    with pytest.raises(AssertionError):
        con.sql(COUNT + " WHERE age > 3", epsilon="0.1", fresh=True)


def test_what_is_remembered_is_still_charged_and_still_refused(clinic: Clinic) -> None:
    clinic.open(epsilon=1)
    con = clinic.connect()
    con.sql(COUNT, epsilon="0.8", fresh=True)
    with pytest.raises(BudgetError):
        con.sql(COUNT, epsilon="0.8", fresh=True)
    assert clinic.spent()["total"] == F(4, 5)


def test_another_price_weight_or_limit_is_another_offer(clinic: Clinic) -> None:
    clinic.open()
    con = clinic.connect()
    first = scales(con, epsilon=1)
    assert scales(con, epsilon=1) == first
    assert scales(con, epsilon=2) != first and scales(con, epsilon=1, weights={"n": 50}) != first
    assert scales(con, epsilon=1) == first


def test_a_new_version_is_bound_and_calibrated_anew(clinic: Clinic) -> None:
    clinic.open()
    con = clinic.connect()
    asked = con.request(COUNT, epsilon=1)
    before = con.kernel.price(asked)
    steward.register(clinic.file)
    con.sql(COUNT, epsilon=1)
    after = con.kernel.price(asked)
    assert (before.at.number, after.at.number) == (1, 2) and before.key != after.key


def test_a_rehearsal_is_not_remembered_as_a_question(clinic: Clinic) -> None:
    clinic.open()
    con = clinic.connect()
    asked = con.request(COUNT, epsilon=1)
    con.kernel.price(asked)
    rehearsed = con.kernel.rehearse(asked)
    assert rehearsed.at.context == "dry_run" and con.kernel.price(asked).at.context != "dry_run"
    with pytest.raises(RefusedError):
        con.kernel.release(replace(asked, context="dry_run"))


def test_equal_requests_that_differ_are_told_apart(clinic: Clinic) -> None:
    """1 == True == F(1) in Python; a calibration is found by the request itself, never by an equal one."""
    clinic.open()
    kernel = clinic.kernel()
    one = Request((Step(Cells(OLD, (), (Count(),)), "laplace", F(1)),), Price(F(1)), "total")
    other = Request((Step(Cells(OLD, (), (Count(),)), "laplace", F(1)),), Price(F(1)), "total")
    assert one == other
    assert kernel.price(one).request is one and kernel.price(other).request is other


def test_what_is_remembered_is_bounded(clinic: Clinic, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_module, "MOST_PRICED", 3)
    monkeypatch.setattr("dither.session._MOST_REMEMBERED", 3)
    clinic.open()
    con = dither.connect(clinic.file)
    for age in range(10):
        con.request(f"{COUNT} WHERE age > {age}", epsilon=1)
    assert max(len(con.kernel._priced), len(con._bound), len(con._offers)) <= 3
