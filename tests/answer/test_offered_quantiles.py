"""Which law answers quantiles by group, and answers that the laws of release 0.1 sold."""

from __future__ import annotations

import pytest

from dither.privacy.charges.measures import zcdp
from tests.answer import asked

DELTAS = {"delta_conversion": "1e-6", "delta_selection": "1e-4"}
MEDIAN = "SELECT ward, MEDIAN(age) AS m FROM visits GROUP BY ward"
QUARTILES = (
    "SELECT ward, QUANTILE(age, 0.25) AS low, QUANTILE(age, 0.75) AS high FROM visits GROUP BY ward"
)


@pytest.fixture
def replaced(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "heads"))
    return asked.connect_small_clinic(tmp_path, "replace")


def list_families(con, sql: str) -> set[str]:
    return {step.family for step in con.request(sql, epsilon=1).steps}


def test_rows_are_counted_one_by_one_where_people_are_replaced(replaced):
    assert list_families(replaced, MEDIAN) == {"permute_and_flip_by_rows"}
    assert list_families(replaced, QUARTILES) == {"exponential_by_rows"}
    # without groups pairs of rows are no worse: the stored law stays
    assert list_families(replaced, "SELECT MEDIAN(age) FROM visits") == {"permute_and_flip"}


def test_where_people_come_or_go_the_stored_law_stays(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "heads"))
    con = asked.connect_small_clinic(tmp_path)
    assert list_families(con, MEDIAN) == {"permute_and_flip"}
    assert list_families(con, QUARTILES) == {"exponential"}


def test_an_answer_of_the_first_laws_stays_free_and_keeps_its_law(first_release, replaced):
    old = asked.sell_by_the_first_laws(replaced, MEDIAN, 1)
    again = replaced.sql(MEDIAN, epsilon=1)
    assert again.info["repeated"] and again.info["release_id"] == old.release_id
    fresh = replaced.sql(MEDIAN, epsilon=1, fresh=True)
    assert not fresh.info["repeated"]


def test_a_price_in_rho_counts_groups_by_the_squares_of_their_rows(tmp_path, monkeypatch):
    """At most two rows of twenty on one day: ten copies, where all rows together had 2.2 times the
    noise of ranks."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "heads"))
    terms = {"rule": "zcdp", "rho": 10, "epsilon": None, "ceiling": 10}
    con = asked.connection(tmp_path / "c", rows=asked.few_rows(3), **terms, **DELTAS)
    by_day = (
        "SELECT date, MEDIAN(cost) AS m FROM (SELECT patient_id, date, ward, AVG(cost) AS cost "
        "FROM visits WHERE ward IN ('north', 'south') GROUP BY patient_id, date, ward) "
        "GROUP BY date"
    )
    (step,) = con._kernel.price(con.request(by_day, rho="0.1")).steps
    assert (step.step.family, step.copies) == ("exponential_by_rows", 10)
    assert 0.0999 < zcdp(step.loss())[0] <= 0.1
