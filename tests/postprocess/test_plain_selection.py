"""Statements that only pick or scale columns give the engine's rows; others go to the engine."""

from __future__ import annotations

import datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from dither.postprocess.locked_engine import run_statement
from dither.postprocess.plain_selection import select_plain_columns

PART = pa.table(
    {
        "a": ["y", "x", "\u00e4", "Z"],
        "b": [3, 1, 2, 4],
        "COUNT(*)": [1.5, None, 2.5, 0.5],
        "day": [datetime.date(2026, 1, day) for day in (4, 3, 2, 1)],
        "money": [Decimal("1.50"), None, Decimal("-2.25"), Decimal("0.00")],
        "yes": [True, False, None, True],
        "size": [0.1, -1e199, 1 / 3, 5e-324],
        "wide": [float("nan"), float("inf"), 1e300, 0.0],
    }
)
PICKED = [
    "SELECT a, b FROM part",
    'SELECT "COUNT(*)" AS n, "money", "yes", day AS d FROM part',
    "SELECT b FROM part ORDER BY a",
    'SELECT "a" AS "a b" FROM "part" ORDER BY "b"',
    "SELECT a AS b, b AS a FROM part ORDER BY a",
    "SELECT a AS b, b AS a FROM part ORDER BY b, a",
    "SELECT a, a AS c FROM part ORDER BY a, b",
    'SELECT b, 0.2 * "COUNT(*)" AS n, "COUNT(*)" / 7.0 AS m FROM part ORDER BY b',
    "SELECT size * 123456789.000003 AS n, size / 3 AS m, 1 * size AS o FROM part",
    "SELECT size / 0.1 AS size, size * 0.000001 AS b FROM part ORDER BY a",
]
LEFT = [
    "SELECT a FROM part ORDER BY a DESC",
    "SELECT a FROM part LIMIT 2",
    "SELECT DISTINCT a FROM part",
    "SELECT a FROM part WHERE b > 1",
    "SELECT b + 1 AS c FROM part",
    "SELECT 1 AS c FROM part",
    "SELECT MAX(b) FROM part",
    "SELECT * FROM part",
    "SELECT A FROM part",
    "SELECT a FROM other",
    "SELECT a FROM part, part AS q",
    "SELECT a FROM part ORDER BY day",
    'SELECT b FROM part ORDER BY "COUNT(*)"',
    'SELECT "a""b" FROM part',
    "SELECT size / 3 FROM part",
    "SELECT 3 * size FROM part",
    "SELECT 2 * size / 3 AS c FROM part",
    "SELECT size / 0 AS c FROM part",
    "SELECT size * 0.0 AS c FROM part",
    "SELECT b * 2 AS c FROM part",
    "SELECT money / 2 AS c FROM part",
    "SELECT wide / 2 AS c FROM part",
    "SELECT size / 2 AS c FROM part ORDER BY c",
    "SELECT b FROM part ORDER BY b * 2",
    "SELECT size - 2 AS c FROM part",
    "SELECT size * 0.1234567 AS c FROM part",
]


@pytest.mark.parametrize("statement", PICKED)
def test_picked_columns_are_those_of_the_engine(statement: str) -> None:
    rows = select_plain_columns(statement, {"part": PART})
    assert rows is not None
    theirs = run_statement(statement, {"part": PART})
    assert rows.schema.names == theirs.schema.names and rows.schema.types == theirs.schema.types
    assert rows.to_pydict() == theirs.to_pydict()


@pytest.mark.parametrize("statement", LEFT)
def test_all_else_is_left_to_the_engine(statement: str) -> None:
    assert select_plain_columns(statement, {"part": PART}) is None
