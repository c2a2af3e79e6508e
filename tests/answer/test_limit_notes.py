"""GROUP BY a number with thousands of values asks for a bin, before anything is spent."""

from __future__ import annotations

import re

import pytest

from dither import ParameterError, connect
from dither.answer import limit_notes
from tests.case_lists import mark_between
from tests.datasets import clinic

MANY = "SELECT cost, COUNT(*) AS n FROM visits GROUP BY cost"


@pytest.fixture
def con(tmp_path):
    file, state = clinic.register(tmp_path / "clinic", [clinic.row("1", "1")])
    clinic.open_total(state)
    return connect(file)


def test_a_number_with_thousands_of_values_is_refused_before_spending(con):
    """-10 to 500 by 0.01 are 51,001 values."""
    with pytest.raises(ParameterError, match="cost has 51,001 values.*Nothing was spent"):
        con.sql(MANY, epsilon=1)
    assert con.budget().pots[0].spent == 0


def test_the_preview_says_the_bin_and_the_bin_is_answered(con):
    shown = " ".join(str(con.preview(MANY, epsilon=1)).split())
    (binned,) = re.findall(r"as in GROUP BY (BIN\(cost, [\d.]+\))", shown)
    answer = con.sql(f"SELECT {binned} AS b, COUNT(*) AS n FROM visits GROUP BY b", epsilon=1)
    assert 5 <= answer.table.num_rows <= 50


@pytest.mark.parametrize("key", mark_between(["ward", "age", "day", "score"], step=2))
def test_other_keys_are_answered(con, key):
    sql = f"SELECT {key}, COUNT(*) AS n FROM visits GROUP BY {key}"
    assert con.sql(sql, epsilon=1).table.num_rows <= 400


def test_a_rehearsal_spends_nothing_and_is_not_refused(con):
    assert con.sql(MANY, epsilon=1, dry_run=True).table.num_rows == 51_002


def test_an_answer_that_was_paid_before_stays_free(con, monkeypatch):
    monkeypatch.setattr(limit_notes, "_MOST_NUMBERS", 10**6)
    first = con.sql(MANY, epsilon=1)
    monkeypatch.undo()
    again = con.sql(MANY, epsilon=1)
    assert again.info["repeated"] and again.to_dict(intervals=False) == first.to_dict(
        intervals=False
    )
