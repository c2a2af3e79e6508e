"""The documentation as a site: every page can be reached, and every formula is shown as one."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import markdown
import pytest
import yaml

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
SITE = yaml.safe_load((ROOT / "mkdocs.yml").read_text())
PAGES = sorted(str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md"))
BESIDE = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"]
GENERATED = {
    "trusted.md",
    "reference/audit-peers.md",
    "reference/functions.md",
    "reference/peers.md",
}
"""Written by programs, which also break their lines."""
WITH_FORMULAS = [page for page in PAGES if re.search(r"\$\S", (DOCS / page).read_text())]


def list_nav(entry: Any) -> Iterator[str]:
    """The pages of a navigation, in its order."""
    if isinstance(entry, str):
        yield entry
    else:
        for child in entry.values() if isinstance(entry, dict) else entry:
            yield from list_nav(child)


def test_every_page_is_in_the_navigation_once():
    assert sorted(list_nav(SITE["nav"])) == PAGES


def list_prose(page: Path) -> Iterator[str]:
    """The lines of a page that are neither code nor a table."""
    is_code = False
    for line in page.read_text().splitlines():
        if line.startswith("```"):
            is_code = not is_code
        elif not is_code and not (line.startswith("|") and line.endswith("|")):
            yield line


@pytest.mark.parametrize("page", [*BESIDE, *(page for page in PAGES if page not in GENERATED)])
def test_the_prose_of_a_page_fits_into_a_hundred_columns(page):
    path = ROOT / page if page in BESIDE else DOCS / page
    long = [line for line in list_prose(path) if len(line) > 100]
    assert [line for line in long if " " in line.strip()] == []  # one long name cannot be broken


def test_no_heading_has_a_formula_which_the_table_of_contents_could_not_show():
    headings = [line for page in PAGES for line in list_prose(DOCS / page) if line.startswith("#")]
    assert len(headings) > 300
    assert [heading for heading in headings if "$" in heading] == []


def load_hook() -> ModuleType:
    (file,) = SITE["hooks"]
    spec = importlib.util.spec_from_file_location("render_math", ROOT / file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


HOOK = load_hook()


def convert_text(text: str) -> str:
    """A page's HTML, made with the extensions and the hook of the site."""
    names: list[str] = []
    settings: dict[str, Any] = {}
    for extension in SITE["markdown_extensions"]:
        named = {extension: {}} if isinstance(extension, str) else extension
        names.extend(named)
        settings.update(named)
    html = markdown.markdown(text, extensions=names, extension_configs=settings)
    return str(HOOK.on_page_content(html))


def find_raw_formulas(html: str) -> list[str]:
    """LaTeX in the text that a reader sees, and in formulas: a command that was not understood."""
    formulas = re.findall(r"<math.*?</math>", html, re.DOTALL)
    misread = [formula for formula in formulas if "\\" in re.sub(r'title="[^"]*"', "", formula)]
    text = re.sub(r"<(math|code|pre)\b.*?</\1>", "", html, flags=re.DOTALL)
    return misread + re.findall(r"\$[^$]*\$|\$\\\w+|\\[(\[]", re.sub(r"<[^>]*>", "", text))


def test_proofs_have_formulas():
    assert sum(page.startswith("proofs/") for page in WITH_FORMULAS) >= 4


@pytest.mark.parametrize("page", WITH_FORMULAS)
def test_no_formula_of_a_page_is_left_as_latex(page):
    html = convert_text((DOCS / page).read_text())
    assert find_raw_formulas(html) == []


@pytest.mark.parametrize("text", [r"so $\arg r$ is", "half = $ x$ of", r"an open $\frac12"])
def test_a_formula_that_cannot_be_shown_is_noticed(text):
    assert find_raw_formulas(convert_text(text)) != []


def test_a_formula_is_mathml_with_letters_that_browsers_show():
    html = convert_text(r"in $\mathbb R^2$, $$\mathbb E\,x \le \mathbf 1$$")
    assert html.count("<math") == 2 and "ℝ" in html and "𝔼" in html and "𝟏" in html
    assert "mathvariant" not in html and r'title="\mathbb R^2"' in html


def test_the_site_is_built_without_a_warning_and_its_pages_fetch_nothing_from_elsewhere(tmp_path):
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "-d", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"})
    proof = (tmp_path / "proofs" / "filters" / "index.html").read_text()
    shown = re.sub(r"<(script|style)\b.*?</\1>", "", proof, flags=re.DOTALL)
    assert "<math" in shown and find_raw_formulas(shown) == []
    for page in tmp_path.rglob("*.html"):
        tags = re.findall(r"<(?:script|link|img|iframe)\b[^>]*>", page.read_text())
        assert [tag for tag in tags if re.search(r'(?:src|href)="(?:https?:)?//', tag)] == []
