"""Every command as a person and as a script would use it: help, JSON, exit codes, completion, and
no traceback."""

from __future__ import annotations

import json
import re
import sys

import pytest
from typer.testing import CliRunner

from dither import BudgetError, UnavailableError, steward
from dither.cli.main import app, main
from dither.cli.output import exit_code
from dither.state import State
from tests.case_lists import mark_between
from tests.command_tree import COMMANDS
from tests.datasets import clinic

QUESTION = "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward"


def run(*arguments):
    return CliRunner().invoke(app, [str(each) for each in arguments])


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    home = tmp_path_factory.mktemp("commands")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(home / "xdg"))
        (home / "clinic.yaml").write_text(clinic.CATALOG)
        clinic.write_csv(home / "visits.csv", [clinic.row(f"v{i}", f"p{i}") for i in range(30)])
        done = steward.register(home / "clinic.yaml")
        steward.open_pot(State(home / "clinic.dither"), done.catalog, "total", epsilon="2",
            ceiling="2",
                         purpose=clinic.PURPOSE)  # fmt: skip
        sealed = home / "certificate.json"
        assert (
            run(
                "sql", home / "clinic.yaml", QUESTION, "--epsilon", "0.5", "--certificate", sealed
            ).exit_code
            == 0
        )
    return home


@pytest.fixture
def file(made, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(made / "xdg"))
    return made / "clinic.yaml"


def test_the_commands_of_the_design_are_there():
    names = {" ".join(path) for path, _ in COMMANDS}
    wanted = {"demo", "catalog check", "catalog draft", "catalog import", "register", "budget open",
        "budget raise",
              "budget show", "preview", "sql", "history", "ledger verify", "ledger export",
              "verify", "registry export",
              "account", "local simulate", "report", "bench", "interpret"}  # fmt: skip
    assert wanted <= names


@pytest.mark.parametrize(
    ("path", "command"),
    mark_between(COMMANDS, step=3),
    ids=lambda each: " ".join(each) if isinstance(each, tuple) else "",
)
def test_every_command_and_option_explains_itself(path, command):
    assert run(*path, "--help").exit_code == 0
    assert command.help and len(command.help.split()) >= 5, path
    for parameter in command.params:
        told = getattr(parameter, "help", None)
        assert told or parameter.name == "help", f"{path}: {parameter.name}"


@pytest.mark.parametrize(
    "arguments",
    [
        ("preview", "FILE", QUESTION, "--epsilon", "0.5"),
        ("sql", "FILE", QUESTION, "--epsilon", "0.5"),
        ("history", "FILE"),
        ("budget", "show", "FILE"),
        ("ledger", "verify", "FILE"),
        ("catalog", "check", "FILE"),
        ("interpret", "FILE"),
        ("registry", "export", "FILE"),
        ("account", "laplace(10)"),
    ],
    ids=lambda each: each[0],
)
def test_json_is_json_and_nothing_else(file, arguments):
    ran = run(*(file if each == "FILE" else each for each in arguments), "--json")
    assert ran.exit_code == 0, ran.output
    assert json.loads(ran.stdout)


def test_json_of_a_preview_and_an_answer_have_what_a_program_needs(file):
    price = json.loads(run("preview", file, QUESTION, "--within", "30", "--json").stdout)
    assert price["fits"] and price["columns"][0]["half_width"] <= 30
    answer = json.loads(run("sql", file, QUESTION, "--epsilon", "0.5", "--json").stdout)
    assert answer["info"]["repeated"] and answer["columns"]["ward"] == [
        "north",
        "south",
        "other",
        None,
    ]


def test_register_says_json_too(tmp_path):
    (tmp_path / "clinic.yaml").write_text(clinic.CATALOG)
    clinic.write_csv(tmp_path / "visits.csv", [clinic.row("v1", "p1")])
    assert json.loads(run("register", tmp_path / "clinic.yaml", "--json").stdout)["version"] == 1


def test_a_certificate_from_the_command_line_verifies_there(file, made, tmp_path):
    sealed = made / "certificate.json"
    assert run("verify", sealed).exit_code == 0  # the key of a dataset on this machine is known
    key = run("verify", "--show-key", file).stdout.strip()
    assert re.fullmatch("[0-9a-f]{64}", key)
    (tmp_path / "clinic.pub").write_text(key + "\n")
    assert run("verify", sealed, "--key", tmp_path / "clinic.pub").exit_code == 0
    assert run("verify", sealed, "--key", key).exit_code == 0
    assert run("verify", sealed, "--key", "0" * 64).exit_code == 1
    told = json.loads(run("verify", sealed, "--json").stdout)
    assert told["intact"] and told["known_key"] and told["problems"] == []


def test_a_changed_certificate_is_refused_by_name(file, made, tmp_path):
    text = (made / "certificate.json").read_text()
    (tmp_path / "changed.json").write_text(
        text.replace('"neighbours": "add_remove"', '"neighbours": "replace"')
    )
    ran = run("verify", tmp_path / "changed.json")
    assert ran.exit_code == 1 and "unit.neighbours: was changed" in ran.output


def test_elsewhere_the_key_is_unknown(made, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "another machine"))
    ran = run("verify", made / "certificate.json")
    assert ran.exit_code == 3 and "--show-key" in ran.output


def test_a_dry_run_says_so_and_has_no_certificate(file):
    ran = run("sql", file, QUESTION, "--epsilon", "0.5", "--dry-run")
    assert ran.exit_code == 0 and "about nobody" in ran.output
    assert (
        run("sql", file, QUESTION, "--epsilon", "1", "--dry-run", "--certificate", "x").exit_code
        == 1
    )


def test_the_registry_and_the_report_are_written(file, tmp_path):
    ran = run("registry", "export", file, "--to", tmp_path / "out")
    assert ran.exit_code == 0 and "warning [" in ran.output and "to answer [" in ran.output
    assert "## a. Variant" in (tmp_path / "out" / "statement.md").read_text()
    checked = run("registry", "check", tmp_path / "out" / "registry.yaml")
    assert checked.exit_code == 1 and "justification" in checked.output
    assert run("report", file, "--to", tmp_path / "report.html").exit_code == 0
    page = (tmp_path / "report.html").read_text()
    assert "prod dataset" in page and "What differential privacy does not protect" in page


def ended(monkeypatch, *arguments):
    monkeypatch.setattr("sys.argv", ["dither", *map(str, arguments)])
    with pytest.raises(SystemExit) as stopped:
        main()
    return stopped.value.code


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("sql", "FILE", QUESTION, "--epsilon", "50", "--yes"), 4),
        (("sql", "FILE", "SELECT * FROM visits", "--epsilon", "1"), 1),
        (("sql", "FILE", QUESTION, "--epsilon", "x"), 1),
        (("sql", "FILE"), 2),
        (("frobnicate",), 2),
        (("sql", "missing.yaml", QUESTION, "--epsilon", "1"), 1),
        (("verify", "missing.json"), 1),
        (("verify",), 1),
        (("verify", "FILE"), 1),
        (("registry", "check", "missing.yaml"), 1),
        (("interpret", "--epsilon", "1"), 1),
        (("history", "FILE"), 0),
    ],
)
def test_exit_codes_say_what_happened(file, monkeypatch, capsys, arguments, code):
    assert ended(monkeypatch, *(file if each == "FILE" else each for each in arguments)) == code
    assert "Traceback" not in capsys.readouterr().err


def test_an_unavailable_answer_has_its_own_code():
    assert exit_code(UnavailableError()) == 5 and exit_code(BudgetError("x")) == 4


@pytest.mark.parametrize(
    ("error", "code", "told", "hidden"),
    [
        (ValueError("patient Smith has HIV"), 70, "ValueError at", "Smith"),
        (KeyError("Smith"), 70, "KeyError", "Smith"),
        (KeyboardInterrupt(), 130, "charge", "Traceback"),
        (
            PermissionError(13, "Permission denied", "/secret/place"),
            1,
            "/secret/place",
            "Traceback",
        ),
        (RecursionError("Smith"), 70, "RecursionError", "Smith"),
    ],
)
def test_nothing_but_a_message_reaches_a_user(monkeypatch, capsys, error, code, told, hidden):
    def fails() -> None:
        raise error

    monkeypatch.setattr(sys.modules["dither.cli.main"], "app", fails)
    with pytest.raises(SystemExit) as stopped:
        main()
    shown = capsys.readouterr().err
    assert (
        stopped.value.code == code
        and told in shown
        and hidden not in shown
        and "Traceback" not in shown
    )
