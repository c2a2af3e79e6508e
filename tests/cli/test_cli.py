"""The command line, as a steward and an analyst would use it."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from dither import __version__
from dither.cli.main import app, main
from tests.datasets import clinic

run = CliRunner().invoke
OPEN = ["--epsilon", "1", "--ceiling", "2", "--question", "How busy are the wards?", "--population",
        "residents of the county", "--recipient", "the hospital board"]  # fmt: skip
QUESTION = "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward"


@pytest.fixture
def file(tmp_path):
    (tmp_path / "clinic.yaml").write_text(clinic.CATALOG)
    clinic.write_csv(tmp_path / "visits.csv", [clinic.row(f"v{i}", f"p{i}") for i in range(30)])
    return str(tmp_path / "clinic.yaml")


def test_version_and_help():
    assert run(app, ["--version"]).output == f"dither {__version__}\n"
    shown = run(app, ["--help"]).output
    for command in ("demo", "register", "preview", "sql", "budget", "ledger", "catalog"):
        assert command in shown


def test_the_whole_way(file):
    assert "Protected:" in run(app, ["catalog", "check", file]).output
    assert "version 1 (prod)" in run(app, ["register", file]).output
    assert "total" in run(app, ["budget", "open", file, "total", *OPEN]).output
    assert "price: epsilon 0.5" in run(app, ["preview", file, QUESTION, "--epsilon", "0.5"]).output
    assert "north" in run(app, ["sql", file, QUESTION, "--epsilon", "0.5"]).output
    answer = json.loads(
        run(app, ["sql", file, QUESTION, "--epsilon", "0.25", "--fresh", "--format", "json"]).output
    )
    assert answer["columns"]["ward"] == ["north", "south", "other", None]
    assert answer["info"]["pot_spent_after"] == "3/4"
    lines = run(
        app, ["sql", file, QUESTION, "--epsilon", "0.25", "--format", "csv"]
    ).stdout.splitlines()
    assert lines[0] == "ward,n,n_low,n_high" and len(lines) == 5
    assert "raise" in str(
        run(app, ["sql", file, QUESTION, "--epsilon", "0.4", "--fresh"]).exception
    )
    assert (
        run(
            app,
            [
                "budget",
                "raise",
                file,
                "total",
                "--epsilon",
                "1.8",
                "--reason",
                "the board asked again",
            ],
        ).exit_code
        == 0
    )
    assert "0.75" in run(app, ["budget", "show", file]).output
    checked = run(app, ["ledger", "verify", file])
    assert (checked.exit_code, "verifies" in checked.output) == (0, True)


def test_verify_fails_loudly_on_a_tampered_ledger(file, tmp_path):
    import sqlite3

    run(app, ["register", file])
    run(app, ["budget", "open", file, "total", *OPEN])
    with sqlite3.connect(tmp_path / "clinic.dither" / "ledger.sqlite") as ledger:
        ledger.execute(
            'UPDATE entry SET body_json = replace(body_json, \'"cap":"1/1"\', \'"cap":"9/1"\')'
        )
    checked = run(app, ["ledger", "verify", file])
    assert checked.exit_code == 1


def test_an_error_is_one_message_and_never_a_traceback(file, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["dither", "sql", file, QUESTION, "--epsilon", "1"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 1
    assert "dither register" in capsys.readouterr().err
    assert app.pretty_exceptions_show_locals is False


@pytest.mark.all
def test_demo_runs(tmp_path):
    shown = run(app, ["demo", "--people", "50", "--report", str(tmp_path / "report.html")])
    assert shown.exit_code == 0, shown.exception
    assert "the ledger verifies" in shown.output
