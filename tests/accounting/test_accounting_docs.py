"""The code blocks of the accounting pages run as written."""

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.all  # tests/test_docs.py runs every page by default
@pytest.mark.parametrize("page", ["reference/accounting.md", "how-to/account-for-dp-sgd.md"])
def test_code_blocks_run(page, capsys):
    blocks = re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(), re.S)
    assert len(blocks) >= 4
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, page, "exec"), names)
