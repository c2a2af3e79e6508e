"""Sums of registered columns: rows outside the bounds, which registration leaves none of, are not
counted."""

from __future__ import annotations

from fractions import Fraction as F
from unittest import mock

import duckdb
import pytest

from dither.data.lower import cells
from dither.data.lower.cells import query_sql
from dither.data.lower.stored import stored_sums
from dither.data.measure import Measurer
from dither.plan.algebra import (
    Call,
    Cells,
    Column,
    Compare,
    Count,
    Filter,
    Join,
    Named,
    Project,
    Scan,
    Sum,
    Value,
)
from dither.plan.analyse import analyse
from dither.plan.of_catalog import sensitivity
from tests.case_lists import mark_between
from tests.datasets import hospital
from tests.neighbours import PEOPLE, VISITS, check_query

SALARY, COST = Column("salary"), Column("cost")


def total(plan, column="salary", keys=()) -> Cells:
    return Cells(plan, keys, (Count(), Sum(column)))


PATIENTS = Scan("patients")
AS_REGISTERED = {
    "a column": total(PATIENTS),
    "by key": total(PATIENTS, keys=("sex",)),
    "renamed": total(Project(PATIENTS, (Named("x", SALARY),)), "x"),
    "of some": total(Filter(PATIENTS, Compare("sex", "=", "f"))),
    "of all that is left": total(Filter(PATIENTS, Compare("salary", ">=", F(0)))),
    "around the middle": total(
        Project(PATIENTS, (Named("x", Call("subtract", (SALARY, Value("number", F(150_000))))),)),
        "x",
    ),
}
CLAMPED = {
    "nulls": total(Scan("visits"), "cost"),
    "narrowed": total(Filter(PATIENTS, Compare("salary", "<", F(9)))),
    "computed": total(
        Project(PATIENTS, (Named("x", Call("multiply", (SALARY, Value("number", F(2))))),)), "x"
    ),
}


@pytest.mark.parametrize("name", mark_between([*AS_REGISTERED, *CLAMPED], step=3))
def test_the_numbers_are_those_of_the_oracle(sizes, name):
    check_query((AS_REGISTERED | CLAMPED)[name], sizes)


def test_columns_as_registered_are_summed_without_a_clamp():
    def rows(query):
        return analyse(query.plan, hospital.catalog())

    assert all("CASE" not in query_sql(query, rows(query)) for query in AS_REGISTERED.values())
    assert all("CASE" in query_sql(query, rows(query)) for query in CLAMPED.values())
    joined = total(Join(Scan("visits"), PATIENTS, (), "inner"))
    assert not stored_sums(joined, rows(joined)), "what a join does to a column is not looked into"


def moved(measurer: Measurer, query: Cells, salary: int) -> list[int]:
    """How one row of a copy that was tampered with moves what is measured."""
    before = measurer.measure(query)
    rows = measurer.engine.connection.sql("SELECT * FROM patients").to_arrow_table()  # read below
    tampered = duckdb.connect()
    tampered.execute("CREATE TABLE patients AS SELECT * FROM rows")
    tampered.execute(f"UPDATE patients SET salary = {salary} WHERE salary = 7")
    assert rows.num_rows == len(PEOPLE)
    with mock.patch.object(measurer.engine, "connection", tampered):
        return [abs(int(change)) for change in (measurer.measure(query) - before).ravel()]


@pytest.mark.parametrize("salary", [-1, 300_001, 2**31 - 1, -(2**31)])
@pytest.mark.parametrize("name", mark_between(AS_REGISTERED, step=3))
def test_a_row_outside_the_bounds_is_no_row(sizes, name, salary):
    query = AS_REGISTERED[name]
    change = moved(sizes.many.measurer, query, salary)
    assert sum(change) <= sensitivity(query, hospital.catalog()).l1
    assert sum(change[::2]) == 1, "one row fewer"


def test_without_the_check_one_row_moves_the_sum_by_more(monkeypatch):
    query = AS_REGISTERED["a column"]
    monkeypatch.setattr(cells, "inside", lambda *_: "")
    with hospital.registered(hospital.raws(PEOPLE, VISITS)) as both:
        assert (
            sum(moved(both.measurer, query, 2**31 - 1)) > sensitivity(query, hospital.catalog()).l1
        )


def test_it_is_no_row_in_any_column(sizes):
    """A row of one column alone would leave COUNT and SUM about different rows, and an average
    outside the bounds."""
    query = AS_REGISTERED["a column"]
    assert moved(sizes.many.measurer, query, 400_000) == [1, 7]
