"""docs/reference/protocol.md lists every message as the code has it."""

from __future__ import annotations

import os
from pathlib import Path

from tests.protocol.protocol_reference import write_reference

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "protocol.md"


def test_the_page_lists_every_message():
    text = write_reference()
    if os.environ.get("DITHER_WRITE_SIGNATURES"):
        PAGE.write_text(text, encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == text, (
        "DITHER_WRITE_SIGNATURES=1 python -m pytest tests/protocol writes the page anew"
    )
