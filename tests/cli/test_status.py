"""`dither status` and `dither budget show`: who is suspended, since when, and what clears it."""

from __future__ import annotations

import json
import shlex
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dither import UnavailableError, connect
from dither.cli.datasets import write_show_command
from dither.cli.main import app
from dither.data.measure import Measurer
from tests.datasets import clinic

COUNT = "SELECT COUNT(*) AS n FROM visits"


def run(*words: str) -> str:
    ran = CliRunner().invoke(app, list(words), env={"COLUMNS": "200"})
    assert ran.exit_code == 0, ran.exception
    return ran.output


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file, place = clinic.register(tmp_path, [clinic.row(f"v{i}", f"p{i}") for i in range(5)])
    clinic.open_total(place)
    return file


def fail_after_the_charge(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("the engine died of row 7")

    with monkeypatch.context() as patch:
        patch.setattr(Measurer, "measure", fail)
        with pytest.raises(UnavailableError):
            connect(file).sql(COUNT, epsilon=1)


def test_a_sound_dataset_at_a_glance(file):
    shown = run("status", str(file))
    assert "dataset clinic, version 1 (prod), protects one person" in shown
    assert (
        "budget total: epsilon 10 left of 10, delta 0 left, for one person" in shown
        and "no incident is open" in shown
    )
    assert "suspended" not in run("budget", "show", str(file))
    assert json.loads(run("status", str(file), "--json"))["suspended"] is None


def test_a_suspended_dataset_says_since_when_and_what_clears_it(file, monkeypatch):
    before = datetime.now(UTC) - timedelta(seconds=1)
    fail_after_the_charge(file, monkeypatch)
    sentences = []
    for words in (["status", str(file)], ["budget", "show", str(file)]):
        (line,) = [line for line in run(*words).splitlines() if "suspended since" in line]
        sentences.append(line.strip())
    assert sentences[0] == sentences[1]
    since, _, command = sentences[0].partition("; clear with: ")
    time = since.partition("since ")[2].partition(" (")[0]
    assert before <= datetime.fromisoformat(time) <= datetime.now(UTC)
    assert "everybody" in since and "failed_after_reserve" in since and "row 7" not in since
    assert json.loads(run("status", str(file), "--json"))["suspended"] == sentences[0]
    program, *words = shlex.split(command)
    assert program == "dither"
    run(*words)
    assert "no incident is open" in run("status", str(file))
    connect(file).sql(COUNT, epsilon=1)


def test_one_pot_of_several_is_named(file, monkeypatch):
    purpose = ["--question", "How busy are they?", "--population", "the residents of the county"]
    other = file.parent / "other"
    file, place = clinic.register(other, [clinic.row("v", "p")])
    clinic.open_total(place, max_incidents=3, relations={"*": "disjoint"})
    for name in ("ann", "bob"):
        words = ["--epsilon", "1", "--ceiling", "1", "--inside", "total", "--kind", "analyst"]
        recipient = ["--recipient", "an analyst of the board"]
        run("budget", "open", str(file), name, *words, *purpose, *recipient)

    def fail(*_: object) -> None:
        raise RuntimeError

    with monkeypatch.context() as patch:
        patch.setattr(Measurer, "measure", fail)
        with pytest.raises(UnavailableError):
            connect(file, pot="ann").sql(COUNT, epsilon=0.5)
    assert "budget ann is suspended since" in run("status", str(file))
    connect(file, pot="bob").sql(COUNT, epsilon=0.5)


def test_a_log_that_is_gone_or_damaged_leaves_the_rest(file, monkeypatch):
    fail_after_the_charge(file, monkeypatch)
    log = file.with_suffix(".dither") / "steward.log"
    log.write_bytes(b"\xff{}\n[1]\n" + b'{"reserve": "x"}\n')
    assert "suspended since a time that the steward's log does not tell" in run("status", str(file))
    log.unlink()
    assert "clear with: dither budget clear" in run("status", str(file))


@pytest.mark.parametrize("words", [("status",), ("budget", "show")], ids=" ".join)
def test_without_a_catalog_the_datasets_of_this_machine_are_listed(words, tmp_path, monkeypatch):
    """The command beside each dataset runs as it stands, also for a state folder of another
    name."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "heads"))
    assert "no dataset on this machine has a budget" in run(*words)
    file, place = clinic.register(tmp_path / "a folder", [clinic.row("v", "p")])
    clinic.open_total(place)
    lines = [line for line in run(*words).splitlines() if "dither " in line]
    (command,) = [line[line.index("dither ") :].rstrip(" │") for line in lines]
    assert run(*shlex.split(command)[1:]) == run(*words, str(file))
    moved = file.parent / "elsewhere"
    assert write_show_command(words, moved).endswith(f"--state {shlex.quote(str(moved))}")
    assert run(*words, "--state", str(file.with_suffix(".dither"))) == run(*words, str(file))
    (dataset,) = json.loads(run(*words, "--json"))["datasets"]
    assert (dataset["dataset"], dataset["state"]) == ("clinic", str(file.with_suffix(".dither")))
