from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ledger_place import Place, fresh_url


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A PostgreSQL of our own (pgserver), one per test process."""
    pgserver = pytest.importorskip("pgserver", reason="pip install pgserver psycopg to test the ledger in PostgreSQL")
    pytest.importorskip("psycopg")
    running = pgserver.get_server(tmp_path_factory.mktemp("postgres"), cleanup_mode="stop")
    yield running
    running.cleanup()


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A ledger in SQLite."""
    return Place(tmp_path)


@pytest.fixture(params=["sqlite", "postgres"])
def both(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """A ledger in each store."""
    if request.param == "sqlite":
        return Place(tmp_path)
    return Place(tmp_path, fresh_url(request.getfixturevalue("server")))
