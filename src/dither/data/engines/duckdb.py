"""DuckDB: the embedded engine, one file per registered version, read-only once registered."""

from __future__ import annotations

import ctypes
import os
from contextlib import suppress
from pathlib import Path
from weakref import WeakSet

import duckdb

_open: WeakSet[duckdb.DuckDBPyConnection] = WeakSet()


def _keep_inherited() -> None:
    """In a forked child the engine's threads are gone, and to let go of an inherited connection waits for them, or
    crashes: by name or by the garbage collector, at any moment, so also after a charge, and also when the interpreter
    takes its modules apart at the child's end. A reference that nobody holds is let go of by nobody."""
    for connection in _open:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))


os.register_at_fork(after_in_child=_keep_inherited)


def _noted(connection: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    _open.add(connection)
    return connection


def open_registered(path: Path) -> duckdb.DuckDBPyConnection:
    """A read-only connection that can reach no other file and cannot be re-configured.

    All settings are given at once: connections of one process to one file share them, and the first locks them.
    The two optimizers read statistics of the rows and plan by them: with them, months of a column without nulls took
    2 ms and of one half null 19 ms; without them 7 and 19. They are off so that the plan is the same for all rows.
    A cursor is returned because DuckDB shows a bar with the time that a query took wherever Python has no script (a
    notebook, `python -c`), for connections but not for their cursors, and nobody may see that time.
    """
    settings: dict[str, str | bool | int | float | list[str]] = {
        "enable_external_access": "false",
        "python_enable_replacements": "false",
        "preserve_insertion_order": "false",
        "disabled_optimizers": "statistics_propagation,compressed_materialization",
        "lock_configuration": "true",
    }
    return _noted(duckdb.connect(str(path), read_only=True, config=settings).cursor())


CANNOT_ENCRYPT = "read-only crypto module"
"""What DuckDB says where it must spill and has no library that it trusts to encrypt."""


COUNTED = 0.8
"""The share of memory that DuckDB counts: told 2 GB (1.86 GiB), its process held 2.16 after repairing 1e8 rows."""


def open_for_registration(
    path: Path, spill: Path, memory: str | None = None, *, plain: bool = False
) -> duckdb.DuckDBPyConnection:
    """A connection that writes a new file; what does not fit in memory spills, encrypted unless `plain`.

    DuckDB encrypts with OpenSSL, which comes with its extension httpfs; nothing is downloaded here.
    """
    connection = _noted(duckdb.connect(str(path)))
    connection.execute("SET autoinstall_known_extensions = false")
    with suppress(duckdb.Error):
        connection.execute("LOAD httpfs")
    connection.execute(f"SET temp_file_encryption = {'false' if plain else 'true'}")
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute("SET preserve_insertion_order = false")
    with suppress(duckdb.Error):  # refused in a notebook without ipywidgets: no share of the work is told then
        connection.execute("SET enable_progress_bar = true")  # for query_progress; nothing is printed
        connection.execute("SET enable_progress_bar_print = false")
    connection.execute(f"SET temp_directory = {text(str(spill))}")
    if memory is not None:
        connection.execute(f"SET memory_limit = {text(memory)}")
        row = connection.execute("SELECT current_setting('memory_limit')").fetchone()
        assert row is not None
        size, unit = str(row[0]).split()  # such as 1.8 GiB
        connection.execute(f"SET memory_limit = '{float(size) * COUNTED:.3f} {unit}'")
    return connection


def open_for_schema() -> duckdb.DuckDBPyConnection:
    """A connection that reads the names and types of a source's columns."""
    return _noted(duckdb.connect(":memory:"))


def name(identifier: str) -> str:
    """An identifier, quoted."""
    return '"' + identifier.replace('"', '""') + '"'


def text(value: str) -> str:
    """A text constant, quoted."""
    return "'" + value.replace("'", "''") + "'"
