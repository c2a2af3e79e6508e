"""Questions in SQL: what they bind to, and what an error says."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import clinic
from dither import DitherError, QueryError
from dither.answer.recipe import KeyColumn, ValueColumn
from dither.plan.algebra import And, Cells, Compare, Count, Filter, IsNull, Not, Or, Scan, Sum
from dither.sql.bind import bind

FACTS = clinic.catalog()


def condition(where: str):
    plan = bind(f"SELECT COUNT(*) FROM visits WHERE {where}", FACTS).queries[0].plan
    assert isinstance(plan, Filter)
    return plan.condition


def test_a_question_becomes_one_query_per_distinct_aggregate():
    recipe = bind(
        "SELECT ward AS station, COUNT(*) AS n, SUM(cost), COUNT(*) AS again FROM visits GROUP BY ward", FACTS
    )
    scan = Scan("visits")
    assert recipe.queries == (Cells(scan, ("ward",), (Count(),)), Cells(scan, ("ward",), (Sum("cost"),)))
    assert recipe.columns == (
        KeyColumn("station", 0), ValueColumn("n", 0), ValueColumn("sum_cost", 1), ValueColumn("again", 0),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("where", "meaning"),
    [
        ("age >= 18", Compare("age", ">=", Fraction(18))),
        ("18 <= age", Compare("age", ">=", Fraction(18))),
        ("AGE > -1.5", Compare("age", ">", Fraction(-3, 2))),
        ("cost = 0.1", Compare("cost", "=", Fraction(1, 10))),
        ("ward = 'north'", Compare("ward", "=", "north")),
        ("ward <> 'other'", Compare("ward", "<>", "other")),
        ("urgent", Compare("urgent", "=", Fraction(1))),
        ("NOT urgent", Not(Compare("urgent", "=", Fraction(1)))),
        ("urgent = FALSE", Compare("urgent", "=", Fraction(0))),
        ("day < DATE '2024-02-01'", Compare("day", "<", Fraction(19754))),
        ("day < '2024-02-01'", Compare("day", "<", Fraction(19754))),
        ("cost IS NULL", IsNull("cost")),
        ("cost IS NOT NULL", Not(IsNull("cost"))),
        ("age BETWEEN 1 AND 2", And((Compare("age", ">=", Fraction(1)), Compare("age", "<=", Fraction(2))))),
        ("kind IN ('a', 'b')", Or((Compare("kind", "=", "a"), Compare("kind", "=", "b")))),
        ("age = 1 AND (urgent OR age = 2)", None),
    ],
)
def test_conditions(where, meaning):
    found = condition(where)
    assert meaning is None or found == meaning


ERRORS = [
    ("", "the question is empty: write SELECT COUNT(*) FROM table"),
    ("SELECT COUNT(*) FROM visits; DROP TABLE visits", "one question at a time: remove everything after the first ';'"),
    ("DELETE FROM visits", "only SELECT is answered, not DELETE: questions never change data"),
    ("SELECT COUNT(*) FROM visit", "no table visit: did you mean visits?\n  SELECT COUNT(*) FROM visit\n                       ^^^^^"),
    ("SELECT SUM(cots) FROM visits", "no column cots in visits: did you mean cost?\n  SELECT SUM(cots) FROM visits\n             ^^^^"),
    ("SELECT age FROM visits", "age is neither a key nor inside an aggregate: add it to GROUP BY, or aggregate it as in SUM(age)\n"
     "  SELECT age FROM visits\n         ^^^"),
    ("SELECT patient, COUNT(*) FROM visits", "patient is neither a key nor inside an aggregate: it names people or rows, and is never shown\n"
     "  SELECT patient, COUNT(*) FROM visits\n         ^^^^^^^"),
    ("SELECT COUNT(*) FROM visits GROUP BY patient", "patient cannot be grouped by: it names people or rows\n"
     "  SELECT COUNT(*) FROM visits GROUP BY patient\n                                       ^^^^^^^"),
    ("SELECT COUNT(*) FROM visits WHERE patient = 'p1'", "patient cannot be compared: it names people or rows\n"
     "  SELECT COUNT(*) FROM visits WHERE patient = 'p1'\n                                    ^^^^^^^"),
    ("SELECT COUNT(*) FROM visits WHERE ward = 'nort'", "ward has no declared label 'nort': did you mean north?"),
    ("SELECT COUNT(*) FROM visits WHERE ward < 'north'", "ward is a category: compare it with = or <>"),
    ("SELECT COUNT(*) FROM visits WHERE age = '40'", "age is a number: compare it with a number"),
    ("SELECT COUNT(*) FROM visits WHERE day = '2024-02-31'", "day is a date: compare it with DATE '2026-01-31'"),
    ("SELECT SUM(ward) FROM visits", "SUM needs a number with declared bounds; ward is a category\n"
     "  SELECT SUM(ward) FROM visits\n             ^^^^"),
    ("SELECT ward FROM visits GROUP BY ward", "a question needs an aggregate, such as COUNT(*): rows are never shown"),
    ("SELECT COUNT(*), COUNT(*) FROM visits", "two columns would be called count: rename one with AS"),
    ("SELECT COUNT(*) AS n, SUM(age) AS n_low FROM visits", "two columns would be called n_low: rename one with AS"),
    ("SELECT COUNT(*) FROM visits LIMIT 3", "LIMIT is not answered yet: remove it"),
    ("SELECT COUNT(*) FROM visits ORDER BY 1", "ORDER BY is not answered yet: remove it"),
    ("SELECT DISTINCT COUNT(*) FROM visits", "DISTINCT is not answered yet: remove it"),
    ("SELECT ward, COUNT(*) FROM visits GROUP BY ward HAVING COUNT(*) > 1", "HAVING is not answered yet: remove it"),
    ("SELECT COUNT(*) FROM visits a JOIN visits b ON a.visit = b.visit", "JOIN is not answered yet: remove it"),
    ("SELECT COUNT(*) FROM (SELECT * FROM visits)", "FROM takes the name of one registered table"),
    ("SELECT COUNT(*) FROM read_csv('x')", "FROM takes the name of one registered table"),
    ("SELECT AVG(age) FROM visits", "no rule for AVG(age) yet: COUNT(*) and SUM(column) are answered"),
    ("SELECT SUM(DISTINCT age) FROM visits", "no rule for SUM(DISTINCT age) yet: COUNT(*) and SUM(column) are answered"),
    ("SELECT COUNT(*) FILTER (WHERE age > 3) FROM visits", "no rule for COUNT(*) FILTER(WHERE age > 3) yet"),
    ("SELECT COUNT(*) OVER () FROM visits", "no rule for COUNT(*) OVER () yet"),
    ("SELECT COUNT(*) FROM visits WHERE age + 1 > 2", "a comparison needs a column on one side and a constant on the other"),
    ("SELECT COUNT(*) FROM visits WHERE age > score", "age is a number: compare it with a number"),
    ("SELECT COUNT(*) FROM visits WHERE age IN (SELECT 1)", "WHERE has no rule for In yet"),
    ("SELECT COUNT(*) FROM visits WHERE EXISTS (SELECT 1)", "WHERE has no rule for Exists yet"),
    ("SELECT COUNT(*) FROM visits GROUP BY ROLLUP (ward)", "GROUP BY takes column names only, so far"),
    ("SELECT COUNT(*) FROM visits GROUP BY age + 1", "GROUP BY takes column names only, so far"),
    ("SELECT COUNT(*) FROM visits TABLESAMPLE 10%", "FROM visits with sample is not answered yet: remove it"),
    ("SELECT COUNT(*) FRM visits", "the question is not SQL"),
]  # fmt: skip


@pytest.mark.parametrize(("sql", "message"), ERRORS, ids=[sql or "empty" for sql, _ in ERRORS])
def test_an_error_names_the_rule_the_place_and_the_remedy(sql, message):
    with pytest.raises(QueryError) as caught:
        bind(sql, FACTS)
    assert str(caught.value).startswith(message), str(caught.value)


def test_an_error_knows_its_place_in_the_text():
    sql = "SELECT ward,\n       SUM(cots)\nFROM visits GROUP BY ward"
    with pytest.raises(QueryError) as caught:
        bind(sql, FACTS)
    assert sql[caught.value.start : caught.value.end] == "cots"


def test_a_question_nested_too_deeply_is_refused():
    with pytest.raises(QueryError):
        bind("SELECT COUNT(*) FROM visits WHERE " + "NOT (" * 3000 + "urgent" + ")" * 3000, FACTS)


WORDS = st.sampled_from(
    [
        "SELECT",
        "COUNT",
        "(",
        "*",
        ")",
        "SUM",
        "cost",
        "FROM",
        "visits",
        "WHERE",
        "age",
        ">",
        "3",
        "AND",
        "OR",
        "NOT",
        "GROUP",
        "BY",
        "ward",
        "'",
        '"',
        ";",
        "--",
        "/*",
        "*/",
        ",",
        ".",
        "=",
        "NULL",
        "IS",
        "IN",
        "BETWEEN",
        "CASE",
        "WHEN",
        "END",
        "CAST",
        "AS",
        "DATE",
        "1e999",
        "-0",
        "0x1",
        "::int",
        "[1]",
        "{a:1}",
        "$1",
        "?",
        "@x",
        "JOIN",
        "ON",
        "USING",
        "UNION",
        "ALL",
        "LIMIT",
    ]
)


@settings(max_examples=150, deadline=None)
@given(st.lists(WORDS, max_size=14).map(" ".join))
def test_any_text_is_answered_or_refused_with_an_error_of_dither(text):
    for sql in (text, f"SELECT COUNT(*) FROM visits WHERE {text}", f"SELECT {text} FROM visits"):
        try:
            bind(sql, FACTS)
        except DitherError as error:
            assert str(error)
