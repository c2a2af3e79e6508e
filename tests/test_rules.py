"""Every rule has an id, a section with its counterexample, and a test; nothing cites what is not in
the repository."""

from __future__ import annotations

import ast
import os
import re
from pathlib import Path

import pytest

from dither.errors import RefusedError
from dither.rules import PrivacyRule
from tests.rule_pages import (
    INDEX,
    REWRITE,
    ROOT,
    TITLES,
    find_test_names,
    read_sections,
    write_index,
)
from tests.test_docs import runs_by_default

SECTIONS = read_sections()
PACKAGE = ROOT / "src" / "dither"
SOURCES = {
    path: path.read_text(encoding="utf-8")
    for path in PACKAGE.rglob("*.py")
    if path.name != "rules.py"
}
OUTSIDE = re.compile(
    r"privacy[-_ ]rules[ .]|\bDESIGN\b|\bHOUSE\b|STYLE\.md|\b[Rr]ules? \d|TestRule\d|test_rule_\d"
    r"|\bspec/|\bspec,? section|\bdecisions \d|engineering-facts|attacks-and-testing"
    r"|fundamentals-and-local|learning-and-federated|applications\.md|release-and-frameworks"
)
CITED = re.compile(r"\b[Rr]ules? ((?:[a-z]+-[a-z-]+(?:, | and )?)+)")


def find_sources() -> list[Path]:
    """Every file of code and text that the repository shows, this test left out."""
    folders = [ROOT / name for name in ("src", "tests", "docs", "bench", "examples")]
    paths = [
        path for folder in folders for path in folder.rglob("*") if path.suffix in (".py", ".md")
    ]
    return [path for path in [*paths, *ROOT.glob("*.md")] if path != Path(__file__)]


def test_every_rule_has_one_section_on_its_page_and_every_section_a_rule():
    assert len({section.rule_id for section in SECTIONS}) == len(SECTIONS)
    assert {(section.page, section.rule_id) for section in SECTIONS} == {
        (rule.page, rule.value) for rule in PrivacyRule
    }


@pytest.mark.parametrize("section", SECTIONS, ids=lambda section: section.rule_id)
def test_a_section_has_the_rule_a_counterexample_and_tests_that_exist(section):
    assert tuple(section.paragraphs) == TITLES
    words = [text for title, text in section.paragraphs.items() if title != "Code"]
    assert min(map(len, words)) > 40
    assert section.tests and all(name in find_test_names(file) for file, name in section.tests)
    assert any(runs_by_default(file, name.split("::")[-1]) for file, name in section.tests)


@pytest.mark.parametrize("section", SECTIONS, ids=lambda section: section.rule_id)
def test_a_section_names_the_modules_that_enforce_the_rule(section):
    """At least one of them cites the rule, wherever any module of dither does: else the page names
    the wrong place."""
    member = f"PrivacyRule.{PrivacyRule(section.rule_id).name}"
    cited = re.compile(rf"{re.escape(member)}\b|\b{section.rule_id}\b")
    assert section.modules and all((PACKAGE / name).is_file() for name in section.modules)
    citing = {path for path, source in SOURCES.items() if cited.search(source)}
    named = {PACKAGE / name for name in section.modules}
    enforcing = {path for path in citing if "zoo" not in path.parts}
    assert not enforcing or named & enforcing, sorted(enforcing)


@pytest.mark.parametrize("section", SECTIONS, ids=lambda section: section.rule_id)
def test_a_section_says_the_sentence_that_refusals_show(section):
    words = " ".join(section.paragraphs["Rule"].split()).lower()
    assert PrivacyRule(section.rule_id).sentence.lower() in words


def test_ids_and_sentences_are_plain_and_unique():
    assert all(re.fullmatch(r"[a-z]+(-[a-z]+)+", rule.value) for rule in PrivacyRule)
    assert (
        len({rule.sentence for rule in PrivacyRule})
        == len(PrivacyRule.__members__)
        == len(PrivacyRule)
    )


def test_the_index_lists_all_rules():
    page = write_index(SECTIONS)
    if os.environ.get("DITHER_WRITE_RULES"):
        INDEX.write_text(page, encoding="utf-8")
    assert INDEX.read_text(encoding="utf-8") == page, (
        f"docs/rules/index.md is not the list of rules: {REWRITE}"
    )


def test_a_refusal_shows_the_sentence_and_carries_the_rule():
    error = RefusedError("COUNT of an id", rule=PrivacyRule.IDS_NEVER_READ)
    assert str(error) == "COUNT of an id [rule: ids are never read]"
    assert error.rule.link == "docs/rules/questions.md#ids-never-read"


def find_rules_of_refusals(source: str) -> list[ast.expr]:
    """What is given as `rule` wherever a refusal is made."""
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    refusals = [call for call in calls if ast.unparse(call.func).endswith("RefusedError")]
    return [word.value for call in refusals for word in call.keywords if word.arg == "rule"]


def test_refusals_name_members_and_no_rule_is_written_as_text():
    names = []
    for path in (ROOT / "src").rglob("*.py"):
        source = path.read_text(encoding="utf-8")
        names += [ast.unparse(node) for node in find_rules_of_refusals(source)]
        assert "[rule: " not in source or path.name == "rules.py", path
    assert len(names) > 150
    assert [name for name in names if not re.fullmatch(r"PrivacyRule\.[A-Z_]+", name)] == []
    assert [
        ast.unparse(node) for node in find_rules_of_refusals('RefusedError("x", rule="y")')
    ] == ["'y'"]


def test_no_file_cites_a_document_outside_the_repository():
    lines = [
        (path, line)
        for path in find_sources()
        for line in path.read_text(encoding="utf-8").splitlines()
    ]
    assert [(str(path), line) for path, line in lines if OUTSIDE.search(line)] == []
    assert (
        OUTSIDE.search("see privacy-rules 12")
        and OUTSIDE.search("(rule 27)")
        and OUTSIDE.search("class TestRule8")
    )


def test_every_id_that_is_cited_is_that_of_a_rule():
    ids = {rule.value for rule in PrivacyRule}
    cited = set()
    for path in find_sources():
        for match in CITED.findall(path.read_text(encoding="utf-8")):
            cited |= set(re.findall(r"[a-z]+-[a-z-]+", match))
    assert len(cited) > 20
    assert cited - ids == set()
