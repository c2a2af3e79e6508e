"""Rows of a left join without a match: NOT EXISTS gives the rows of the join that was analysed."""

from __future__ import annotations

from fractions import Fraction as F
from functools import partial

import pytest

from dither.data.lower import join
from dither.data.lower.dialect import writing_in
from dither.data.lower.plan import plan_sql
from dither.plan.algebra import (
    And,
    Compare,
    Filter,
    IsNull,
    Join,
    LimitGroups,
    Not,
    Plan,
)
from dither.plan.analyse import analyse_node
from tests.data import owner_groups
from tests.data.owner_groups import ITEMS, LATE, MANY, PATIENTS, VISITS, group
from tests.datasets import hospital

meet = partial(owner_groups.meet, kind="left")


def unmet(*arguments: Plan | str, **options: str) -> Plan:
    return Filter(meet(*arguments, **options), IsNull("rows"))  # type: ignore[arg-type]


ONE = unmet(VISITS, group(MANY, "visit"), "visit")
UNMET = [
    ONE,
    unmet(PATIENTS, group(LATE)),
    unmet(LATE, group(MANY, "visit"), "visit"),
    unmet(VISITS, group(LATE, "score"), "score"),
    unmet(VISITS, group(LATE, "diag"), "diag"),
    unmet(VISITS, group(LATE, "county", "diag"), "county", "diag"),
    Filter(meet(VISITS, group(ITEMS, "visit"), "visit"), IsNull("values")),
    Filter(meet(ONE, group(LATE, suffix="_2"), suffix="_2"), IsNull("rows_2")),
    unmet(
        PATIENTS,
        group(
            Filter(
                meet(LATE, group(ITEMS, "visit", suffix="_2"), "visit", suffix="_2"),
                IsNull("rows_2"),
            )
        ),
    ),
    LimitGroups(unmet(VISITS, group(LATE, "diag"), "diag"), ("in_diag", "diag"), 1),
]
JOINED = [
    Filter(meet(VISITS, group(ITEMS, "visit"), "visit"), IsNull("largest")),
    Filter(meet(VISITS, group(ITEMS, "visit"), "visit"), Not(IsNull("rows"))),
    Filter(meet(VISITS, group(ITEMS, "visit"), "visit"), And((IsNull("rows"), IsNull("score")))),
    Filter(meet(VISITS, group(ITEMS, "visit"), "visit"), IsNull("score")),
    Filter(meet(VISITS, group(ITEMS, "visit"), "visit", kind="inner"), IsNull("score")),
    Filter(Join(VISITS, group(LATE, "county", "diag"), (("county", "in_county"),), "inner"),
           IsNull("cost")),
]  # fmt: skip


@pytest.fixture(scope="module")
def database():
    rows = hospital.random_people(12, 3)
    names = [row["visit"] for row in rows["visits"]]
    rows["items"] = [
        hospital.item(name, None if quantity is None else str(quantity), drug)
        for position, name in enumerate(names)
        for quantity, drug in ((None, "c"), (1, "a"), (5, "b"), (1, "a"))[: position % 5]
    ]
    with hospital.registered(rows) as registered:
        yield registered


def write_sql(database, plan: Plan) -> str:
    with writing_in(database.measurer.engine.dialect):
        return plan_sql(analyse_node(plan, database.catalog, database.facts))


@pytest.mark.parametrize("plan", UNMET + JOINED)
def test_rows_are_those_of_the_oracle(database, plan):
    expected = database.expected(plan)
    assert expected or plan is JOINED[4]
    assert database.rows(plan) == expected


@pytest.mark.parametrize("plan", UNMET)
def test_no_group_is_made(database, plan):
    assert "NOT EXISTS" in write_sql(database, plan)


@pytest.mark.parametrize("plan", JOINED)
def test_a_join_that_is_asked_anything_else_is_made(database, plan):
    assert "NOT EXISTS" not in write_sql(database, plan)


def test_a_match_of_another_owner_would_be_seen(database, monkeypatch):
    """Planted: rows meet by their keys alone."""
    write = join.write_condition

    def write_less(plan, operands):
        return write(plan, operands).replace("l.dither_unit = r.dither_unit AND ", "")

    monkeypatch.setattr(join, "write_condition", write_less)
    plan = unmet(VISITS, group(Filter(VISITS, Compare("cost", ">", F(1))), "county"), "county")
    assert database.rows(plan) != database.expected(plan)
