"""The pages of docs/rules: one section for each rule, and the index that lists them."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from dither.rules import PrivacyRule

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs" / "rules"
INDEX = FOLDER / "index.md"
REWRITE = "DITHER_WRITE_RULES=1 python -m pytest tests/test_rules.py"
TITLES = ("Rule", "Without it", "Code", "Test")
SECTION = re.compile(r"^## (\S+)\n(.*?)(?=^## |\Z)", re.DOTALL | re.MULTILINE)
PARAGRAPH = re.compile(r"^\*\*([^*\n]+)\.\*\*\s(.*?)(?=\n\n|\Z)", re.DOTALL | re.MULTILINE)
MODULE = re.compile(r"`src/dither/([\w/]+\.py)`")
TEST_NAME = re.compile(r"`(tests/[\w/]+\.py)::([\w:]+)`")


@dataclass(frozen=True)
class Section:
    """One rule as its page explains it."""

    page: str
    rule_id: str
    paragraphs: dict[str, str]

    @property
    def tests(self) -> list[tuple[str, str]]:
        """File and name of each test, the name with its class."""
        return TEST_NAME.findall(self.paragraphs.get("Test", ""))

    @property
    def modules(self) -> list[str]:
        """The modules that enforce it, from `src/dither` on."""
        return MODULE.findall(self.paragraphs.get("Code", ""))


def read_sections() -> list[Section]:
    """Every section of every page, in the order of the pages."""
    pages = [path for path in sorted(FOLDER.glob("*.md")) if path != INDEX]
    return [
        Section(path.stem, rule_id, dict(PARAGRAPH.findall(body)))
        for path in pages
        for rule_id, body in SECTION.findall(path.read_text(encoding="utf-8"))
    ]


@cache
def find_test_names(file: str) -> set[str]:
    """The tests that a file defines, those of a class as `Class::test`."""
    body = ast.parse((ROOT / file).read_text(encoding="utf-8")).body
    classes = [node for node in body if isinstance(node, ast.ClassDef)]
    inside = {
        f"{node.name}::{test.name}" for node in classes for test in _find_functions(node.body)
    }
    return inside | {test.name for test in _find_functions(body)}


def _find_functions(body: list[ast.stmt]) -> list[ast.FunctionDef]:
    return [
        node for node in body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    ]


def write_index(sections: list[Section]) -> str:
    """The table of all rules, in the order of the Enum."""
    by_id = {section.rule_id: section for section in sections}
    lines = [
        "# Rules",
        "",
        "Every refusal names a rule, as in `[rule: ids are never read]`, and the code cites rules",
        "by their ids. This table lists them all. Each links to the rule in plain words, to what",
        "goes wrong without it, to the modules that enforce it, and to its tests. In Python the",
        "rule of a `RefusedError` is `error.rule`, and `error.rule.link` leads here.",
        "Ids never change. To write this page anew after a change of `src/dither/rules.py` or of a "
        "section:",
        "",
        f"    {REWRITE}",
        "",
        "| id | rule | test |",
        "|---|---|---|",
    ]
    for rule in PrivacyRule:
        file, name = by_id[rule.value].tests[0]
        lines.append(
            f"| [{rule.value}]({rule.page}.md#{rule.value}) | {rule.sentence} | `{file}::{name}` |"
        )
    return "\n".join(lines) + "\n"
