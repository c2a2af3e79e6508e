"""`dither discard`: invented data is thrown away, data about people never."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dither import RefusedError, steward
from dither.cli.main import app
from dither.state import State
from tests.datasets import clinic


def run(*words: str):
    return CliRunner().invoke(app, ["discard", *words], env={"COLUMNS": "200"})


def list_machine() -> list[str]:
    home = Path(os.environ["XDG_STATE_HOME"])
    return sorted(path.name for path in home.rglob("*") if path.is_file())


def test_it_says_what_it_would_remove_and_removes_nothing(tmp_path):
    file, place = clinic.register(tmp_path, [clinic.row("v", "p")], dev=True)
    before = list_machine()
    ran = run(str(file))
    assert ran.exit_code == 0 and str(place.root) in ran.output
    assert f"dither discard {file} --yes" in ran.output
    assert place.ledger.exists() and list_machine() == before != []


def test_all_that_belongs_to_an_invented_dataset_is_removed_but_its_files(tmp_path):
    file, place = clinic.register(tmp_path, [clinic.row("v", "p")], dev=True)
    clinic.open_total(place)
    assert run(str(file), "--yes").exit_code == 0
    assert not place.root.exists() and list_machine() == []
    assert file.exists() and (tmp_path / "visits.csv").exists()
    steward.register(file, state=place, dev=True)


@pytest.mark.parametrize("opened", [False, True])
def test_a_dataset_about_people_is_kept(tmp_path, opened):
    file, place = clinic.register(tmp_path, [clinic.row("v", "p")])
    if opened:
        clinic.open_total(place)
    before = sorted(place.root.rglob("*"))
    for words in ([str(file)], [str(file), "--yes"]):
        assert isinstance(run(*words).exception, RefusedError)
    assert sorted(place.root.rglob("*")) == before


def test_a_lineage_that_had_a_budget_about_people_is_kept_also_where_it_is_dev(tmp_path):
    """First invented rows under the name, then a prod lineage of that name elsewhere."""
    file, place = clinic.register(tmp_path / "dev", [clinic.row("v", "p")], dev=True)
    _, prod = clinic.register(tmp_path / "prod", [clinic.row("v", "p")])
    clinic.open_total(prod)
    assert isinstance(run(str(file), "--yes").exception, RefusedError)
    assert place.ledger.exists()


def test_what_was_never_registered_is_refused(tmp_path):
    (tmp_path / "clinic.yaml").write_text(clinic.CATALOG)
    ran = run(str(tmp_path / "clinic.yaml"), "--yes")
    assert "nothing is registered" in str(ran.exception)
    assert not State.beside(tmp_path / "clinic.yaml").root.exists()
