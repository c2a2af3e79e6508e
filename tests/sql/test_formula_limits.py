"""Formulas over aggregates are bounded by the nodes that they have when shared parts are written
out."""

from __future__ import annotations

import pytest

from dither import QueryError
from dither.question.expressions import Apply, Formula, Noisy, count_nodes
from dither.sql import aggregates
from dither.sql.bind import bind
from dither.sql.formulas import MAX_NODES
from dither.sql.tree_nodes import list_own_nodes
from tests.datasets import clinic_sql


def nest_selects(depth: int, body: str) -> str:
    sql = "SELECT COUNT(*) AS x FROM visits"
    for _ in range(depth):
        sql = f"SELECT {body} AS x FROM ({sql})"
    return sql


def repeat_conditions(count: int) -> str:
    conditions = " AND ".join(f"n > {i}" for i in range(count))
    return f"SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward HAVING {conditions}"


def test_sizes_count_shared_parts_without_walking_them():
    formula: Formula = Noisy(0)
    for _ in range(200):
        formula = Apply("add", (formula, formula))
    assert count_nodes(formula) == 2**201 - 1


@pytest.mark.parametrize(
    "body",
    ["x + x", "CASE WHEN x > 1 THEN x ELSE -x END", "LEAST(x, -x)", "x % x", "COALESCE(x, x)"],
)
def test_answers_over_answers_that_double_are_refused(body):
    assert bind(nest_selects(2, body), clinic_sql.catalog()).outputs
    with pytest.raises(QueryError, match=f"more than {MAX_NODES} steps"):
        bind(nest_selects(30, body), clinic_sql.catalog())


def test_conditions_that_pile_up_over_answers_are_refused():
    sql = repeat_conditions(400)
    for _ in range(2):
        sql = f"SELECT n FROM ({sql}) WHERE " + " AND ".join(f"n > {i}" for i in range(400))
    with pytest.raises(QueryError, match="steps"):
        bind(sql, clinic_sql.catalog())


def test_many_columns_that_are_long_together_are_refused():
    total = " + ".join(["COUNT(*)"] * 30)
    columns = ", ".join(f"s * {i} AS c{i}" for i in range(40))
    with pytest.raises(QueryError, match="steps"):
        bind(f"SELECT {columns} FROM (SELECT {total} AS s FROM visits)", clinic_sql.catalog())


def test_counted_aggregates_are_collected_in_one_walk(monkeypatch):
    """The parts of every node were walked: 300 conditions made 180,000 steps."""
    steps = []

    def count_steps(node):
        for child in list_own_nodes(node):
            steps.append(child)
            yield child

    monkeypatch.setattr(aggregates, "list_own_nodes", count_steps)
    bind(repeat_conditions(300), clinic_sql.catalog())
    assert 300 < len(steps) < 10_000


@pytest.mark.parametrize("level", ["({}) IS TRUE", "CASE WHEN {} THEN TRUE ELSE FALSE END"])
def test_nested_conditions_are_read_once(level):
    """Read twice at each level, 30 levels would take a billion readings."""
    condition = "COUNT(*) > 1"
    for _ in range(30):
        condition = level.format(condition)
    assert bind(f"SELECT {condition} AS c FROM visits", clinic_sql.catalog()).outputs


@pytest.mark.parametrize(
    "columns",
    [
        ", ".join(f"AVG(cost) * {i} AS c{i}" for i in range(1, 41)),
        "CASE "
        + " ".join(f"WHEN COUNT(*) < {i} THEN {i}" for i in range(30))
        + " ELSE 99 END AS c",
        "CASE ROUND(AVG(cost)) " + " ".join(f"WHEN {i} THEN {i}" for i in range(30)) + " END AS c",
    ],
)
def test_ordinary_questions_stay_below_the_bound(columns):
    assert bind(f"SELECT ward, {columns} FROM visits GROUP BY ward", clinic_sql.catalog()).outputs
