"""The engine of released tables: it reads nothing else, and its work is bounded."""

from __future__ import annotations

import pyarrow as pa
import pytest

from dither import QueryError
from dither.postprocess import locked_engine
from dither.postprocess.locked_engine import run_statement

RELEASED = pa.table({"ward": ["north", "south"], "n": [3, 5]})
OUTSIDE = pa.table({"secret": [1]})


def test_a_statement_is_computed_from_released_tables():
    table = run_statement("SELECT ward, n, SUM(n) OVER () AS s FROM part_1", {"part_1": RELEASED})
    assert table.to_pydict() == {"ward": ["north", "south"], "n": [3, 5], "s": [8, 8]}


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT * FROM read_text('/etc/hostname')",
        "SELECT * FROM read_csv('/etc/hostname')",
        "SELECT * FROM '/etc/hostname'",
        "SELECT * FROM glob('/*')",
        "SELECT * FROM OUTSIDE",
        "ATTACH 'other.db'",
        "COPY part_1 TO 'copied.csv'",
        "EXPORT DATABASE 'exported'",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SET memory_limit = '9GB'",
        "SET enable_external_access = true",
        "RESET lock_configuration",
    ],
)
def test_nothing_else_is_reached_and_nothing_is_set(statement):
    with pytest.raises(QueryError, match="what is computed from the answers failed"):
        run_statement(statement, {"part_1": RELEASED})


def test_a_statement_has_no_table_of_another():
    run_statement("CREATE TABLE kept AS SELECT * FROM part_1", {"part_1": RELEASED})
    with pytest.raises(QueryError):
        run_statement("SELECT * FROM kept", {"part_1": RELEASED})


def test_rows_are_bounded(monkeypatch):
    monkeypatch.setattr(locked_engine, "MOST_ROWS", 10)
    with pytest.raises(QueryError, match="more than 10 rows"):
        run_statement("SELECT * FROM range(11)", {})
    assert run_statement("SELECT * FROM range(10)", {}).num_rows == 10


def test_time_is_bounded(monkeypatch):
    monkeypatch.setattr(locked_engine, "MOST_SECONDS", 0.2)
    with pytest.raises(QueryError, match="took more than 0.2 seconds"):
        run_statement("SELECT SUM(range) FROM range(1000000000000)", {})


def test_memory_is_bounded(monkeypatch):
    monkeypatch.setitem(locked_engine._LOCKED, "memory_limit", "50MB")
    with pytest.raises(QueryError, match="Memory"):
        run_statement("SELECT list(range) FROM range(100000000)", {})
