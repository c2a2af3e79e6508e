"""Sums of differences from constants are measured without subtracting: the same integers,
exactly."""

from __future__ import annotations

from fractions import Fraction as F

import pytest

from dither.data.lower import cells
from dither.data.lower.shifted import remove_shifts
from dither.plan.algebra import (
    Call,
    Cells,
    Column,
    Compare,
    Count,
    CountDistinct,
    Expression,
    Filter,
    Named,
    Project,
    Scan,
    Sum,
    Value,
)
from dither.plan.analyse import analyse
from tests.case_lists import mark_between, mark_rest
from tests.datasets import hospital
from tests.neighbours import PEOPLE, VISITS, check_query, measured

SALARY, COST = Column("salary"), Column("cost")


def less(base: Expression, by: str) -> Call:
    return Call("subtract", (base, Value("number", F(by))))


def moved(base: Expression, by: str, *columns, keys=(), table: str = "patients") -> Cells:
    shown = (Named("sex", Column("sex")),) if table == "patients" else ()
    plan = Project(Scan(table), (*shown, Named("x", less(base, by))))
    return Cells(plan, keys, columns or (Count(), Sum("x")))


SHIFTED = {
    "a column": moved(SALARY, "150000"),
    "by key": moved(SALARY, "150000", keys=("sex",)),
    "without a count": moved(SALARY, "-3", Sum("x")),
    "an expression": moved(
        Call("multiply", (SALARY, Value("number", F(2)))), "7", Sum("x"), Count(), Sum("x")
    ),
    "no nulls left": moved(Call("coalesce", (COST, Value("number", F(0)))), "245", table="visits"),
    "of some": Cells(
        Project(
            Filter(Scan("patients"), Compare("salary", ">", F(5))),
            (Named("x", less(SALARY, "100")),),
        ),
        (),
        (Sum("x"), Count()),
    ),
}
FEW = Filter(Scan("patients"), Compare("salary", "<", F(9)))
AS_IT_IS = {
    "nulls": moved(COST, "245", table="visits"),
    "another grid": moved(SALARY, "1/2"),
    "a key": Cells(Project(FEW, (Named("x", less(SALARY, "2")),)), ("x",), (Sum("x"),)),
    "also counted": moved(SALARY, "10", Sum("x"), CountDistinct("x")),
}


@pytest.mark.parametrize("name", mark_between([*SHIFTED, *AS_IT_IS], step=3))
def test_the_numbers_are_those_of_the_oracle(sizes, name):
    check_query((SHIFTED | AS_IT_IS)[name], sizes)


def test_only_columns_without_nulls_that_are_summed_alone_are_moved():
    for query in SHIFTED.values():
        assert remove_shifts(query, analyse(query.plan, hospital.catalog()))[1]
    for query in AS_IT_IS.values():
        rows = analyse(query.plan, hospital.catalog())
        assert remove_shifts(query, rows) == (rows, {})


@pytest.mark.parametrize(
    ("query", "shift"),
    mark_rest(
        [(SHIFTED["by key"], 0), (SHIFTED["by key"], 149_999), (AS_IT_IS["nulls"], 24_500)], quick=1
    ),
    ids=["the constant forgotten", "another constant", "rows that are null counted"],
)
def test_slips_are_caught(monkeypatch, query, shift):
    base = {"patients": SALARY, "visits": COST}[query.plan.source.table]
    plain = Project(query.plan.source, (*query.plan.columns[:-1], Named("x", base)))
    rows = analyse(plain, hospital.catalog())
    monkeypatch.setattr(cells, "remove_shifts", lambda *_: (rows, {"x": shift}))
    with hospital.registered(hospital.raws(PEOPLE, VISITS)) as both, pytest.raises(AssertionError):
        measured(both, query)
