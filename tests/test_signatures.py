"""The reference pages show every public name with its signature, as the code has it.

After a change of signatures, write the pages anew:

    DITHER_WRITE_SIGNATURES=1 python -m pytest tests/test_signatures.py
"""

from __future__ import annotations

import importlib
import os
from pathlib import Path

import pytest

from tests.signatures import BLOCK, list_objects, rewrite_signatures

REFERENCE = Path(__file__).parents[1] / "docs" / "reference"
PAGES = [page for page in sorted(REFERENCE.glob("*.md")) if BLOCK.search(page.read_text())]
MODULES = [
    "builder",
    "steward",
    "accounting",
    "mechanisms",
    "local",
    "learn",
    "audit",
    "privacy.noise",
]
SESSION = {
    "PotBalances",
    "Connection",
    "Explanation",
    "History",
    "Preview",
    "Result",
    "Suggestion",
    "connect",
}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_signatures_of_a_page_are_those_of_the_code(page):
    text = page.read_text()
    if os.environ.get("DITHER_WRITE_SIGNATURES"):
        page.write_text(rewrite_signatures(text))
    assert rewrite_signatures(text) == text, "the head of this file says how to write the page anew"


def list_shown() -> set[int]:
    """The identities of all objects whose signatures are shown."""
    names = [match["names"] for page in PAGES for match in BLOCK.finditer(page.read_text())]
    return {id(subject) for text in names for _, subject in list_objects(text)}


@pytest.mark.parametrize("module", MODULES)
def test_every_public_name_has_its_signature_on_a_page(module):
    public = importlib.import_module(f"dither.{module}")
    shown = list_shown()
    assert [name for name in public.__all__ if id(getattr(public, name)) not in shown] == []


def test_what_a_connection_gives_has_its_signature_on_the_page_of_connections():
    text = (REFERENCE / "session.md").read_text()
    shown = {name for match in BLOCK.finditer(text) for name, _ in list_objects(match["names"])}
    assert shown >= SESSION


@pytest.mark.parametrize(
    ("written", "changed"),
    [("pot: str, cap", "pot: str, limit"), ("-> Pot", "-> None"), ("reason: str", "reason: bytes")],
)
def test_a_signature_that_is_not_that_of_the_code_is_noticed(written, changed):
    opening = "<!-- signatures: dither.steward.raise_cap -->\n```py\n"
    page = rewrite_signatures(f"{opening}```\n")
    assert written in page
    assert rewrite_signatures(page) == page
    assert rewrite_signatures(page.replace(written, changed)) == page
