"""Runs a statement on released tables and public rows, in an engine that can reach nothing else.

Each statement has an engine of its own, in memory: without files, network, extensions, ATTACH or
the variables of this process, its settings locked before the statement is read. Its memory, its
time and the rows that it returns are bounded.

To start an engine takes longer than most statements. So after a statement a thread closes its
engine and starts one for the next statement. No engine ever runs a second statement.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Mapping
from typing import Any

import duckdb
import pyarrow as pa

from dither.errors import QueryError
from dither.rules import PrivacyRule

MOST_SECONDS = 10.0
MOST_ROWS = 1_000_000
_LOCKED: dict[str, Any] = {
    "enable_external_access": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_community_extensions": "false",
    "python_enable_replacements": "false",
    "memory_limit": "1GB",
    "max_temp_directory_size": "0B",
    "threads": "1",
}
_UNUSED: deque[tuple[int, duckdb.DuckDBPyConnection]] = deque(maxlen=1)
"""The number of the process that started an engine, and the engine, which ran no statement yet."""


def run_statement(statement: str, tables: Mapping[str, pa.Table]) -> pa.Table:
    """Run a statement over tables in an engine that reaches nothing else; return its rows.

    Raises QueryError where it fails or takes too much.
    """
    engine = _take_engine()
    timer = threading.Timer(MOST_SECONDS, engine.interrupt)
    try:
        for name, table in tables.items():
            engine.register("released", table)
            engine.execute(f'CREATE TABLE "{name}" AS SELECT * FROM released')
            engine.unregister("released")
        engine.execute("SET lock_configuration = true")
        timer.start()
        return _fetch_rows(engine, statement)
    except duckdb.InterruptException:
        raise QueryError(
            f"the answers were released, and what is computed from them took more than "
            f"{MOST_SECONDS:g} seconds: ask for less {PrivacyRule.BOUNDED_WORK.label}"
        ) from None
    except duckdb.Error as error:
        raise QueryError(
            f"what is computed from the answers failed: {_first_line(error)}"
        ) from None
    finally:
        timer.cancel()
        threading.Thread(target=_replace_engine, args=(engine,)).start()


def _take_engine() -> duckdb.DuckDBPyConnection:
    """Return an engine that ran no statement: the one that is ready, or a new one."""
    try:
        process, engine = _UNUSED.pop()
    except IndexError:
        return _start_engine()
    return engine if process == os.getpid() else _start_engine()


def _start_engine() -> duckdb.DuckDBPyConnection:
    return duckdb.connect(":memory:", config=_LOCKED)


def _replace_engine(used: duckdb.DuckDBPyConnection) -> None:
    """Close a used engine, and start the one for the next statement."""
    used.close()
    if not _UNUSED:
        _UNUSED.append((os.getpid(), _start_engine()))


def _fetch_rows(engine: duckdb.DuckDBPyConnection, statement: str) -> pa.Table:
    """Fetch the rows of a statement. Raises QueryError above MOST_ROWS."""
    batches: list[pa.RecordBatch] = []
    rows = 0
    reader = engine.sql(statement).to_arrow_reader(1 << 16)
    for batch in reader:
        rows += batch.num_rows
        if rows > MOST_ROWS:
            raise QueryError(
                f"more than {MOST_ROWS:,} rows are computed from the answers: ask for less "
                f"{PrivacyRule.BOUNDED_WORK.label}"
            )
        batches.append(batch)
    return pa.Table.from_batches(batches, reader.schema)


def _first_line(error: duckdb.Error) -> str:
    return str(error).splitlines()[0]
