"""The glossary has one entry for each word, and every entry names code that exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.signatures import find_object

PAGE = Path(__file__).parents[1] / "docs" / "glossary.md"
ENTRY = re.compile(
    r"^- \*\*(?P<word>[^*]+)\*\*(?:, or \*\w+\* for short)?: (?P<meaning>.*?)(?=^- |^## |\Z)",
    re.DOTALL | re.MULTILINE,
)
ENTRIES = [(match["word"], match["meaning"]) for match in ENTRY.finditer(PAGE.read_text())]


def test_a_word_has_one_entry():
    words = [word for word, _ in ENTRIES]
    assert len(words) > 60
    assert sorted(words) == sorted(set(words))


@pytest.mark.parametrize(("word", "meaning"), ENTRIES, ids=[word for word, _ in ENTRIES])
def test_an_entry_names_code_that_exists(word, meaning):
    names = re.findall(r"`(dither\.[\w.]+)`", meaning)
    assert names, f"say where {word} lives"
    for name in names:
        find_object(name)


def test_a_name_that_is_nowhere_is_noticed():
    with pytest.raises((ModuleNotFoundError, AttributeError)):
        find_object("dither.catalog.model.Nothing")
