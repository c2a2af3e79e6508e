"""A served clinic behind a gateway with pages: for one test, or for a file of tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.console.page_visitors import serving_pages
from tests.datasets.served_clinic import ServedClinic


@pytest.fixture
def served(tmp_path: Path) -> Iterator[ServedClinic]:
    with serving_pages(tmp_path, "10") as clinic:
        yield clinic


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedClinic]:
    with serving_pages(tmp_path_factory.mktemp("shared"), "1000") as clinic:
        yield clinic
