"""A hospital at three sizes, registered once for a file of tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.neighbours import Sizes, register_sizes


@pytest.fixture(scope="module")
def sizes() -> Iterator[Sizes]:
    with register_sizes() as registered:
        yield registered
