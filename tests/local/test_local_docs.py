"""Every python block of the local pages runs, in one namespace, top to bottom."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("page", ["reference/local.md", "how-to/collect-with-local-dp.md"])
def test_the_pages_run(page: str) -> None:
    names: dict[str, Any] = {"__name__": "page"}
    blocks = re.findall(r"```python\n(.*?)```", (DOCS / page).read_text("utf-8"), re.S)
    assert blocks
    for block in blocks:
        exec(compile(block, page, "exec"), names)
