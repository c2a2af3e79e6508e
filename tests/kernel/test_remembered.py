"""What is remembered between questions (bindings, offers, calibrations) never outlives what it was
made from."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction as F

import pytest

import dither
from dither import steward
from dither.data import measure as measure_module
from dither.data.measure import Measurer
from dither.errors import BudgetError, RefusedError, UnavailableError
from dither.plan.algebra import Cells, Compare, Count, Filter, SampleUnits, Scan
from dither.privacy.kernel.request import Price, Request, Step
from dither.steward.rehearsal import Rehearsals
from tests.datasets.regional_clinic import Clinic

MEAN = "SELECT AVG(age) AS a, COUNT(*) AS n FROM patients"
COUNT = "SELECT COUNT(*) AS n FROM patients"
OLD = Filter(Scan("patients"), Compare("age", ">=", F(65)))


def scales(con, sql: str = MEAN, **price) -> list[float]:
    return [
        float(step.mechanism.scale) for step in con._kernel.price(con.request(sql, **price)).steps
    ]


def test_a_question_is_bound_and_offered_once(
    clinic: Clinic, monkeypatch: pytest.MonkeyPatch
) -> None:
    clinic.open()
    con = clinic.connect()
    con.sql(COUNT, epsilon="0.1", fresh=True)

    def never(*_args: object, **_how: object) -> None:
        raise AssertionError("computed again")

    monkeypatch.setattr(
        "dither.answer.offers.choose_mechanisms", never
    )  # the kernel prices by itself, each time
    monkeypatch.setattr("dither.answer.offers.bind_question", never)
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
    before = con._kernel.price(asked)
    steward.register(clinic.file)
    con.sql(COUNT, epsilon=1)
    after = con._kernel.price(asked)
    assert (before.version.number, after.version.number) == (1, 2) and before.key != after.key


def test_a_rehearsal_is_not_remembered_as_a_question(clinic: Clinic) -> None:
    clinic.open()
    con = clinic.connect()
    asked = con.request(COUNT, epsilon=1)
    con._kernel.price(asked)
    rehearsed = Rehearsals().rehearse(con._kernel.price(replace(asked, context="dry_run")))
    assert (
        rehearsed.version.context == "dry_run"
        and con._kernel.price(asked).version.context != "dry_run"
    )
    with pytest.raises(RefusedError):
        con._kernel.release(replace(asked, context="dry_run"))


def test_equal_requests_that_differ_are_told_apart(clinic: Clinic) -> None:
    """1 == True == F(1) in Python; a calibration is found by the request itself, never by an equal
    one."""
    clinic.open()
    kernel = clinic.kernel()
    one = Request((Step(Cells(OLD, (), (Count(),)), "laplace", F(1)),), Price(F(1)), "total")
    other = Request((Step(Cells(OLD, (), (Count(),)), "laplace", F(1)),), Price(F(1)), "total")
    assert one == other
    assert kernel.price(one).request == one and kernel.price(one).request is not one


def test_what_is_remembered_is_bounded(clinic: Clinic, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dither.answer.offers._MOST_REMEMBERED", 3)
    clinic.open()
    con = dither.connect(clinic.file)
    for age in range(10):
        con.request(f"{COUNT} WHERE age > {age}", epsilon=1)
    assert 1 <= len(con._offers._remembered) <= 3


def test_a_connection_is_kept_with_its_statements_and_one_that_failed_is_not(
    clinic: Clinic, monkeypatch: pytest.MonkeyPatch
) -> None:
    clinic.open()
    con = clinic.connect()
    con.sql(COUNT, epsilon="0.1", fresh=True)
    ((number, kept),) = con._kernel._idle
    with monkeypatch.context() as patched:
        patched.setattr(Measurer, "_write_sql", lambda *_: pytest.fail("lowered again"))
        con.sql(COUNT, epsilon="0.1", fresh=True)
    assert con._kernel._idle == [(number, kept)] and number == 1

    def fails(*_args: object) -> None:
        raise OSError("no rows today")

    with monkeypatch.context() as patched:
        patched.setattr(Measurer, "measure", fails)
        with pytest.raises(UnavailableError):
            con.sql(COUNT, epsilon="0.1", fresh=True)
    assert con._kernel._idle == []


def test_a_kept_connection_answers_for_its_own_version_alone(clinic: Clinic) -> None:
    clinic.open()
    con = clinic.connect()
    con.sql(COUNT, epsilon=1)
    ((_, old),) = con._kernel._idle
    steward.register(clinic.file)
    con.sql(COUNT, epsilon=1)
    ((number, new),) = con._kernel._idle
    assert number == 2 and new is not old


def test_statements_are_kept_by_the_query_itself_and_only_so_many(
    clinic: Clinic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measure_module, "MOST_COMPILED", 3)
    clinic.open()
    kernel = clinic.kernel()
    measurer = kernel.connect(kernel.version)
    queries = [
        Cells(Filter(Scan("patients"), Compare("age", ">=", F(age))), (), (Count(),))
        for age in range(10)
    ]
    fresh = [kernel.connect(kernel.version).measure(query)[0, 0] for query in queries]
    for _ in range(2):
        for query, expected in zip(queries, fresh, strict=True):
            measurer.prepare(query)
            assert measurer.measure(query)[0, 0] == expected
            assert len(measurer._compiled) <= 3
    held = measurer.engine.connection.execute(
        "SELECT count(*) FROM duckdb_prepared_statements()"
    ).fetchone()
    assert held is not None and held[0] <= 3


def test_a_sampled_query_is_never_kept_with_a_key(clinic: Clinic) -> None:
    """A statement that held the key of one release would draw the same units in the next."""
    clinic.open()
    kernel = clinic.kernel()
    measurer = kernel.connect(kernel.version)
    query = Cells(SampleUnits(Scan("patients"), F(1, 2)), (), (Count(),))
    measurer.prepare(query)
    seen = {measurer.measure(query, bytes([key]) * 32)[0, 0] for key in range(64)}
    assert len(seen) > 1
