"""An OR of equalities of one column is a list for the engine: the rows are those of the OR."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction as F

import pytest

from dither.data.lower.dialect import writing_in
from dither.data.lower.plan import plan_sql
from dither.plan.algebra import And, Compare, Filter, Not, Or, Plan, Scan
from dither.plan.analyse import analyse_node
from tests.datasets import hospital

VISITS = Scan("visits")


def either(column: str, *numbers: object) -> Or:
    return Or(tuple(Compare(column, "=", F(str(number))) for number in numbers))


LISTED = [
    either("score", 1, 3),
    either("score", 2, "5/3", 10**30, -(10**30)),
    either("score", 3, 3, "1/7"),
    either("score", *range(-20, 200)),
    And((either("score", 1, 2, 3), Compare("score", "<>", F(2)))),
    Or((either("score", 1, 2), Compare("diag", "=", "flu"))),
    either("urgent", 0, 1),
]
OTHERS = [
    Not(either("score", 1, 3)),
    Or((Compare("score", "=", F(1)), Compare("score", ">", F(3)))),
    Or((Compare("score", "=", F(1)), Compare("urgent", "=", F(1)))),
    Or((Compare("diag", "=", "flu"), Compare("diag", "=", "cold"))),
    Not(Or((Compare("score", "<>", F(1)), Compare("score", "<>", F(2))))),
]


@pytest.fixture(scope="module")
def database():
    with hospital.registered(hospital.random_people(30, 5)) as registered:
        yield registered


@pytest.mark.parametrize("condition", LISTED + OTHERS)
def test_rows_are_those_of_the_oracle(database, condition):
    plan = Filter(VISITS, condition)
    assert database.rows(plan) == database.expected(plan)


@pytest.mark.parametrize("condition", LISTED)
def test_numbers_of_one_column_are_a_list(database, condition):
    assert " IN (" in write_sql(database, Filter(VISITS, condition))


@pytest.mark.parametrize("condition", OTHERS)
def test_all_else_is_none(database, condition):
    assert " IN (" not in write_sql(database, Filter(VISITS, condition))


def write_sql(database, plan: Plan) -> str:
    with writing_in(database.measurer.engine.dialect):
        return plan_sql(analyse_node(plan, database.catalog, database.facts))


@pytest.mark.parametrize("number", ["-1/3", 10**20])
def test_a_list_of_no_value_lets_nothing_through(database, number):
    plan = Filter(VISITS, either("score", number, number))
    assert database.rows(plan) == database.expected(plan) == Counter()
