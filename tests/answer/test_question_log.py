"""Texts of questions: shown to the pots that paid for the answer and to the steward only."""

from __future__ import annotations

import json
import stat

import pytest
from typer.testing import CliRunner

from dither import connect, steward
from dither.answer.question_log import find_question_log, read_questions
from dither.cli.main import app
from tests.datasets import clinic

OF_ONE = "SELECT ward, COUNT(*) AS n FROM visits WHERE age > 41 GROUP BY ward"


@pytest.fixture
def groups(tmp_path):
    """Two groups that share nothing, each with its own pot."""
    file, state = clinic.register(tmp_path / "clinic", [clinic.row("1", "1")])
    terms = {"purpose": clinic.PURPOSE, "epsilon": "1", "ceiling": "1"}
    steward.open_pot(state, clinic.catalog(), "total", policy="separate",
                     **(terms | {"epsilon": "5", "ceiling": "5"}))  # fmt: skip
    for name in ("one", "two"):
        steward.open_pot(state, clinic.catalog(), name, inside="total", kind="group", **terms)
    return file, state


def test_the_pot_that_paid_sees_its_text(groups):
    con = connect(groups[0], pot="one")
    con.sql(OF_ONE, epsilon=0.5)
    (release,) = con.history().releases
    assert release.sql == OF_ONE and OF_ONE in con.history()._repr_html_().replace("&gt;", ">")


def test_another_pot_sees_nothing_of_it(groups):
    """A constant of the text may follow from answers that only the first pot paid for."""
    connect(groups[0], pot="one").sql(OF_ONE, epsilon=0.5)
    assert len(connect(groups[0], pot="two").history()) == 0


def test_a_pot_that_pays_for_a_stored_answer_sees_its_own_text_alone(groups):
    connect(groups[0], pot="one").sql(OF_ONE, epsilon=0.5)
    con = connect(groups[0], pot="two")
    con.sql(f"{OF_ONE} -- asked by two", epsilon=0.5)
    assert all(release.sql != OF_ONE for release in con.history().releases)


def test_the_export_for_anyone_has_no_text_and_the_stewards_has(groups):
    connect(groups[0], pot="one").sql(OF_ONE, epsilon=0.5)
    public = CliRunner().invoke(app, ["ledger", "export", str(groups[0])]).stdout
    assert OF_ONE not in public and '"sql"' not in public
    own = json.loads(CliRunner().invoke(app, ["ledger", "export", str(groups[0]), "--sql"]).stdout)
    assert [release["sql"] for release in own["releases"]] == [OF_ONE]
    listing = ["history", str(groups[0]), "--json"]
    assert "SELECT" not in CliRunner().invoke(app, listing).stdout
    listed = json.loads(CliRunner().invoke(app, [*listing, "--sql"]).stdout)
    assert [release["sql"] for release in listed] == [OF_ONE]


def test_the_report_shows_texts_to_the_steward_only(groups, tmp_path):
    connect(groups[0], pot="one").sql(OF_ONE, epsilon=0.5)
    for option, is_shown in (((), False), (("--sql",), True)):
        page = tmp_path / "report.html"
        CliRunner().invoke(app, ["report", str(groups[0]), "--to", str(page), *option])
        assert ("age &gt; 41" in page.read_text()) == is_shown


def test_rehearsals_and_repeats_are_not_logged(groups):
    con = connect(groups[0], pot="one")
    con.sql(OF_ONE, epsilon=0.5, dry_run=True)
    assert read_questions(groups[1].root) == {}
    con.sql(OF_ONE, epsilon=0.5)
    con.sql(OF_ONE, epsilon=0.5)
    log = find_question_log(groups[1].root)
    assert len(log.read_text().splitlines()) == 1
    assert stat.S_IMODE(log.stat().st_mode) == 0o600


def test_a_log_that_cannot_be_written_or_read_costs_no_answer(groups):
    find_question_log(groups[1].root).mkdir()
    con = connect(groups[0], pot="one")
    assert con.sql(OF_ONE, epsilon=0.5).table.num_rows == 4
    (release,) = con.history().releases
    assert release.sql is None and "count" in str(con.history())


def test_lines_that_were_cut_off_are_left_out(groups):
    con = connect(groups[0], pot="one")
    con.sql(OF_ONE, epsilon=0.5)
    log = find_question_log(groups[1].root)
    log.write_text(log.read_text() + '{"release": "x", "po')
    assert list(read_questions(groups[1].root).values()) == [OF_ONE]
