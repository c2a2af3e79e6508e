"""docs/reference/mechanisms.md: no empty cell, proofs that exist, tests that are collected, bugs
that are caught."""

import importlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from dither import mechanisms
from tests.case_lists import mark_between, mark_case

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reference" / "mechanisms.md"
ROOMS = [ROOT / "src/dither/privacy/mechanisms", ROOT / "src/dither/mechanisms"]
MECHANISM_FILES = sorted(path for room in ROOMS for path in room.glob("*.py"))
FILES = sorted(path for path in Path(__file__).parent.glob("test_*.py") if path != Path(__file__))


def import_tests(path):
    """The module of a test file, which may be given from the root on."""
    return importlib.import_module(".".join((ROOT / path).relative_to(ROOT).with_suffix("").parts))


def table():
    """The rows of the one table of the page, as dictionaries by column."""
    lines = [line for line in PAGE.read_text().splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    head, rows = cells[0], cells[2:]
    assert all(len(row) == len(head) for row in rows)
    return [dict(zip(head, row, strict=True)) for row in rows]


def quoted(cell):
    return re.findall(r"`([^`]+)`", cell)


ROWS = {quoted(row["mechanism"])[0]: row for row in table()}
BUGS = {
    name: bug for path in FILES for name, bug in getattr(import_tests(path), "BUGS", {}).items()
}


def test_columns_and_no_empty_cell():
    wanted = ["mechanism", "what for", "needs", "loss", "error law", "proof", "test", "planted bug"]
    for row in ROWS.values():
        assert list(row) == wanted
        assert all(len(cell) > 1 for cell in row.values())


def test_every_mechanism_has_a_row():
    helpers = {"QuantileGrid", "histogram_sensitivity"}
    helpers |= {name for name in mechanisms.__all__ if name.startswith("fit_")}
    assert set(mechanisms.__all__) - helpers == set(ROWS) - {"SmoothMedian", "Snapping"}
    files = {path.stem for path in MECHANISM_FILES}
    shared = {
        "__init__",
        "additive",
        "delta",
        "grid",
        "key_families",
        "protocol",
        "quantile_families",
        "quantile_levels",
        "selection",
        "step_terms",
    }
    told = {
        getattr(mechanisms, name).__module__.rsplit(".", 1)[1]
        for name in mechanisms.__all__
        if name != "QuantileGrid"
    }
    assert files - shared == told


def anchors(page):
    """Heading anchors as GitHub and mkdocs make them."""
    heads = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).strip().replace(" ", "-") for head in heads}


@pytest.mark.parametrize("name", ROWS)
def test_proof_is_an_anchor_that_exists(name):
    (target,) = re.findall(r"\]\(([^)]+)\)", ROWS[name]["proof"])
    file, anchor = target.split("#")
    assert anchor in anchors((PAGE.parent / file).resolve())


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_docstrings_link_to_proofs_that_exist(path):
    for page, anchor in re.findall(r"docs/proofs/([\w-]+\.md)#([\w-]+)", path.read_text()):
        assert anchor in anchors(ROOT / "docs" / "proofs" / page)


def test_tests_are_functions_of_their_files():
    for row in ROWS.values():
        for node in quoted(row["test"]):
            file, _, function = node.partition("::")
            assert (ROOT / file).parent == Path(__file__).parent
            assert callable(getattr(import_tests(file), function))


@pytest.mark.all
def test_tests_are_collected():
    command = [
        sys.executable,
        "-m",
        "pytest",
        "--collect-only",
        "-q",
        "-m",
        "not soak",
        str(Path(__file__).parent),
    ]
    environment = {name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"}
    listing = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=True, env=environment
    ).stdout
    collected = {line.split("[")[0] for line in listing.splitlines() if "::" in line}
    assert {node for row in ROWS.values() for node in quoted(row["test"])} <= collected


def test_every_planted_bug_is_in_the_table():
    assert {bug for row in ROWS.values() for bug in quoted(row["planted bug"])} == set(BUGS)


LONG_BUGS = {  # the dearest: most of their rows have another one
    "top-k-charged-once",
    "noisy-max-no-factor-2",
    "permute-and-flip-no-factor-2",
    "joint-quantiles-one-level",
    "quantile-ends-one-row",
    "quantile-sensitivity-1",
    "svt-restarted-for-free",
    "svt-bad-gap-2020",
    "private-selection-stops-at-good",
    "tree-noise-of-one-level",
    "box-least-for-largest",
    "flipped-quantile-one-row",
    "race-ignores-weights",
}
PLANTED = [(name, bug) for name, row in ROWS.items() for bug in quoted(row["planted bug"])]


@pytest.mark.parametrize(
    ("name", "bug"),
    mark_between([mark_case(pair, pair[1] in LONG_BUGS) for pair in PLANTED], step=3),
)
def test_planted_bug_fails_the_test_of_its_row(name, bug):
    test = BUGS[bug].test
    file = test.__module__.replace(".", "/")
    assert f"{file}.py::{test.__name__}" in quoted(ROWS[name]["test"])
    assert BUGS[bug].is_caught()


@pytest.mark.parametrize("code", re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL))
def test_code_of_the_page_runs(code):
    exec(compile(code, "mechanisms.md", "exec"), {})
