"""What a connection says of itself: tables, privacy unit, budget; from public facts alone."""

from __future__ import annotations

import pytest

from dither import ParameterError, connect
from tests.datasets import clinic


def make_connection(folder, rows):
    file, state = clinic.register(folder, rows)
    clinic.open_total(state)
    return connect(file)


@pytest.fixture
def con(tmp_path):
    return make_connection(tmp_path / "clinic", [clinic.row("1", "1")])


def test_a_connection_shows_tables_unit_and_budget(con):
    for shown in (repr(con), con._repr_html_()):
        assert "visits" in shown and "at most 3 rows per person" in shown
        assert "privacy unit: person" in shown
        assert "budget total: epsilon 10 left of 10, delta 0 left, for one person" in shown


def test_it_says_that_no_pot_is_open(tmp_path):
    file, _ = clinic.register(tmp_path / "clinic", [clinic.row("1", "1")])
    assert "no budget total is open yet" in repr(connect(file))


def test_tables_can_be_listed_and_searched(con):
    assert list(con.tables) == ["visits"] and "visits" in con.tables and len(con.tables) == 1


def test_a_table_is_described_by_its_catalog(con):
    """The words are those of the clinic's catalog."""
    text = str(con.describe("VISITS"))
    facts = ("north, south, other", "0 to 110", "-10 to 500, rounded to 0.01",
             "2024-01-01 to 2024-12-31", "never shown", "false, true")  # fmt: skip
    assert all(fact in text for fact in facts)


def test_an_unknown_table_is_named_with_the_known_ones(con):
    with pytest.raises(ParameterError, match="no table 'nope': there are visits"):
        con.describe("nope")


def test_nothing_shown_before_paying_depends_on_the_data(tmp_path, monkeypatch):
    """Two databases with one catalog and no release: every text is the same, byte by byte."""
    texts = []
    for name, rows in (("a", []), ("b", [clinic.row(f"v{i}", f"p{i}") for i in range(50)])):
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / f"heads-{name}"))
        con = make_connection(tmp_path / name, rows)
        sql = "SELECT ward, COUNT(*) AS n, AVG(cost) AS m FROM visits GROUP BY ward"
        shown = (con, con.tables, con.describe("visits"), con.preview(sql, epsilon=1))
        texts.append([text for each in shown for text in (repr(each), each._repr_html_())])
    assert texts[0] == texts[1]
