"""DuckDB: the embedded engine, one file per registered version, read-only once registered."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NoReturn
from weakref import WeakSet

import duckdb

from dither.data.engines.interface import MeasureError
from dither.data.engines.resources import Resources
from dither.data.engines.scratch import claim_folder, release_folder
from dither.data.lower.dialect import DUCKDB

_open: WeakSet[duckdb.DuckDBPyConnection] = WeakSet()


def _keep_inherited() -> None:
    """In a forked child the engine's threads are gone, and to let go of an inherited connection
    waits for them, or crashes: by name or by the garbage collector, at any moment, so also after a
    charge, and also when the interpreter takes its modules apart at the child's end. A reference
    that nobody holds is let go of by nobody."""
    for connection in _open:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))


os.register_at_fork(after_in_child=_keep_inherited)


def note_connection(connection: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    _open.add(connection)
    return connection


CRYPTOGRAPHY = "httpfs"
"""The extension with which OpenSSL comes to DuckDB."""
ENGINE_INTERRUPTED = "Query interrupted"
"""What DuckDB raises, as a RuntimeError, where Ctrl-C finds the main thread in a statement."""
_opening = threading.Lock()


def _renew_lock() -> None:
    """A thread that held the lock when the process forked does not exist in the child."""
    global _opening
    _opening = threading.Lock()


os.register_at_fork(after_in_child=_renew_lock)


def open_registered(path: Path, scratch: Path | None = None) -> duckdb.DuckDBPyConnection:
    """A read-only connection that can reach no other file and cannot be re-configured.

    All settings are the same for all connections of a process to one file, since they share them;
    the first locks them. The two optimizers read statistics of the rows and plan by them: with
    them, months of a column without nulls took 2 ms and of one half null 19 ms; without them 7 and
    19. They are off so that the plan is the same for all rows. What does not fit in memory spills,
    encrypted, into a folder of this process in `scratch` (beside the file, unless given). A cursor
    is returned because DuckDB shows a bar with the time that a query took wherever Python has no
    script (a notebook, `python -c`), for connections but not for their cursors, and nobody may see
    that time.
    """
    resources = Resources.from_environment()
    settings: dict[str, str | bool | int | float | list[str]] = {
        "python_enable_replacements": "false",
        "preserve_insertion_order": "false",
        "disabled_optimizers": "statistics_propagation,compressed_materialization",
        "temp_directory": str(claim_folder(scratch or path.parent / "scratch")),
        "temp_file_encryption": "true",
    }
    if resources.counted_memory is not None:
        settings["memory_limit"] = resources.counted_memory
    if resources.threads is not None:
        settings["threads"] = resources.threads
    with _opening:
        if _can_load_cryptography():
            connection = duckdb.connect(str(path), read_only=True, config=settings)
            _load_and_lock(connection)
        else:
            settings |= {"enable_external_access": "false", "lock_configuration": "true"}
            settings["force_mbedtls_unsafe"] = "true"
            connection = duckdb.connect(str(path), read_only=True, config=settings)
        return note_connection(connection.cursor())


@cache
def _can_load_cryptography() -> bool:
    """Whether OpenSSL is installed for DuckDB; nothing is downloaded.

    Without it DuckDB encrypts spilled rows by its own AES, with keys from a generator that it calls
    unsafe. A question that cannot spill would fail after its charge, and whether it must spill
    depends on rows; so that is taken, and the folder's mode is what protects, as it protects the
    registered copy.
    """
    with duckdb.connect(":memory:") as connection:
        connection.execute("SET autoinstall_known_extensions = false")
        try:
            connection.execute(f"LOAD {CRYPTOGRAPHY}")
        except duckdb.Error:
            return False
    return True


def _load_and_lock(connection: duckdb.DuckDBPyConnection) -> None:
    """Load OpenSSL, then forbid other files and settings, unless a connection before did."""
    row = connection.execute("SELECT current_setting('lock_configuration')").fetchone()
    assert row is not None
    if not row[0]:
        connection.execute("SET autoinstall_known_extensions = false")
        connection.execute(f"LOAD {CRYPTOGRAPHY}")
        connection.execute("SET enable_external_access = false")
        connection.execute("SET lock_configuration = true")


def raise_interrupt(error: RuntimeError) -> NoReturn:
    """Raise KeyboardInterrupt where Ctrl-C ended a statement of the main thread; else the error."""
    if str(error) == ENGINE_INTERRUPTED:
        raise KeyboardInterrupt from None
    raise error


class DuckDBEngine:
    """A registered file, opened read-only in this process."""

    dialect = DUCKDB

    def __init__(self, path: Path, scratch: Path) -> None:
        """Open the copy at `path`; the engine spills into `scratch`."""
        self._scratch: Path | None = scratch
        try:
            self.connection = open_registered(path, scratch)
        except duckdb.Error:
            release_folder(scratch)
            raise MeasureError(
                "the registered copy cannot be opened: ask the steward to register again"
            ) from None
        except RuntimeError as error:
            release_folder(scratch)
            raise_interrupt(error)

    def check(self) -> None:
        """The file is open in this process: there is nothing to reach."""

    def compile(self, name: str, sql: str, *, is_kept: bool, **_: object) -> str:
        """Check a statement, and keep it under `name` where that is asked for."""
        try:
            self.connection.execute(f"PREPARE {name} AS {sql}")
            return f"EXECUTE {name}" if is_kept else sql
        except duckdb.Error:
            raise MeasureError("the question could not be compiled") from None
        except RuntimeError as error:
            raise_interrupt(error)

    def fetch_rows(self, run: str) -> list[tuple[int, ...]]:
        """Run a statement and return its few rows as tuples of exact integers."""
        try:
            return self.connection.execute(run).fetchall()
        except duckdb.Error:
            raise MeasureError("the engine failed") from None

    def fetch_table(self, run: str) -> Any:
        """Run a statement and return its rows as an Arrow table."""
        try:
            return self.connection.sql(run).to_arrow_table()
        except duckdb.Error:
            raise MeasureError("the engine failed") from None
        except RuntimeError as error:
            raise_interrupt(error)

    def stream(self, run: str, rows: int) -> Iterator[Any]:
        """Run a statement and yield its rows as Arrow batches."""
        try:
            yield from self.connection.sql(run).to_arrow_reader(rows)
        except duckdb.Error:
            raise MeasureError("the engine failed") from None

    def interrupt(self) -> None:
        """Stop the statement that runs."""
        self.connection.interrupt()

    def close(self) -> None:
        """Close the connection and give up the scratch folder."""
        self.connection.close()
        if self._scratch is not None:
            release_folder(self._scratch)
            self._scratch = None
