"""Engines that are servers, for tests: where each is reached."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.fixture(scope="session")
def postgres(server: Any) -> str:
    """The address of a PostgreSQL of our own."""
    return server.get_uri()
