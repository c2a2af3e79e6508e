"""A terminal of 50 columns: tables fold, and no number and no word is broken."""

from __future__ import annotations

import json
import re
import sys
from fractions import Fraction
from pathlib import Path

import pexpect
import pytest
from typer.testing import CliRunner

import dither.cli
from dither.canonical import decimal_text
from dither.cli.main import app
from tests.datasets import clinic

QUESTION = "SELECT ward, AVG(cost) AS average_cost_of_a_visit FROM visits GROUP BY ward"
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


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        heads = str(tmp_path_factory.mktemp("heads"))
        patch.setenv("XDG_STATE_HOME", heads)
        rows = [clinic.row(f"v{i}", f"p{i}", ward=["north", "south"][i % 2]) for i in range(40)]
        file, state = clinic.register(tmp_path_factory.mktemp("narrow") / "clinic", rows)
        clinic.open_total(state)
        ran = CliRunner().invoke(app, ["sql", str(file), QUESTION, "--epsilon", "0.5"])
        assert ran.exit_code == 0, ran.exception
        yield str(file), heads


@pytest.mark.parametrize(
    "words",
    [
        ("preview", "FILE", QUESTION, "--epsilon", "0.5"),
        ("sql", "FILE", QUESTION, "--epsilon", "0.5"),
        ("budget", "show", "FILE"),
        ("history", "FILE"),
    ],
    ids=["preview", "sql", "budget show", "history"],
)
def test_no_line_of_an_answer_is_wider_than_the_terminal(dataset, words):
    """A word alone may be, such as the name of a release: it is not broken."""
    file, heads = dataset
    arguments = [file if word == "FILE" else word for word in words]
    ran = CliRunner().invoke(app, arguments, env={"COLUMNS": "50", "XDG_STATE_HOME": heads})
    assert ran.exit_code == 0, ran.exception
    wide = [line.rstrip() for line in ran.output.splitlines() if len(line.rstrip()) > 50]
    assert [line for line in wide if len(line.split()) > 1] == []


@pytest.mark.all
def test_a_first_answer_at_a_terminal_of_50_columns(tmp_path, monkeypatch):
    """The whole of quickstart at a pseudo terminal: every line fits, or is one long word."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "heads"))
    clinic.write_csv(tmp_path / "visits.csv", [clinic.row(f"v{i}", f"p{i}") for i in range(90)])
    answers = [
        ("hold the names", "yes"),
        ("names the person", "patient"),
        ("rows of one person", "3"),
        ("power of ten", "1000"),
        ("may be asked about", "age = age"),
        ("may be asked about", ""),
        ("is to be learned", "How old are the patients?"),
        ("Ask it now", "yes"),
    ]
    command = ["-c", "from dither.cli import main; main()", "quickstart", "visits.csv"]
    child = pexpect.spawn(sys.executable, command, encoding="utf-8", timeout=180, cwd=str(tmp_path))
    child.setwinsize(50, 50)
    for question, answer in answers:
        child.expect_exact(question)
        child.sendline(answer)
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 0, child.before
    assert "average_age" in child.before and "epsilon 0.5, delta 0" in child.before


def test_an_epsilon_of_the_ladder_stays_in_one_piece(tmp_path):
    document = CliRunner().invoke(app, [*COMMANDS["account"], "--json"]).output
    narrow = show("account", 50, tmp_path)
    for rung in json.loads(document)["ladder"]:
        assert decimal_text(Fraction(rung["epsilon"]), up=True) in narrow


def test_no_command_draws_a_table_that_does_not_fold():
    for file in Path(dither.cli.__file__).parent.glob("*.py"):
        assert "rich.table" not in file.read_text(), f"{file.name}: use ShownTable"


def test_help_folds_where_the_terminal_ends():
    """A sentence of the source that is broken there goes on in the same line of a wide one."""
    shown = CliRunner().invoke(app, ["local", "--help"], env={"COLUMNS": "150"}).output
    assert "measured on made-up people and by formula. Reads no data." in shown
