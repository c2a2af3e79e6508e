"""Columns that a question names nowhere are left out, and no row or integer changes by it."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction as F
from typing import Any

import pytest

from dither.data.lower.plan import keep_columns
from dither.plan.algebra import (
    Cells,
    Column,
    Compare,
    Count,
    CountUnits,
    Distinct,
    Filter,
    Group,
    Join,
    LimitGroups,
    Named,
    PerUnit,
    Plan,
    Project,
    Scan,
    Sum,
    UnionAll,
)
from dither.plan.analyse import analyse_node
from tests.datasets import hospital

VISITS = Scan("visits")
PATIENTS = Scan("patients")
COUNTS = (Count(), CountUnits())
ALL = Group(Scan("counties"), (), (Named("all", Count()),))
PLANS: list[Plan] = [
    VISITS,
    Distinct(VISITS, per_unit=True),
    Distinct(Filter(UnionAll(VISITS, VISITS), Compare("score", ">", F(0))), per_unit=True),
    LimitGroups(VISITS, ("diag",), 1),
    Join(VISITS, Scan("counties"), (("county", "county"),), "inner"),
    Join(VISITS, ALL, (), "inner"),
    Join(PATIENTS, PerUnit(VISITS, ("diag",), (Named("n", Count()),)), (), "left"),
    Filter(Project(VISITS, (Named("a", Column("cost")), Named("b", Column("note")))),
           Compare("a", ">", F(1))),
]  # fmt: skip


@pytest.fixture(scope="module")
def database():
    rows = hospital.random_people(12, 3)
    rows["visits"] += [{**row, "visit": f"{row['visit']}x"} for row in rows["visits"][::3]]
    with hospital.registered(rows) as registered:
        yield registered


@pytest.mark.parametrize("plan", PLANS)
def test_as_many_rows_and_owners_as_the_oracle_has(database, plan):
    query = Cells(plan, (), COUNTS)
    expected: Counter[Any] = database.expected(plan)
    owners = {owner for owner, _ in expected}
    database.measurer.prepare(query)
    measured = database.measurer.measure(query)
    assert measured.tolist() == [[sum(expected.values()), len(owners)]]


def list_columns(database, plan: Plan, *names: str) -> list[list[str]]:
    """The columns of all nodes, from the top down."""
    level = [keep_columns(analyse_node(plan, database.catalog, database.facts), {*names})]
    columns = []
    while level:
        columns += [list(rows.columns) for rows in level]
        level = [source for rows in level for source in rows.sources]
    return columns


def test_what_nobody_names_is_left_out(database):
    assert list_columns(database, Filter(VISITS, Compare("score", ">", F(0))), "score") == [
        ["score"],
        ["score"],
    ]
    assert list_columns(database, VISITS) == [[]]


def test_distinct_reads_all_columns(database):
    whole = list(analyse_node(VISITS, database.catalog, database.facts).columns)
    plan = Filter(Distinct(VISITS, per_unit=True), Compare("score", ">", F(0)))
    assert list_columns(database, plan, "score") == [["score"], whole, whole]


def test_rows_without_an_owner_keep_columns(database):
    plan = Join(VISITS, Scan("counties"), (("county", "county"),), "inner")
    assert list_columns(database, plan, "beds") == [["beds"], [], ["beds"]]
    assert list_columns(database, plan)[2] == ["county", "region", "beds"]


def test_a_question_carries_what_it_names_and_no_more(database):
    query = Cells(Filter(VISITS, Compare("score", ">", F(0))), ("county",), (Sum("cost"),))
    sql = database.measurer.prepare(query)
    assert all(f'"{name}"' in sql for name in ("score", "county", "cost"))
    assert not any(f'"{name}"' in sql for name in ("note", "seen", "urgent", "diag", "visit"))
