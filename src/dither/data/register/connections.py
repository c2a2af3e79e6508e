"""Connections to DuckDB that registration needs.

One that writes a copy, one that reads a source's schema.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import duckdb

from dither.data.engines.duckdb import CRYPTOGRAPHY, ENGINE_INTERRUPTED, note_connection
from dither.data.engines.resources import Resources
from dither.data.quoting import text

CANNOT_ENCRYPT = "read-only crypto module"
"""What DuckDB says where it must spill and has no library that it trusts to encrypt."""


def open_for_registration(
    path: Path, spill: Path, memory: str | None = None, *, plain: bool = False
) -> duckdb.DuckDBPyConnection:
    """Open a connection that writes a new file.

    What does not fit in memory spills, encrypted unless `plain`. DuckDB encrypts with OpenSSL,
    which comes with its extension httpfs; nothing is downloaded here.
    """
    connection = note_connection(duckdb.connect(str(path)))
    try:
        _set_up(connection, spill, memory, plain=plain)
    except BaseException as error:
        connection.close()
        if str(error) == ENGINE_INTERRUPTED:
            raise KeyboardInterrupt from None
        raise
    return connection


def _set_up(
    connection: duckdb.DuckDBPyConnection, spill: Path, memory: str | None, *, plain: bool
) -> None:
    """Set what registration needs: encrypted spilling, UTC, memory and threads."""
    connection.execute("SET autoinstall_known_extensions = false")
    with suppress(duckdb.Error):
        connection.execute(f"LOAD {CRYPTOGRAPHY}")
    connection.execute(f"SET temp_file_encryption = {'false' if plain else 'true'}")
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute("SET preserve_insertion_order = false")
    # Refused in a notebook without ipywidgets: no share of the work is told then.
    with suppress(duckdb.Error):
        # For query_progress; nothing is printed.
        connection.execute("SET enable_progress_bar = true")
        connection.execute("SET enable_progress_bar_print = false")
    connection.execute(f"SET temp_directory = {text(str(spill))}")
    resources = Resources.from_environment()
    if memory is not None:
        resources = replace(resources, memory=memory)
    if resources.counted_memory is not None:
        connection.execute(f"SET memory_limit = {text(resources.counted_memory)}")
    if resources.threads is not None:
        connection.execute(f"SET threads = {resources.threads}")


def open_for_schema() -> duckdb.DuckDBPyConnection:
    """A connection that reads the names and types of a source's columns, and spills nowhere."""
    return note_connection(duckdb.connect(":memory:", config={"temp_directory": ""}))
