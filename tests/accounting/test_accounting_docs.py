"""The code blocks of the accounting pages run as written, and the public names are what they
say."""

import importlib
import inspect
import pkgutil
import re
from pathlib import Path

import pytest

from dither import accounting

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.all  # tests/test_docs.py runs every page by default
@pytest.mark.parametrize("page", ["reference/accounting.md", "how-to/account-for-dp-sgd.md"])
def test_code_blocks_run(page, capsys):
    blocks = re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(), re.S)
    assert len(blocks) >= 4
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, page, "exec"), names)


def test_no_module_takes_the_name_of_a_public_function():
    # a module is imported under its name into the package: accounting/zcdp.py once replaced the
    # function `zcdp`
    for module in pkgutil.iter_modules(accounting.__path__):
        importlib.import_module(f"dither.accounting.{module.name}")
    assert [
        name for name in accounting.__all__ if inspect.ismodule(getattr(accounting, name))
    ] == []
