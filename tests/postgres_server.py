"""A PostgreSQL server for tests, in a folder of its own.

The folder lies outside pytest's: every run of pytest, also one that a test starts, closes that one
to other users, and the server runs as one.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import Any

import pytest


@contextmanager
def running_server() -> Iterator[Any]:
    """A server from pgserver, stopped and removed at the end."""
    pgserver = pytest.importorskip(
        "pgserver", reason="pip install pgserver psycopg to test the ledger in PostgreSQL"
    )
    pytest.importorskip("psycopg")
    folder = Path(mkdtemp(prefix="dither-postgres-"))
    server = pgserver.get_server(folder, cleanup_mode="stop")
    try:
        yield server
    finally:
        server.cleanup()
        rmtree(folder, ignore_errors=True)
