"""Everything that is wrong with a catalog is told at once, each at its line."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from dither.catalog import load, parse
from dither.catalog.file.load import list_problems
from dither.cli.main import app
from dither.errors import CatalogError
from tests.datasets import clinic

BROKEN = (
    clinic.CATALOG.replace("neighbours: add_remove", "neighbours: ???")
    .replace("protected: true", "protected: yes")
    .replace("rows_per_unit: 3", "row_per_unit: 3")
    .replace("bounds: [0, 110]", "bounds: [110, 0]")
    .replace("score:   {type: integer,", "score:   {type: integer, from: '',")
    .replace("other: drop, nulls: {value: b}", "other: drop, nulls: {value: z}")
)
"""Six mistakes of six kinds; the misspelt key is also a missing one."""


def write(folder: Path, text: str) -> Path:
    file = folder / "clinic.yaml"
    file.write_text(text)
    return file


def test_mistakes_in_different_places_are_all_told(tmp_path):
    problems = list_problems(write(tmp_path, BROKEN))
    said = [problem.message for problem in problems]
    expected = ("neighbours", "protected must be", "unknown key 'row_per_unit'", "rows_per_unit is")
    for words in (*expected, "lower bound is above", "'z' is not one of", "from is empty"):
        assert sum(words in message for message in said) == 1, words
    assert len(said) == 7
    lines = [problem.line for problem in problems]
    assert lines == sorted(lines)


def test_one_mistake_is_told_as_before(tmp_path):
    file = write(tmp_path, clinic.CATALOG.replace("add_remove", "add"))
    (problem,) = list_problems(file)
    with pytest.raises(CatalogError) as caught:
        load(file)
    assert str(caught.value) == str(problem)


def test_a_sound_catalog_has_no_problem(tmp_path):
    assert list_problems(write(tmp_path, clinic.CATALOG)) == ()


@pytest.mark.parametrize("text", ["", "a: [", "- x", "dither: 1\n"])
def test_what_is_no_catalog_is_told_too(tmp_path, text):
    assert list_problems(write(tmp_path, text))


def test_rules_between_tables_are_all_told():
    text = clinic.CATALOG.replace(
        "visit:   {type: id}", "visit:   {type: id}\n      room: {type: id}"
    )
    text = text.replace("{column: patient}", "{column: room}")
    with pytest.raises(CatalogError, match="must be listed under people"):
        parse(text)


def test_rules_are_all_told_by_the_list(tmp_path):
    text = clinic.CATALOG.replace(
        "visit:   {type: id}", "visit:   {type: id}\n      room: {type: id}"
    )
    text = text.replace(
        "{type: category, values: [north, south],", "{type: category, values: {from: w.w},"
    )
    said = [problem.message for problem in list_problems(write(tmp_path, text))]
    assert len(said) == 2
    assert "whom or what does this id name" in said[0] and "not another public table" in said[1]


def test_check_prints_all_of_them(tmp_path):
    ran = CliRunner().invoke(app, ["catalog", "check", str(write(tmp_path, BROKEN))])
    assert isinstance(ran.exception, CatalogError)
    assert "7 problems" in str(ran.exception)
    assert len(str(ran.exception).splitlines()) == 8


def test_check_tells_what_the_source_lacks_of_every_table(tmp_path):
    second = clinic.CATALOG.partition("  visits:\n")[2].replace("visits.csv", "stays.csv")
    file = write(tmp_path, f"{clinic.CATALOG}  stays:\n{second}")
    (tmp_path / "visits.csv").write_text("visit,patient\n")
    (tmp_path / "stays.csv").write_text("visit\n")
    ran = CliRunner().invoke(app, ["catalog", "check", str(file)])
    assert "visits.csv has no column ward" in str(ran.exception)
    assert "stays.csv has no column patient" in str(ran.exception)
