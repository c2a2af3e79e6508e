"""Questions for keys alone: declared keys are all returned, and free."""

from __future__ import annotations

from fractions import Fraction

import pytest

from dither import ParameterError, QueryError, connect
from tests.case_lists import mark_between, mark_rest
from tests.datasets import clinic

QUESTIONS = (
    "SELECT DISTINCT ward FROM visits",
    "SELECT ward FROM visits GROUP BY ward",
    "SELECT DISTINCT ward, urgent FROM visits WHERE cost > 10",
    "SELECT date_trunc('month', day) AS m FROM visits GROUP BY m ORDER BY m DESC LIMIT 2",
    "SELECT ward FROM visits GROUP BY ward HAVING ward <> 'south' ORDER BY 1",
)


def register(folder, rows):
    """A registered clinic in a folder of its own, and the state beside it."""
    folder.mkdir()
    return clinic.register(folder, rows)


def add_count(sql: str) -> str:
    """The same question with a count, whose keys are those of every GROUP BY."""
    sql = sql.replace("SELECT DISTINCT", "SELECT")
    head, tail = sql.split(" FROM ", 1)
    return f"{head}, COUNT(*) AS n FROM {tail}" + ("" if "GROUP BY" in tail else " GROUP BY ALL")


@pytest.fixture
def con(tmp_path):
    file, place = register(tmp_path / "some", [clinic.row("v1", "p1", ward="north")])
    clinic.open_total(place)
    return connect(file)


@pytest.mark.parametrize("sql", mark_between(QUESTIONS, step=2))
def test_declared_keys_are_those_that_a_count_has(con, sql):
    counted = con.sql(add_count(sql), epsilon=1).to_dict(intervals=False)
    counted.pop("n")
    assert con.sql(sql).to_dict() == counted


@pytest.mark.parametrize("sql", mark_between(QUESTIONS, step=2))
def test_nothing_is_read_or_charged(con, sql, monkeypatch):
    def fail(*_, **__):
        raise AssertionError("the kernel was asked")

    before = str(con.history())
    monkeypatch.setattr(con._kernel, "answer", fail)
    monkeypatch.setattr(con._kernel, "release", fail)
    monkeypatch.setattr(con._kernel, "price", fail)
    for result in (con.sql(sql), con.sql(sql, epsilon=1, fresh=True), con.sql(sql, dry_run=True)):
        assert result.info["charged"] == "0/1"
    assert [pot.spent for pot in con.budget().pots] == [Fraction(0)]
    assert str(con.history()) == before
    assert con.preview(sql, epsilon=1).charged.amount == 0


def test_two_databases_have_the_same_keys(con, tmp_path):
    rows = [clinic.row(f"v{i}", f"p{i}", ward="south") for i in range(9)]
    second = connect(register(tmp_path / "more", rows)[0])
    for sql in QUESTIONS:
        assert str(con.sql(sql)) == str(second.sql(sql))
        assert "nothing was charged" in str(con.sql(sql))


def test_what_needs_a_release_is_refused(con):
    result = con.sql("SELECT DISTINCT ward FROM visits")
    for use in (result.certificate, result.opening, result.nonnegative, result.consistent):
        with pytest.raises(ParameterError, match="declared keys"):
            use()
    assert result.interval(0.5) is result
    assert "<table>" in result._repr_html_()


@pytest.mark.parametrize(
    "sql",
    mark_rest(
        ["SELECT cost FROM visits", "SELECT * FROM visits", "SELECT DISTINCT patient FROM visits"],
        quick=1,
    ),
)
def test_rows_and_people_are_still_refused(con, sql):
    with pytest.raises(QueryError):
        con.sql(sql, epsilon=1)
    assert [pot.spent for pot in con.budget().pots] == [Fraction(0)]
