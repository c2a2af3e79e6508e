"""A terminal of 50 columns: tables fold, and no number and no word is broken."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

import dither.cli
from dither.cli.main import app

COMMANDS = {
    "account": ("account", "100 * gaussian(10)", "--delta", "1e-6"),
    "audit accountant": ("audit", "accountant", "--compositions", "1", "--runs", "1000"),
    "audit mechanisms": ("audit", "mechanisms", "IntegerLaplace", "--runs", "1000"),
    "audit leakage": ("audit", "leakage", "FILE"),
    "local": ("local", "simulate", "--users", "1000"),
}


def show(name: str, columns: int, folder: Path) -> str:
    file = folder / "pairs.csv"
    file.write_text("".join(f"s{i % 2},{i % 7}\n" for i in range(200)))
    words = [str(file) if word == "FILE" else word for word in COMMANDS[name]]
    ran = CliRunner().invoke(app, words, env={"COLUMNS": str(columns)})
    assert ran.exit_code == 0, (ran.output, ran.exception)
    return ran.output


@pytest.mark.parametrize("name", COMMANDS)
def test_a_table_folds_without_breaking_a_word(name, tmp_path):
    """Lines of a table, and of facts one below the other, fit; every cell's words are whole."""
    narrow = show(name, 50, tmp_path)
    drawn = [line for line in narrow.splitlines() if re.search("[│┃┏└┡]", line)]
    assert all(len(line) <= 50 for line in drawn)
    assert "…" not in narrow  # what rich writes where it cuts a text


def test_an_epsilon_of_the_ladder_stays_in_one_piece(tmp_path):
    document = CliRunner().invoke(app, [*COMMANDS["account"], "--json"]).output
    narrow = show("account", 50, tmp_path)
    for rung in json.loads(document)["ladder"]:
        assert f"{rung['epsilon']:.9g}" in narrow


def test_no_command_draws_a_table_that_does_not_fold():
    for file in Path(dither.cli.__file__).parent.glob("*.py"):
        assert "rich.table" not in file.read_text(), f"{file.name}: use ShownTable"


def test_help_folds_where_the_terminal_ends():
    """A sentence of the source that is broken there goes on in the same line of a wide one."""
    shown = CliRunner().invoke(app, ["local", "--help"], env={"COLUMNS": "150"}).output
    assert "measured on made-up people and by formula. Reads no data." in shown
