"""Ends of intervals that the question named itself: derived results and charts find them."""

from __future__ import annotations

from fractions import Fraction as F

import pytest

from tests.answer import asked
from tests.case_lists import mark_rest

NAMED = (
    "SELECT ward, COUNT(*) AS n, DP_INTERVAL_LOW(n) AS lo, DP_INTERVAL_HIGH(n) AS hi "
    "FROM visits GROUP BY ward"
)


@pytest.fixture
def con(tmp_path):
    return asked.connection(tmp_path / "c", rows=asked.few_rows(3), rule="pure")


def test_negative_values_and_their_named_ends_become_zero(con):
    found = con.sql(NAMED, epsilon=F(1, 100)).nonnegative().to_dict()
    assert list(found) == ["ward", "n", "lo", "hi"]
    assert all(value >= 0 for name in ("n", "lo", "hi") for value in found[name])


def test_a_chart_has_them(con):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    axes = con.sql(NAMED, epsilon=1).plot()
    assert len(axes.patches) == 4
    pyplot.close(axes.figure)


@pytest.mark.parametrize(
    "sql",
    mark_rest(
        ["COUNT(*) - 1000000", "COUNT_IF(score > 9) - COUNT(*)", "COUNT(*) - SUM(cost)"], quick=1
    ),
)
def test_what_may_be_negative_is_no_count(con, sql):
    """Its interval became [0, 0], and never covered."""
    result = con.sql(
        f"SELECT {sql} AS d, COUNT(*) AS n, COUNT(*) + COUNT(cost) AS m FROM visits", epsilon=1
    )
    found = result.nonnegative().to_dict()
    assert found["d"] == result.to_dict()["d"] and found["d_low"] == result.to_dict()["d_low"]
    assert sum("negative values were set to 0" in note for note in result.nonnegative().notes) == 2
