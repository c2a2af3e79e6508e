"""Every command that a message tells to run is one that runs: with all that it needs, as it
stands."""

from __future__ import annotations

import ast
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
import typer
from typer.testing import CliRunner

from dither import BudgetError, DitherError, RefusedError, connect
from dither.cli.main import app, main
from dither.commands import name_catalog, naming_catalog, write_command
from tests.case_lists import mark_between
from tests.command_tree import COMMANDS
from tests.datasets import clinic

SOURCE = Path(__file__).parents[2] / "src" / "dither"
GROUPS = {words[0] for words, _ in COMMANDS}
COMMAND = re.compile(rf"\bdither ({'|'.join(sorted(GROUPS))})\b[^\n]*")
NOT_COMMANDS = ("dither ledger format ",)
"""The mark of a PostgreSQL ledger, not a command."""
COUNT = "SELECT COUNT(*) AS n FROM visits"


def flatten(node: ast.expr) -> str | None:
    """A text, with a word in the place of what is put into it."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.JoinedStr):
        return "".join(
            str(value.value) if isinstance(value, ast.Constant) else "1" for value in node.values
        )
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        texts = (flatten(node.left), flatten(node.right))
        return None if texts == (None, None) else "".join(text or "1" for text in texts)
    return None


def list_texts(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """The texts of a module that are no docstrings, each once."""
    skipped = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if id(node) in skipped or not isinstance(node, ast.expr):
            continue
        text = flatten(node)
        if text is not None:
            skipped |= {id(inner) for inner in ast.walk(node)}
            yield node.lineno, text


def cut_command(text: str, before: str) -> str:
    """The command alone: up to the quote or bracket that it stands in, or the end of the text."""
    closing = {"'": "'", "`": "`", "(": ")"}.get(before[-1:])
    command = text.partition(closing)[0] if closing else text
    return re.split(r"\)\.$|; | lists | and check ", command)[0].strip()


def list_mentions() -> list[object]:
    cases = []
    for path in sorted(SOURCE.rglob("*.py")):
        code = path.read_text(encoding="utf-8")
        if "dither " not in code:
            continue
        for line, text in list_texts(ast.parse(code)):
            for match in COMMAND.finditer(text):
                command = cut_command(match[0], text[: match.start()])
                if not match[0].startswith(NOT_COMMANDS):
                    name = f"{path.relative_to(SOURCE)}:{line}"
                    cases.append(pytest.param(command, id=name))
    return cases


def parse_command(text: str) -> None:
    """Parse a command with the real command line; refused as the shell's user would be."""
    program, *words = shlex.split(text)
    assert program == "dither", text
    command: click.Command = typer.main.get_command(app)
    context = command.make_context("dither", [words[0], *words[1:]], resilient_parsing=False)
    while isinstance(command, click.Group) or hasattr(command, "list_commands"):
        name = words.pop(0)
        command = command.get_command(context, name)
        assert command is not None, text
        context = click.Context(command, info_name=name, parent=context)
    if words != ["--help"]:
        command.make_context(command.name, list(words))


MENTIONS = list_mentions()


def test_there_are_commands_to_parse():
    assert len(MENTIONS) > 30


@pytest.mark.parametrize("text", mark_between(MENTIONS, step=3))
def test_a_command_of_a_message_parses(text, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("registry.yaml", "CATALOG", "1", "certificate.json", "clinic.pub"):
        (tmp_path / name).touch()
    parse_command(text)


def test_the_parser_refuses_what_does_not_run():
    for text in ("dither budget raise total", "dither ledger verify", "dither register a b"):
        with pytest.raises(Exception, match="Missing parameter|unexpected extra argument"):
            parse_command(text)


def find_command(text: str) -> str:
    match = COMMAND.search(text)
    assert match is not None, text
    return cut_command(match[0], text[: match.start()])


@pytest.fixture
def file(tmp_path):
    file, _ = clinic.register(tmp_path / "my clinic", [clinic.row("v", "p")])
    return file


def test_commands_of_a_session_name_the_file_also_with_blanks_in_it(file):
    con = connect(file)
    with pytest.raises(BudgetError) as missing:
        con.sql(COUNT, epsilon=1)
    command = find_command(str(missing.value))
    assert str(file) in shlex.split(command)
    parse_command(command)


def test_the_command_that_raises_a_cap_runs_as_it_stands(file):
    words = ["--epsilon", "1", "--ceiling", "3", "--question", "How busy are the wards?"]
    words += ["--population", "residents of the county", "--recipient", "the hospital board"]
    assert CliRunner().invoke(app, ["budget", "open", str(file), "total", *words]).exit_code == 0
    with pytest.raises(BudgetError) as refused:
        connect(file).sql(COUNT, epsilon=2)
    command = find_command(str(refused.value))
    assert "CATALOG" not in command
    ran = CliRunner().invoke(app, shlex.split(command)[1:])
    assert "reason" in str(ran.exception)  # '...' is no reason; all else was understood
    ran = CliRunner().invoke(app, shlex.split(command.replace("...", "the board asked again"))[1:])
    assert ran.exit_code == 0, ran.exception
    connect(file).sql(COUNT, epsilon=2)


def test_a_changed_catalog_names_the_command_that_registers_it(file):
    file.write_text(file.read_text().replace("rows_per_unit: 3", "rows_per_unit: 2"))
    with pytest.raises(RefusedError) as changed:
        connect(file)
    command = find_command(str(changed.value))
    assert CliRunner().invoke(app, shlex.split(command)[1:]).exit_code == 0


def test_the_command_line_names_the_catalog_that_it_was_given(tmp_path, monkeypatch, capsys):
    (tmp_path / "clinic.yaml").write_text(clinic.CATALOG)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["dither", "sql", "clinic.yaml", COUNT, "--epsilon", "1"])
    with pytest.raises(SystemExit):
        main()
    message = capsys.readouterr().err
    assert "'dither register clinic.yaml'" in message and "CATALOG" not in message


def test_a_file_is_quoted_for_the_shell():
    assert write_command("status", "a b.yaml") == "dither status 'a b.yaml'"
    odd = 'a "b" $c `d`.yaml'
    command = name_catalog("printf %s CATALOG", odd)
    ran = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=True)
    assert ran.stdout == odd
    with pytest.raises(DitherError, match="run 'dither status x.yaml'"), naming_catalog("x.yaml"):
        raise DitherError("run 'dither status CATALOG'")
