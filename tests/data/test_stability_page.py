"""The page of proofs names every operator and aggregate, and only tests that exist."""

from __future__ import annotations

import re
import typing
from pathlib import Path

from dither.plan import algebra

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/proofs/stability.md").read_text()
SECTIONS = {
    line[3:].lower().replace(" ", "-") for line in PAGE.splitlines() if line.startswith("## ")
}


def test_every_operator_has_a_file_a_lowering_and_a_section():
    for node in typing.get_args(algebra.Plan):
        name = re.sub(r"(?<!^)(?=[A-Z])", "_", node.__name__).lower()
        assert (ROOT / f"src/dither/plan/stability/{name}.py").exists(), name
        assert (ROOT / f"src/dither/data/lower/{name}.py").exists(), name
        assert name.replace("_", "-") in SECTIONS, name


def test_every_link_to_a_section_leads_somewhere():
    for file in (ROOT / "src/dither").rglob("*.py"):
        for section in re.findall(r"docs/proofs/stability\.md#([a-z-]+)", file.read_text()):
            assert section in SECTIONS, f"{file}: {section}"


def test_every_test_that_the_page_names_exists():
    tests = {path.name: path.read_text() for path in (ROOT / "tests/data").glob("test_*.py")}
    named = re.findall(r"`(test_\w+\.py)(?:::([\w:*]+))?`", PAGE)
    assert named
    for file, inside in named:
        for part in filter(None, inside.split("::")):
            assert re.search(rf"(def|class) {part.rstrip('*')}", tests[file]), (file, part)
