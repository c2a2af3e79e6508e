"""What all tests share: a state home of their own, and a PostgreSQL server.

No head of a test's ledger reaches the developer's.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture(autouse=True)
def _own_state_home(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("xdg")))
    monkeypatch.delenv("DITHER_STATE", raising=False)


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A PostgreSQL of our own (pgserver), one per test process."""
    reason = "pip install pgserver psycopg to test the ledger in PostgreSQL"
    pgserver = pytest.importorskip("pgserver", reason=reason)
    pytest.importorskip("psycopg")
    running = pgserver.get_server(tmp_path_factory.mktemp("postgres"), cleanup_mode="stop")
    yield running
    running.cleanup()
