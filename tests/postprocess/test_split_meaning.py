"""A question that is split means what it meant: both forms give the same rows in an engine.

The parts are computed exactly here, so that the statement over them must give the rows of the
question itself. Released tables have the ends of intervals beside their numbers: here these are
far off, so that a statement which reads them is seen.
"""

from __future__ import annotations

import random
from collections import Counter
from decimal import Decimal

import duckdb
import pyarrow as pa
import pytest

from dither.postprocess.split_question import split_question, write_scalars

COLUMNS = ("patient", "ward", "kind", "age", "cost", "urgent")
WITH_ENDS = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)
RANK = "RANK() OVER (ORDER BY COUNT(*)) AS r"

NAMES = [
    "SELECT CASE WHEN ward = 'north' THEN 'n' ELSE 's' END AS ward, COUNT(*) AS n, "
    f"{RANK} FROM visits GROUP BY ward",
    f"SELECT kind AS ward, ward AS kind, COUNT(*) AS n, {RANK} FROM visits GROUP BY kind, ward",
    f"SELECT kind AS ward, ward AS kind, COUNT(*) AS n, {RANK} FROM visits GROUP BY 1, 2",
    f"SELECT UPPER(kind) AS ward, ward AS kind, COUNT(*) AS n, {RANK} FROM visits GROUP BY 1, 2",
    f"SELECT w AS k, k AS w, COUNT(*) AS n, {RANK} FROM "
    "(SELECT ward AS w, kind AS k FROM visits) GROUP BY w, k",
    f"SELECT ward AS w, COUNT(*) AS ward, {RANK} FROM visits GROUP BY ward ORDER BY ward LIMIT 1",
    "SELECT ward, SUM(age) AS age, SUM(SUM(age)) OVER () AS s FROM visits GROUP BY ward "
    "ORDER BY age LIMIT 1",
    "SELECT age // 10 AS tens, COUNT(*) AS n, SUM(n) OVER (ORDER BY tens) AS c FROM visits "
    "GROUP BY tens ORDER BY tens",
    "SELECT ward, COUNT(*) * 2 AS n, SUM(n) OVER () AS s FROM visits GROUP BY ward HAVING n > 30 "
    "ORDER BY s, n",
]
OTHER_NAMES = [
    f"SELECT ward, 2 * COUNT(*) AS n_low, COUNT(*) AS n, n_low + 1 AS x, {RANK} FROM visits "
    "GROUP BY ward",
    'SELECT ward, COUNT(*) + 1 AS "SUM(age)", SUM(age) / 2 AS h, "SUM(age)" * 2 AS j, '
    f"{RANK} FROM visits GROUP BY ward",
    "SELECT ward, COUNT(*) AS cost, RANK() OVER (ORDER BY cost) AS r FROM visits GROUP BY ward",
    f"SELECT ward, COUNT(*) AS n, {RANK} FROM visits GROUP BY 1.5",
    f"SELECT UPPER(kind) AS k, ward AS k, k AS x, {RANK} FROM visits GROUP BY 1, 2",
    f"SELECT UPPER(kind) AS k, ward AS k, {RANK} FROM visits GROUP BY ward, k",
]
PLACES = [
    "SELECT ward FROM (SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward) EXCEPT "
    "(SELECT ward FROM (SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward) UNION ALL "
    "SELECT 'all' FROM (SELECT COUNT(*) AS n FROM visits))",
    "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward UNION ALL "
    "(SELECT kind, COUNT(*) AS n FROM visits GROUP BY kind ORDER BY n LIMIT 1)",
    "WITH a AS (SELECT * FROM visits WHERE urgent), b AS (SELECT ward, COUNT(*) AS n FROM a "
    "GROUP BY ward) SELECT ward, n, RANK() OVER (ORDER BY n) AS r FROM b",
    "WITH visits AS (SELECT * FROM visits WHERE urgent) SELECT ward, COUNT(*) AS n, "
    f"{RANK} FROM visits GROUP BY ward",
    "SELECT ward, COUNT(*) AS n, COUNT(*) OVER () AS wards FROM visits GROUP BY ward",
    "WITH part_1 AS (SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward), part_2 AS "
    "(SELECT SUM(n) AS s FROM part_1) SELECT ward, n / s AS share FROM part_1, part_2",
]
OTHER_PLACES = [
    "SELECT t.n, m FROM ((SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward) ORDER BY n "
    "LIMIT 1) t, (SELECT COUNT(*) AS m FROM visits) u",
    "SELECT * FROM (SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward) t TABLESAMPLE 0 ROWS, "
    "(SELECT COUNT(*) AS m FROM visits) u",
    "SELECT * FROM (SELECT ward, kind, COUNT(*) AS n FROM visits GROUP BY ward, kind) t "
    "PIVOT (SUM(n) FOR kind IN ('a', 'b')), (SELECT COUNT(*) AS m FROM visits) u",
    "WITH part_1 AS (SELECT COUNT(*) AS n FROM visits WHERE urgent), t AS (SELECT ward, COUNT(*) "
    "AS n FROM visits GROUP BY ward) SELECT n FROM t WHERE EXISTS (SELECT 1 FROM part_1)",
    "WITH visits AS (SELECT * FROM visits WHERE urgent) SELECT n, m FROM (WITH visits AS "
    "(SELECT * FROM visits WHERE age > 40) SELECT COUNT(*) AS n FROM visits) a, "
    "(SELECT COUNT(*) AS m FROM visits) b",
    "WITH t AS (SELECT * FROM visits WHERE urgent), a AS (SELECT patient FROM t), "
    "b AS (WITH t AS (SELECT * FROM visits WHERE NOT urgent) SELECT COUNT(*) AS n FROM t WHERE "
    "patient IN (SELECT patient FROM a)) SELECT n, RANK() OVER (ORDER BY n) AS r FROM b",
    "WITH a AS (SELECT * FROM visits), visits AS (SELECT * FROM visits WHERE urgent), "
    "b AS (SELECT COUNT(*) AS n FROM visits JOIN a USING (patient)) "
    "SELECT n, RANK() OVER (ORDER BY n) AS r FROM b",
    f"SELECT ward, COUNT(*) AS n, *, {RANK} FROM visits GROUP BY ward",
    f"SELECT ward, COUNT(*) AS n, COLUMNS('n.*'), {RANK} FROM visits GROUP BY ward",
    "SELECT COUNT(*) AS n FROM visits WHERE age > (SELECT AVG(age) FROM visits) "
    "AND cost > $number_1",
    "SELECT COUNT(*) AS n FROM visits WHERE age > (SELECT AVG(age) FROM visits) AND cost > $other",
]


@pytest.fixture(scope="module")
def engine():
    draw = random.Random(1)
    rows = [
        (
            draw.randrange(20),
            draw.choice(["north", "south", None]),
            draw.choice(["a", "b"]),
            draw.randrange(90),
            draw.choice([None, 1.0, 5.5, 20.0]),
            draw.random() < 0.5,
        )
        for _ in range(60)
    ]
    columns = zip(COLUMNS, zip(*rows, strict=True), strict=True)
    table = pa.table({name: list(values) for name, values in columns})
    engine = duckdb.connect()
    engine.register("rows", table)
    engine.execute("CREATE TABLE visits AS SELECT * FROM rows")
    engine.unregister("rows")
    return engine


def add_ends(table: pa.Table) -> pa.Table:
    for field in list(table.schema):
        if any(holds(field.type) for holds in WITH_ENDS):
            for end, value in (("_low", -999), ("_high", 999)):
                table = table.append_column(field.name + end, pa.array([value] * table.num_rows))
    return table


def count_rows(engine, sql: str) -> Counter:
    return Counter(
        tuple(float(value) if isinstance(value, Decimal) else value for value in row)
        for row in engine.execute(sql).fetchall()
    )


def count_split_rows(engine, sql: str) -> Counter | None:
    """The rows of the statement over exact parts; None where the question is not split."""
    split = split_question(sql, {"visits": COLUMNS})
    if split is None:
        return None
    answers = duckdb.connect()
    for part in split.subquestions:
        numbers = {
            scalar.name: str(answers.execute(scalar.statement).fetchall()[0][0])
            for scalar in part.scalars
        }
        text = write_scalars(part, numbers) if numbers else part.sql
        answers.register("answer", add_ends(engine.sql(text).to_arrow_table()))
        answers.execute(f'CREATE TABLE "{part.name}" AS SELECT * FROM answer')
        answers.unregister("answer")
    return count_rows(answers, split.statement)


@pytest.mark.parametrize("sql", [*NAMES, *PLACES])
def test_a_question_that_is_split_means_what_it_meant(engine, sql):
    assert count_split_rows(engine, sql) == count_rows(engine, sql)


@pytest.mark.parametrize("sql", [*OTHER_NAMES, *OTHER_PLACES])
def test_what_would_mean_something_else_over_answers_is_not_split(sql):
    assert split_question(sql, {"visits": COLUMNS}) is None
