"""The reference page is right: its catalogs parse, its code runs, and it has every key."""

import re
from pathlib import Path

import pytest

from dither import catalog
from dither.catalog import parse
from dither.catalog.file.decide import COLUMN_KEYS, DECIDE

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "reference" / "catalog.md").read_text()


def catalogs() -> list[object]:
    """All ```yaml blocks of the documentation whose first line is `# catalog`."""
    return [
        pytest.param(block, id=f"{page.stem}-{number}")
        for page in sorted(DOCS.rglob("*.md"))
        for number, block in enumerate(
            re.findall(r"```yaml\n(# catalog\n.*?)```", page.read_text(), re.DOTALL)
        )
    ]


@pytest.mark.parametrize("text", catalogs())
def test_catalogs_of_the_documentation_parse(text):
    parse(text)


@pytest.mark.parametrize("code", re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL))
def test_code_of_the_page_runs(code):
    exec(compile(code, "catalog.md", "exec"), {})


@pytest.mark.parametrize(
    "key", sorted({key for keys in DECIDE.values() for key in keys} | set(COLUMN_KEYS))
)
def test_every_key_and_type_is_documented(key):
    prose = re.sub(r"```.*?```", "", PAGE, flags=re.DOTALL)
    assert re.search(rf"`[^`\n]*\b{key}\b[^`\n]*`", prose)


def test_every_key_of_a_column_type_says_what_to_decide():
    assert {key for keys in COLUMN_KEYS.values() for key in keys} == set(DECIDE["column"])


@pytest.mark.parametrize("name", catalog.__all__)
def test_every_public_name_is_documented(name):
    assert re.search(rf"`[^`\n]*\b{name}\b[^`\n]*`", PAGE)
