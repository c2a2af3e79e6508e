"""EXISTS inside an owner as a semi-join: the rows are those of the join that was analysed."""

from __future__ import annotations

from fractions import Fraction as F

import pytest

from dither.data.lower import plan as lower_plan
from dither.data.lower.dialect import writing_in
from dither.data.lower.plan import plan_sql
from dither.plan.algebra import (
    Column,
    Compare,
    Distinct,
    Filter,
    Join,
    Named,
    Plan,
    Project,
    Scan,
    Value,
)
from dither.plan.analyse import analyse_node
from tests.datasets import hospital

PATIENTS = Scan("patients")
VISITS = Scan("visits")
ITEMS = Scan("items")


def match(source: Plan, *names: str, mark: str = "matched") -> Plan:
    """Different rows of the columns, each under another name, with a mark."""
    columns = [Named(f"in_{name}", Column(name)) for name in names]
    return Distinct(Project(source, (*columns, Named(mark, Value("boolean", F(1))))), True)


def exists(left: Plan, right: Plan, *names: str) -> Plan:
    return Join(left, right, tuple((name, f"in_{name}") for name in names), "inner")


MANY = Filter(ITEMS, Compare("qty", ">", F(1)))
SEMI_JOINS = [
    exists(VISITS, match(ITEMS, "visit"), "visit"),
    exists(VISITS, match(MANY, "visit"), "visit"),
    exists(PATIENTS, match(VISITS)),
    exists(exists(VISITS, match(MANY, "visit"), "visit"), match(PATIENTS, mark="known")),
    Filter(exists(VISITS, match(ITEMS, "visit"), "visit"), Compare("matched", "=", F(1))),
]
OTHER_JOINS = [
    Join(VISITS, match(ITEMS, "visit"), (("visit", "in_visit"),), "left"),
    exists(VISITS, match(ITEMS, "visit", "qty"), "visit"),
    exists(VISITS, match(VISITS, "score"), "score"),
    exists(VISITS, match(VISITS, "diag"), "diag"),
    exists(Filter(VISITS, Compare("score", ">", F(0))), match(VISITS, "score"), "score"),
]


@pytest.fixture(scope="module")
def database():
    rows = hospital.random_people(12, 3)
    names = [row["visit"] for row in rows["visits"]]
    rows["items"] = [
        hospital.item(name, str(quantity), drug)
        for position, name in enumerate(names)
        for quantity, drug in ((1, "a"), (1, "a"), (5, "b"), (None, "c"))[: position % 5]
    ]
    with hospital.registered(rows) as registered:
        yield registered


def write_sql(database, plan: Plan) -> str:
    with writing_in(database.measurer.engine.dialect):
        return plan_sql(analyse_node(plan, database.catalog, database.facts))


@pytest.mark.parametrize("plan", SEMI_JOINS + OTHER_JOINS)
def test_rows_are_those_of_the_oracle(database, plan):
    expected = database.expected(plan)
    assert expected
    assert database.rows(plan) == expected


@pytest.mark.parametrize("plan", SEMI_JOINS)
def test_a_match_is_looked_for_without_telling_equal_ones_apart(database, plan):
    sql = write_sql(database, plan)
    assert "EXISTS" in sql and "DISTINCT" not in sql


@pytest.mark.parametrize("plan", OTHER_JOINS)
def test_a_join_that_gives_more_than_a_match_stays_one(database, plan):
    assert "EXISTS" not in write_sql(database, plan)


def test_a_match_of_another_owner_would_be_seen(database, monkeypatch):
    """Planted: rows of all owners match."""
    write = lower_plan.semi_join_sql
    monkeypatch.setattr(
        lower_plan,
        "semi_join_sql",
        lambda *given: write(*given).replace("l.dither_unit = r.dither_unit", "TRUE"),
    )
    plan = exists(PATIENTS, match(MANY))
    assert database.rows(plan) != database.expected(plan)
