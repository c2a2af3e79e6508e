"""A served clinic for each test, or one for a file of tests that spend little."""

from __future__ import annotations

import pytest

from tests.datasets.served_clinic import serving


@pytest.fixture
def served(tmp_path):
    with serving(tmp_path) as clinic:
        yield clinic


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("shared"), "1000") as clinic:
        yield clinic
