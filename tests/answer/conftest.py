"""What tests of questions share."""

from __future__ import annotations

import pytest

from dither.data.register import registration
from dither.plan.analyse import FIRST_RULES


@pytest.fixture
def first_release(monkeypatch: pytest.MonkeyPatch) -> None:
    """Versions are registered as release 0.1 did: their answers may have been sold by its rules."""
    monkeypatch.setattr(registration, "NEWEST_RULES", FIRST_RULES)
