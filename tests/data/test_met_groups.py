"""Groups of an owner that a join meets: the rows are those of the join that was analysed."""

from __future__ import annotations

from fractions import Fraction as F

import pytest

from dither.data.lower import per_unit
from dither.data.lower.dialect import Dialect, writing_in
from dither.data.lower.plan import plan_sql
from dither.plan.algebra import (
    Compare,
    Count,
    Filter,
    Join,
    Named,
    PerUnit,
    Plan,
)
from dither.plan.analyse import analyse_node
from tests.data.owner_groups import ITEMS, LATE, MANY, PATIENTS, VISITS, group, meet
from tests.datasets import hospital

ONE = meet(LATE, group(ITEMS, "visit"), "visit")
MET = [
    ONE,
    meet(LATE, group(MANY, "visit"), "visit"),
    meet(LATE, group(MANY, "visit"), "visit", kind="left"),
    meet(LATE, group(VISITS), kind="left"),
    meet(LATE, group(VISITS, "score"), "score"),
    meet(LATE, group(VISITS, "diag"), "diag", kind="left"),
    meet(LATE, group(VISITS, "county", "diag"), "county", "diag"),
    meet(ONE, group(MANY, "visit", suffix="_2"), "visit", kind="left", suffix="_2"),
    meet(Filter(ONE, Compare("rows", ">", F(1))), group(LATE, suffix="_2"), suffix="_2"),
    meet(LATE, PerUnit(ONE, ("in_visit",), (Named("n", Count()),)), "visit"),
]
WHOLE = [
    meet(VISITS, group(ITEMS, "visit"), "visit"),
    meet(PATIENTS, group(VISITS), kind="left"),
    Join(LATE, group(VISITS, "county", "diag"), (("county", "in_county"),), "inner"),
    Join(LATE, group(VISITS), (("score", "least"),), "inner"),
]


@pytest.fixture(scope="module")
def database():
    rows = hospital.random_people(12, 3)
    names = [row["visit"] for row in rows["visits"]]
    rows["items"] = [
        hospital.item(name, None if quantity is None else str(quantity), drug)
        for position, name in enumerate(names)
        for quantity, drug in ((1, "a"), (1, "a"), (5, "b"), (None, "c"))[: position % 5]
    ]
    with hospital.registered(rows) as registered:
        yield registered


def write_sql(database, plan: Plan, dialect: Dialect) -> str:
    with writing_in(dialect):
        return plan_sql(analyse_node(plan, database.catalog, database.facts))


@pytest.mark.parametrize("plan", MET + WHOLE)
def test_rows_are_those_of_the_oracle(database, plan):
    expected = database.expected(plan)
    assert expected
    assert database.rows(plan) == expected


@pytest.mark.parametrize("plan", MET)
def test_only_groups_that_a_row_meets_are_made(database, plan):
    sql = write_sql(database, plan, database.measurer.engine.dialect)
    assert "WITH dither_left" in sql and "EXISTS" in sql


@pytest.mark.parametrize("plan", WHOLE)
def test_groups_are_made_whole_where_no_filter_or_no_key_leaves_some_out(database, plan):
    assert "EXISTS" not in write_sql(database, plan, database.measurer.engine.dialect)


class Plain(Dialect):
    reduces_groups = False


def test_an_engine_that_might_compute_named_rows_twice_is_given_none(database):
    assert "WITH" not in write_sql(database, ONE, Plain())


def test_a_group_that_lost_rows_would_be_seen(database, monkeypatch):
    """Planted: a row stays in its group only where it has the left row's score."""
    write = per_unit.write_condition

    def write_more(plan, operands):
        return f'{write(plan, operands)} AND l."score" = r."compared"'

    monkeypatch.setattr(per_unit, "write_condition", write_more)
    plan = meet(LATE, group(VISITS))
    assert database.rows(plan) != database.expected(plan)
