from __future__ import annotations

from pathlib import Path

import pytest

from tests.ledger.ledger_place import Place, fresh_url


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
