"""Questions over answers: which parts need data, and what is computed from their answers."""

from __future__ import annotations

import pytest
import sqlglot
from sqlglot import exp

from dither.postprocess.split_question import StatementColumn, split_question, write_scalars

OVER_ANSWERS = [
    "SELECT ward, COUNT(*) AS n, RANK() OVER (ORDER BY COUNT(*) DESC) AS r FROM visits "
    "GROUP BY ward",
    "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward "
    "QUALIFY ROW_NUMBER() OVER (ORDER BY COUNT(*) DESC) <= 2",
    "SELECT ward, COUNT(*) * 1.0 / SUM(COUNT(*)) OVER () AS share FROM visits GROUP BY ward",
    "SELECT ward, COUNT(*) / (SELECT COUNT(*) FROM visits) AS share FROM visits GROUP BY ward",
    "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward UNION ALL SELECT 'all', COUNT(*) "
    "FROM visits",
    "WITH t AS (SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward), "
    "u AS (SELECT SUM(n) AS s FROM t) SELECT ward, n / s AS share FROM t, u",
    "WITH t AS (SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward) "
    "SELECT a.ward, a.n - b.n FROM t a JOIN t b ON a.ward <> b.ward",
    "SELECT COUNT(*) FROM visits WHERE cost > (SELECT AVG(cost) FROM visits)",
]
HOSTILE = [
    "SELECT COUNT(*) OVER () FROM visits",
    "SELECT * FROM visits",
    "SELECT cost FROM visits UNION ALL SELECT COUNT(*) FROM visits",
    "WITH t AS (SELECT COUNT(*) AS n FROM visits) SELECT cost, n FROM t, visits",
    "WITH t AS (SELECT COUNT(*) AS n FROM visits) SELECT n, (SELECT MAX(cost) FROM t) FROM t",
    "WITH t AS (SELECT COUNT(*) AS n FROM visits) SELECT n FROM t WHERE n IN "
    "(SELECT cost FROM visits)",
    "WITH t AS (SELECT COUNT(*) AS n FROM visits) SELECT n FROM t WHERE EXISTS "
    "(SELECT 1 FROM visits WHERE cost > 3)",
    "WITH t AS (SELECT COUNT(*) AS n FROM visits) SELECT n, (SELECT content FROM "
    "read_text('/etc/hostname')) FROM t",
    "WITH t AS (SELECT COUNT(*) AS n FROM visits) SELECT repeat('x', 1000000000), n FROM t",
    "WITH t AS (SELECT COUNT(*) AS n FROM visits) SELECT n, x FROM t, range(1000000000) r(x)",
    "WITH RECURSIVE t AS (SELECT COUNT(*) AS n FROM visits UNION ALL SELECT n + 1 FROM t) "
    "SELECT n FROM t",
    "SELECT ward, COUNT(*), SUM(cost) OVER () FROM visits GROUP BY ward",
    "SELECT COUNT(*), FIRST_VALUE(cost) OVER () FROM visits",
]


def list_tables(statement: str) -> set[str]:
    return {table.name for table in sqlglot.parse_one(statement, read="duckdb").find_all(exp.Table)}


@pytest.mark.parametrize("sql", OVER_ANSWERS)
def test_a_statement_over_answers_reads_their_tables_alone(sql):
    split = split_question(sql)
    assert split is not None
    parts = {part.name for part in split.subquestions}
    assert list_tables(split.statement) <= parts
    for part in split.subquestions:
        for scalar in part.scalars:
            assert list_tables(scalar.statement) <= parts


@pytest.mark.parametrize("sql", HOSTILE)
def test_no_table_of_the_data_reaches_the_statement(sql):
    """Where such a question is split at all, whatever reads data is in a part, which is bound."""
    split = split_question(sql)
    if split is None:
        return
    parts = {part.name for part in split.subquestions}
    assert list_tables(split.statement) <= parts


@pytest.mark.parametrize("sql", [HOSTILE[0], HOSTILE[1], HOSTILE[2], HOSTILE[8], HOSTILE[10]])
def test_what_is_no_statement_over_answers_is_not_split(sql):
    assert split_question(sql) is None


@pytest.mark.parametrize(
    "value",
    [
        "REPLACE(ward, 'o', 'oooo')",
        "FORMAT('{:>1000000000}', ward)",
        "SPACE(1000000000)",
        "REGEXP_REPLACE(ward, 'o', 'oooo')",
        "STRING_AGG(ward, ',') OVER ()",
        "ARRAY_AGG(ward) OVER ()",
        "RANDOM()",
        "UUID()",
        "VERSION()",
        "CURRENT_TIMESTAMP",
    ],
)
def test_functions_that_grow_or_read_anything_but_answers_are_not_called(value):
    assert (
        split_question(
            f"WITH t AS ({OVER_ANSWERS[0]}), u AS (SELECT COUNT(*) FROM visits) "
            f"SELECT {value} AS x FROM t, u"
        )
        is None
    )


def test_definitions_that_double_are_not_written_out_for_ever():
    names = ["a0 AS (SELECT COUNT(*) AS n FROM visits)"]
    names += [f"a{i + 1} AS (SELECT x.n FROM a{i} x, a{i} y)" for i in range(40)]
    assert split_question(f"WITH {', '.join(names)} SELECT n FROM a40") is None


def test_an_aggregate_that_is_named_twice_is_one_column_of_one_part():
    split = split_question(
        "SELECT ward, COUNT(*) AS n, COUNT(*) / SUM(COUNT(*)) OVER () AS share FROM visits "
        "GROUP BY ward ORDER BY COUNT(*)"
    )
    assert [part.sql for part in split.subquestions] == [
        "SELECT ward AS ward, COUNT(*) AS n FROM visits GROUP BY ward"
    ]


def test_an_answer_that_is_used_twice_is_asked_once():
    split = split_question(
        "SELECT (SELECT COUNT(*) FROM visits) - (SELECT COUNT(*) FROM visits) AS zero, "
        "RANK() OVER (ORDER BY COUNT(*)) AS r FROM visits"
    )
    assert len(split.subquestions) == 1


def test_a_column_that_is_shown_as_it_is_is_known():
    split = split_question(OVER_ANSWERS[0])
    assert split.columns == (
        StatementColumn("ward", "ward", is_key=True),
        StatementColumn("n", "n", is_key=False),
        StatementColumn("r", None, is_key=False),
    )


def test_values_of_rows_that_noise_chose_are_not_shown_as_they_are():
    split = split_question(OVER_ANSWERS[1])
    assert split.columns == (
        StatementColumn("ward", "ward", is_key=True),
        StatementColumn("n", None, is_key=False),
    )


def test_an_offset_leaves_out_rows_that_noise_chose():
    split = split_question(f"{OVER_ANSWERS[0]} ORDER BY n OFFSET 1")
    assert [column.source for column in split.columns] == ["ward", None, None]


def test_a_number_in_a_condition_on_rows_is_asked_for_first():
    split = split_question(OVER_ANSWERS[-1])
    first, second = split.subquestions
    assert first.sql == 'SELECT AVG(cost) AS "AVG(cost)" FROM visits'
    assert [scalar.name for scalar in second.scalars] == ["number_1"]
    assert write_scalars(second, {"number_1": "12.5"}) == (
        'SELECT COUNT(*) AS "COUNT(*)" FROM visits WHERE cost > 12.5'
    )


def test_a_part_has_the_definitions_that_it_uses():
    split = split_question(
        "WITH dear AS (SELECT * FROM visits WHERE cost > 3), "
        "t AS (SELECT ward, COUNT(*) AS n FROM dear GROUP BY ward) "
        "SELECT ward, n, RANK() OVER (ORDER BY n) FROM t"
    )
    assert split.subquestions[0].sql == (
        "WITH dear AS (SELECT * FROM visits WHERE cost > 3) "
        "SELECT ward AS ward, COUNT(*) AS n FROM dear GROUP BY ward"
    )


TABLES = {"visits": ("patient", "ward", "age", "cost"), "wards": ("name", "beds")}


def test_a_number_inside_a_subquery_of_from_is_asked_first():
    split = split_question(
        "SELECT ward, COUNT(*) AS n FROM (SELECT ward, cost FROM visits WHERE cost > (SELECT "
        "AVG(cost) FROM visits)) AS dear GROUP BY ward",
        TABLES,
    )
    assert [part.sql for part in split.subquestions] == [
        'SELECT AVG(cost) AS "AVG(cost)" FROM visits',
        "SELECT ward AS ward, COUNT(*) AS n FROM (SELECT ward, cost FROM visits WHERE cost > "
        "$number_1) AS dear GROUP BY ward",
    ]
    assert [number.name for number in split.subquestions[1].scalars] == ["number_1"]


@pytest.mark.parametrize(
    "condition",
    [
        "cost > (SELECT AVG(cost) FROM visits WHERE ward = name)",
        "cost > (SELECT MAX(cost + beds) FROM visits)",
    ],
)
def test_a_number_that_depends_on_the_outer_row_is_no_part(condition):
    """One number cannot be asked for where each row would need its own."""
    sql = f"SELECT COUNT(*) AS n FROM visits JOIN wards ON ward = name WHERE {condition}"
    assert split_question(sql, TABLES) is None
