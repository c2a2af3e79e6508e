"""The text of a question is bounded in length, words, nesting and work before it is bound."""

from __future__ import annotations

import pytest
from sqlglot import exp

from dither import QueryError
from dither.plan.facts import NO_FACTS
from dither.sql import bind as binder
from dither.sql.bind import bind
from dither.sql.dialects import read_dialect
from dither.sql.parse import MAX_DEPTH, MAX_LENGTH, MAX_PARENTHESES, MAX_WORD, parse, read_text
from tests.datasets import clinic_sql
from tests.time_guard import time_guard

CATALOG = clinic_sql.catalog()
BY_WARD = "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward"
CLAUSE = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS({}, privacy_unit_column=patient_id)"


@pytest.mark.parametrize("digits", [60, 900, 5_000])
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT ward, COUNT(*) AS n FROM visits GROUP BY {}",
        BY_WARD + " ORDER BY {}",
        BY_WARD + " LIMIT {}",
        BY_WARD + " OFFSET {}",
        BY_WARD + " FETCH FIRST {} ROWS ONLY",
        "SELECT COUNT(*) AS n FROM (SELECT ward FROM visits GROUP BY {})",
    ],
    ids=["group", "order", "limit", "offset", "fetch", "inner group"],
)
def test_a_whole_number_without_end_is_refused_as_a_question(sql, digits):
    with pytest.raises(QueryError, match="no column 9|whole number|more than 1,000 characters"):
        bind(sql.format("9" * digits), CATALOG, NO_FACTS)


@pytest.mark.parametrize(
    "option",
    ["epsilon=1e-99999999", "epsilon=1, delta=1e-99999999", "epsilon=" + "9" * 900 + "9e999999"],
)
def test_an_option_without_end_is_refused(option):
    with time_guard(), pytest.raises(QueryError, match="must be set|must lie in"):
        read_dialect(CLAUSE.format(option) + " COUNT(*) FROM visits")


def test_parentheses_in_a_dialect_are_bounded():
    deep = "(" * 200 + "cost" + ")" * 200
    for bounds in ("per_group", "per_row"):
        sql = (
            CLAUSE.format("epsilon=1")
            + f" SUM({deep}, contribution_bounds_{bounds} => (0, 1)) FROM visits"
        )
        with pytest.raises(QueryError, match="nested too deeply"):
            read_dialect(sql)


@pytest.mark.parametrize("term", ["*1e999", "/1e999", "+1", "-cost"])
@pytest.mark.parametrize(
    "head", ["SELECT COUNT(*){} AS n FROM visits", "SELECT SUM(cost{}) AS n FROM visits"]
)
def test_a_long_chain_is_refused_before_it_is_bound(head, term, monkeypatch):
    """Binding looks at all that is under a node: a chain of 2,000 took 20 seconds to be refused."""
    monkeypatch.setattr(binder, "_bind", lambda *_: pytest.fail("a chain without end was bound"))
    with pytest.raises(QueryError, match="nested too deeply"):
        bind(head.format(term * 2_000), CATALOG, NO_FACTS)


def test_many_chains_are_refused_before_they_are_bound(monkeypatch):
    monkeypatch.setattr(binder, "_bind", lambda *_: pytest.fail("chains without end were bound"))
    columns = ", ".join(f"COUNT(*){'+1' * 90} AS n{i}" for i in range(50))
    with pytest.raises(QueryError, match="too many terms"):
        bind(f"SELECT {columns} FROM visits", CATALOG, NO_FACTS)


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELECT " + "x, " * MAX_LENGTH, "longer than 100,000 characters"),
        (f"SELECT {'x' * (MAX_WORD + 1)} FROM visits", "more than 1,000 characters"),
        (
            f"SELECT COUNT(*) FROM visits WHERE cost > {'9' * (MAX_WORD + 1)}",
            "more than 1,000 characters",
        ),
        ("SELECT " + "(" * (MAX_PARENTHESES + 1), "nested too deeply"),
        ("SELECT " + "[{(" * MAX_PARENTHESES, "nested too deeply"),
    ],
    ids=["length", "word", "number", "parentheses", "brackets"],
)
def test_a_text_beyond_its_limits_is_refused_before_it_is_parsed(sql, message):
    with pytest.raises(QueryError, match=message):
        read_text(sql)


def test_what_people_write_is_within_the_limits():
    many = " OR ".join(f"cost = {i}" for i in range(1_000))
    assert parse(f"SELECT COUNT(*) FROM visits WHERE {many}")
    cases = " ".join(f"WHEN cost = {i} THEN {i}" for i in range(500))
    assert parse(f"SELECT SUM(CASE {cases} END) FROM visits")
    columns = ", ".join(
        f"AVG(CASE WHEN ward = 'north' AND age > {i} THEN cost * 2 + 1 END) AS n{i}"
        for i in range(50)
    )
    assert parse(f"SELECT {columns} FROM visits WHERE {many[:2_000].rpartition(' OR ')[0]}")
    assert isinstance(
        parse("SELECT " + "(" * 30 + "COUNT(*)" + ")" * 30 + " FROM visits"), exp.Select
    )
    assert bind(
        "SELECT COUNT(*)" + "+1" * (MAX_DEPTH - 10) + " AS n FROM visits", CATALOG, NO_FACTS
    ).queries


@pytest.mark.parametrize("factors", ["*1e101", "/1e101", "*1e99" * 2, "/1e-99" * 50, "*1e999" * 60])
@pytest.mark.parametrize("value", ["COUNT(*)", "SUM(cost) / COUNT(*)", "AVG(cost)"])
def test_constants_over_aggregates_stay_where_errors_can_be_computed(value, factors):
    with pytest.raises(QueryError, match="beyond 1e100 or below 1e-100"):
        bind(f"SELECT {value}{factors} AS n FROM visits", CATALOG, NO_FACTS)
    assert bind(f"SELECT {value}*1e90/1e89 AS n FROM visits", CATALOG, NO_FACTS).queries


def test_arithmetic_on_constants_does_not_grow_without_bound():
    with pytest.raises(QueryError):
        bind(
            "SELECT SUM(cost * (" + "*".join(["1e999"] * 50) + ")) AS n FROM visits",
            CATALOG,
            NO_FACTS,
        )
