"""`one_row_is: person`: every paper says that the person was asserted and not checked."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from dither import RefusedError, connect, steward
from dither.cli.main import app
from dither.publish.interpret import interpret_pot
from dither.state import State
from tests.datasets import adult

ASSERTED = "person (asserted, not checked)"
CATALOG = """\
dither: 1
dataset: adult
lineage: adult
population: adults
neighbours: add_remove
unit: {kind: row, one_row_is: person}
people: {}
source: {engine: csv, location: ., trim: true}
tables:
  adult:
    kind: private
    from: adult.csv
    unique: []
    rows_per_unit: 1
    max_rows: 1000
    columns:
      age: {type: integer, bounds: [0, 120], nulls: keep, provenance: ages}
"""
PURPOSE = {
    "question": "How old are people?",
    "population": "people in the census",
    "recipient": "readers of this test",
}
COUNT = "SELECT COUNT(*) AS n FROM adult"


@pytest.fixture
def file(tmp_path):
    file = tmp_path / "adult.yaml"
    file.write_text(CATALOG)
    adult.write_adult(tmp_path / "adult.csv", rows=40)
    state = State.beside(file)
    catalog = steward.register(file, state=state).catalog
    steward.open_pot(state, catalog, "total", epsilon=2, ceiling=2, purpose=PURPOSE)
    return file


def test_certificates_budgets_and_answers_say_so(file):
    con = connect(file)
    res = con.sql(COUNT, epsilon=1)
    body = res.certificate()["body"]
    assert body["unit"]["protects"] == ASSERTED
    assert f"for one {ASSERTED}" in body["guarantee"]["stated"]
    assert body["limits"] == [f"at most 1 rows of adult per {ASSERTED}"]
    assert ASSERTED in str(con.budget()) and res.info["unit"] == ASSERTED
    assert ASSERTED in str(con.preview(COUNT, epsilon=1))


def test_what_it_means_if_a_person_has_more_rows_after_all_is_said(file):
    (pot,) = connect(file).budget().pots
    said = " ".join(interpret_pot(pot).lines())
    assert "taken for one person: asserted, not checked" in said


def test_the_register_and_its_hazards_say_so(file, tmp_path):
    ran = CliRunner().invoke(app, ["registry", "export", str(file), "--to", str(tmp_path)])
    assert ran.exit_code == 0, ran.exception
    assert ASSERTED in (tmp_path / "registry.yaml").read_text()
    assert "asserted, not checked" in (tmp_path / "statement.md").read_text()


def test_a_pot_of_asserted_people_pays_for_no_other_unit(file):
    """Else a pot that was opened for checked people could be spent on asserted ones."""
    file.write_text(CATALOG.replace("{kind: row, one_row_is: person}", "{kind: row}"))
    steward.register(file)
    with pytest.raises(RefusedError, match="the two have no sum"):
        connect(file).sql(COUNT, epsilon=0.5)


def test_the_command_of_a_hazard_names_the_catalog(file, tmp_path):
    """It can be copied as it stands."""
    ran = CliRunner().invoke(app, ["registry", "export", str(file), "--to", str(tmp_path / "r")])
    assert ran.exit_code == 0, ran.exception
    assert "CATALOG" not in ran.output
    words = ["interpret", str(file), "--rows", "10"]
    assert f"dither {' '.join(words)}" in ran.output
    assert CliRunner().invoke(app, words).exit_code == 0
