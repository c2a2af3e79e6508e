"""Documentation that is true: its code runs, its test names exist, and nothing public is left
out."""

from __future__ import annotations

import ast
import importlib
import re
import shlex
import sys
from functools import cache
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dither.cli.main import app
from dither.privacy.kernel.release import load_libraries
from tests.case_lists import mark_case
from tests.command_tree import COMMANDS

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\]\(([^)#:\s]+\.(?:md|svg|png))(?:#[^)]*)?\)")
TEST_FILE = re.compile(r"\b(tests/[\w/]+\.py|test_\w+\.py)\b")
SOURCE_FILE = re.compile(r"`((?:[\w-]+/)*\w+\.py)`")
TEST = re.compile(r"(tests/[\w/]+\.py)::(?:\w+::)?(\w+)")


def blocks(page: Path, language: str) -> list[str]:
    return [code for kind, code in BLOCK.findall(page.read_text()) if kind == language]


def run_page(page: Path) -> None:
    """The page as a reader would follow it: its python, and its `dither` commands, in order, in one
    folder."""
    namespace: dict[str, object] = {"__name__": "__page__"}
    for kind, code in BLOCK.findall(page.read_text()):
        if kind == "python":
            exec(compile(code, str(page), "exec"), namespace)
        if kind == "bash":
            for line in code.replace("\\\n", " ").splitlines():
                program, *arguments = shlex.split(line)
                assert program == "dither", line
                ran = CliRunner().invoke(app, arguments)
                assert ran.exit_code == 0, f"{line}: {ran.output} {ran.exception}"


LONG_PAGES = [ROOT / "docs" / "tutorial" / "first-audit.md"]


@pytest.mark.parametrize(
    "page",
    [mark_case(page, page in LONG_PAGES) for page in PAGES],
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_the_python_and_the_commands_of_a_page_run(page, tmp_path, monkeypatch):
    (tmp_path / "page").mkdir()
    monkeypatch.chdir(tmp_path / "page")
    run_page(page)


def test_pages_register_the_invented_clinic_as_invented():
    """Else the lineage is about people for ever, and the next page cannot begin with it again."""
    lines = [line for page in PAGES for code in blocks(page, "bash") for line in code.splitlines()]
    registered = [line for line in lines if line.startswith("dither register clinic.yaml")]
    assert len(registered) > 5
    assert [line for line in registered if "--dev" not in line] == []


@pytest.mark.all
def test_the_readme_and_then_the_tutorial_run_on_one_machine(tmp_path, monkeypatch):
    """With what `pip install .` brings, and nothing else."""
    for name in ("altair", "matplotlib", "pandas", "polars"):
        monkeypatch.setitem(sys.modules, name, None)
    for page in (ROOT / "README.md", ROOT / "docs" / "tutorial" / "first-question.md"):
        (tmp_path / page.stem).mkdir()
        monkeypatch.chdir(tmp_path / page.stem)
        run_page(page)


def test_some_pages_have_python_to_run():
    assert sum(bool(blocks(page, "python")) for page in PAGES) >= 4


def test_the_output_in_the_readme_is_what_its_example_prints(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    load_libraries()  # pyarrow looks for pandas once, and keeps what it finds for other tests
    monkeypatch.setitem(sys.modules, "pandas", None)  # `pip install .` does not bring it
    page = ROOT / "README.md"
    (example,), (shown,) = blocks(page, "python"), blocks(page, "text")
    assert len(example.splitlines()) <= 15
    run_page(page)
    assert capsys.readouterr().out == shown


def test_every_line_of_the_threat_model_has_its_test_or_says_that_it_is_not_defended():
    page = (ROOT / "docs" / "threat-model.md").read_text().splitlines()
    rows = [line for line in page if line.startswith("| ") and "| defended |" not in line]
    assert len(rows) > 20
    for row in rows:
        named = TEST.findall(row)
        assert named or "**no**" in row, f"no test in: {row}"
        for file, function in named:
            assert function in find_functions(file), f"{file}::{function}"


@pytest.mark.parametrize("name", ["promises.md", "errata.md", "published-bugs.md"])
def test_every_promise_and_every_erratum_names_a_test_that_exists(name):
    lines = [
        line for line in (ROOT / "docs" / name).read_text().splitlines() if line.startswith("|")
    ]
    rows = [
        line
        for line in lines
        if not re.match(r"^\|[-| ]+\|$", line) and not line.rstrip().endswith("| test |")
    ]
    assert len(rows) > 5
    for row in rows:
        named = TEST.findall(row)
        assert named, f"no test in: {row}"
        for file, function in named:
            assert function in find_functions(file), f"{file}::{function}"
            assert function.startswith("test_")


@pytest.mark.parametrize(
    "page", [*PAGES, ROOT / "CONTRIBUTING.md"], ids=lambda page: str(page.relative_to(ROOT))
)
def test_every_test_that_a_page_names_exists(page):
    text = page.read_text()
    for file in TEST_FILE.findall(text):
        paths = [ROOT / file] if file.startswith("tests/") else list((ROOT / "tests").rglob(file))
        assert paths and all(path.exists() for path in paths), file
    for file, function in TEST.findall(text):
        assert function in find_functions(file), f"{file}::{function}"


@cache
def list_source_files() -> tuple[str, ...]:
    folders = ("src", "tests", "bench", "examples", "docs")
    return tuple(f"/{path}" for folder in folders for path in (ROOT / folder).rglob("*.py"))


@pytest.mark.parametrize(
    "page", [*PAGES, ROOT / "CONTRIBUTING.md"], ids=lambda page: str(page.relative_to(ROOT))
)
def test_every_file_of_code_that_a_page_names_exists(page):
    names = SOURCE_FILE.findall(page.read_text())
    assert [
        name for name in names if not any(path.endswith(f"/{name}") for path in list_source_files())
    ] == []


@cache
def find_functions(file: str) -> dict[str, ast.FunctionDef]:
    tree = ast.parse((ROOT / file).read_text())
    return {node.name: node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def runs_by_default(file: str, function: str) -> bool:
    """Whether `make test` runs it: it has neither marker as a whole (single cases may)."""
    decorators = {ast.unparse(node) for node in find_functions(file)[function].decorator_list}
    return decorators.isdisjoint({"pytest.mark.all", "pytest.mark.soak"})


def find_promises_without_a_default_test(lines: list[str]) -> list[str]:
    """Rows whose tests are all left to longer runs, without naming the command that runs them."""
    rows = [line for line in lines if TEST.search(line) and "(make " not in line]
    return [row for row in rows if not any(runs_by_default(*test) for test in TEST.findall(row))]


def test_every_promise_has_a_test_in_the_default_run_or_names_the_longer_run():
    lines = (ROOT / "docs" / "promises.md").read_text().splitlines()
    assert find_promises_without_a_default_test(lines) == []
    soaked = [line for line in lines if "(make soak)" in line]
    bare = [line.replace("(make soak)", "") for line in soaked]
    assert len(bare) >= 2
    assert find_promises_without_a_default_test(bare) == bare


def documented() -> str:
    return "\n".join(page.read_text() for page in PAGES)


def test_every_command_is_documented():
    text = documented()
    commands = [" ".join(("dither", *words)) for words, _ in COMMANDS]
    assert "dither demo" in commands
    assert [command for command in commands if command not in text] == []


@pytest.mark.parametrize(
    "module",
    ["dither", "dither.privacy.noise", "dither.mechanisms", "dither.accounting", "dither.learn"],
)
def test_every_public_name_is_documented(module):
    text = documented()
    names = importlib.import_module(module).__all__
    assert [name for name in names if not re.search(rf"\b{re.escape(name)}\b", text)] == []


def test_links_between_pages_lead_somewhere():
    links = [(page, target) for page in PAGES for target in LINK.findall(page.read_text())]
    assert [
        (str(page), target) for page, target in links if not (page.parent / target).exists()
    ] == []
