"""The source of words that most tests here share."""

from __future__ import annotations

import pytest

from tests.local.seeded_words import SeededWords


@pytest.fixture
def words() -> SeededWords:
    return SeededWords(20260729)
