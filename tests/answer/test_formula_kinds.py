"""Values of one formula have one kind: anything else is refused before a charge, never raised after
it."""

from __future__ import annotations

import datetime

import pytest

from dither import QueryError
from dither.sql.bind import bind
from tests.answer.asked import connection
from tests.case_lists import mark_between
from tests.datasets import clinic_sql

MIXED = [
    "SELECT COALESCE('x', COUNT(*)) AS y FROM visits",
    "SELECT IF(COUNT(*) > -999999, 'x', 1) AS y FROM visits",
    "SELECT score, COUNT(*) AS n, COALESCE(score, 'none') AS d FROM visits GROUP BY score",
    "SELECT ward, CASE WHEN GROUPING(ward) = 1 THEN 'total' ELSE COUNT(*) END AS d FROM visits "
    "GROUP BY ROLLUP(ward)",
    "SELECT urgent, COUNT(*) AS n, CASE WHEN urgent THEN 'yes' ELSE urgent END AS d FROM visits "
    "GROUP BY urgent",
    "SELECT CASE WHEN n > -99 THEN ward ELSE n END AS z FROM (SELECT ward, COUNT(*) AS n FROM "
    "visits GROUP BY ward)",
    "SELECT CASE WHEN COUNT(*) > 5 THEN MEDIAN(date) ELSE 5 END AS z FROM visits",
    "SELECT NULLIF(COUNT(*), 'x') AS z FROM visits",
    "SELECT ward, GREATEST(ward, 'a') AS z, COUNT(*) AS n FROM visits GROUP BY ward",
    "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward HAVING ward = COUNT(*)",
    "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward ORDER BY ward + COUNT(*)",
    "SELECT MEDIAN(date) > 'soon' AS z FROM visits",
    "SELECT MEDIAN(date) > COUNT(*) AS z FROM visits",
    "SELECT MEDIAN(date) * 2 AS z FROM visits",
    "SELECT 5 - MEDIAN(date) AS z FROM visits",
    "SELECT MEDIAN(date) + MEDIAN(date) AS z FROM visits",
    "SELECT COUNT(*) + 'x' AS z FROM visits",
    "SELECT MEDIAN(seen) > DATE '2024-01-01' AS z FROM visits",
    "SELECT GREATEST(MEDIAN(seen), TIMESTAMP '2026-12-31 00:00:00') AS z FROM visits",
    "SELECT MEDIAN(seen) + 5 AS z FROM visits",
    "SELECT urgent, COUNT(*) AS n FROM visits GROUP BY urgent HAVING urgent = 'true'",
]
WIDE = [
    ("SELECT 9223372036854775808 AS d, COUNT(*) AS n FROM visits", 2.0**63),
    ("SELECT 9223372036854775807 AS d, COUNT(*) AS n FROM visits", 2.0**63),
    ("SELECT GREATEST(COUNT(*), 9223372036854775807) AS d FROM visits", 2.0**63),
    ("SELECT 1e50 AS d, COUNT(*) AS y FROM visits", 1e50),
    ("SELECT CASE WHEN COUNT(*) > -999999 THEN 1e20 ELSE COUNT(*) END AS d FROM visits", 1e20),
    ("SELECT GREATEST(COUNT(*), 1e19) AS d FROM visits", 1e19),
    ("SELECT LEAST(COUNT(*), -10000000000000000000) AS d FROM visits", -1e19),
    ("SELECT NULLIF(10000000000000000000, COUNT(*)) AS d FROM visits", 1e19),
]
FIRST, LAST = datetime.date(2024, 1, 1), datetime.date(2026, 12, 31)
"""The bounds of visits.date in the catalog."""


@pytest.fixture(scope="module")
def con(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("heads")))
        yield connection(tmp_path_factory.mktemp("kinds") / "clinic", 10)


@pytest.mark.parametrize("sql", mark_between(MIXED, step=3))
def test_mixed_kinds_are_refused_when_the_question_is_read(sql):
    with pytest.raises(QueryError, match=r"different kinds|takes numbers|of texts"):
        bind(sql, clinic_sql.catalog())


def test_a_refused_question_is_not_charged(con):
    spent = con.budget().pots[0].spent
    for sql in MIXED:
        with pytest.raises(QueryError):
            con.sql(sql, epsilon=1)
    assert con.budget().pots[0].spent == spent


@pytest.mark.parametrize(("sql", "value"), WIDE)
def test_whole_numbers_that_floats_round_are_shown_as_numbers(con, sql, value):
    assert con.sql(sql, epsilon=1).table["d"].to_pylist() == [value]


def test_date_constants_are_compared_and_chosen_as_dates(con):
    row = con.sql(
        "SELECT MEDIAN(date) AS m, GREATEST(MEDIAN(date), DATE '2026-12-31') AS g, "
        "LEAST(MEDIAN(date), '2024-01-01') AS l, MEDIAN(date) - DATE '2024-01-01' AS d, "
        "MEDIAN(date) >= DATE '2024-01-01' AS t, MEDIAN(date) + 7 AS w, DATE '2024-01-01' AS f, "
        "CASE WHEN MEDIAN(date) < '1999-01-01' THEN MEDIAN(date) ELSE DATE '2024-01-01' END AS c "
        "FROM visits",
        epsilon=10,
    ).table.to_pylist()[0]
    assert (row["g"], row["g_low"], row["l"], row["l_high"]) == (LAST, LAST, FIRST, FIRST)
    assert row["d"] == (row["m"] - FIRST).days and row["d_low"] == (row["m_low"] - FIRST).days
    assert row["w"] == row["m"] + datetime.timedelta(days=7)
    assert (row["t"], row["f"], row["c"]) == (True, FIRST, FIRST)


def test_date_keys_stand_beside_date_constants(con):
    table = con.sql(
        "SELECT date, GREATEST(date, DATE '2024-01-03') AS g, COALESCE(date, DATE '2024-01-01') AS "
        "z, "
        "CASE WHEN COUNT(*) > -999999 THEN date ELSE DATE '2024-01-01' END AS x "
        "FROM visits GROUP BY date HAVING date - DATE '2024-01-01' < 5 ORDER BY date DESC",
        epsilon=1,
    ).table
    days = [datetime.date(2024, 1, day) for day in (5, 4, 3, 2, 1)]
    assert table["date"].to_pylist() == table["z"].to_pylist() == table["x"].to_pylist() == days
    assert table["g"].to_pylist() == [max(day, datetime.date(2024, 1, 3)) for day in days]


def test_keys_of_months_stand_beside_date_constants(con):
    table = con.sql(
        "SELECT DATE_TRUNC('month', date) AS m, COUNT(*) AS n, "
        "COALESCE(DATE_TRUNC('month', date), DATE '2024-01-01') AS z FROM visits GROUP BY 1",
        epsilon=1,
    ).table
    assert table["m"].to_pylist() == table["z"].to_pylist()
    assert table["m"].to_pylist()[:2] == [FIRST, datetime.date(2024, 2, 1)]


@pytest.mark.parametrize(
    "label", ["COALESCE(ward, 'total')", "CASE WHEN GROUPING(ward) = 1 THEN 'total' ELSE ward END"]
)
def test_a_text_beside_a_text_key_is_shown(con, label):
    labels = con.sql(
        f"SELECT {label} AS w, COUNT(*) AS n FROM visits GROUP BY ROLLUP(ward)", epsilon=1
    ).table["w"]
    assert "total" in labels.to_pylist() and len(set(labels.to_pylist())) > 1
