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
    split = split_question(sql, COLUMNS)
    if split is None:
        return None
    answers = duckdb.connect()
    for part in split.parts:
        numbers = {
            scalar.name: str(answers.execute(scalar.statement).fetchall()[0][0])
            for scalar in part.scalars
        }
        text = write_scalars(part, numbers) if numbers else part.sql
        answers.register("answer", add_ends(engine.sql(text).to_arrow_table()))
        answers.execute(f'CREATE TABLE "{part.name}" AS SELECT * FROM answer')
        answers.unregister("answer")
    return count_rows(answers, split.statement)


@pytest.mark.parametrize("sql", NAMES)
def test_a_question_that_is_split_means_what_it_meant(engine, sql):
    assert count_split_rows(engine, sql) == count_rows(engine, sql)


@pytest.mark.parametrize("sql", OTHER_NAMES)
def test_a_name_with_another_meaning_over_answers_is_not_split(sql):
    assert split_question(sql, COLUMNS) is None
