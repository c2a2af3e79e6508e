"""Counts that a selection of undeclared keys has already: which questions are answered by them,
at what price, and what their answers say."""

from __future__ import annotations

from collections import Counter
from functools import partial

import pytest

from dither import steward
from dither.answer.counts_of_selection import NOTE
from dither.state import State
from dither.steward.stages import measure_truth
from tests.answer import asked

BY_DIAGNOSIS = "SELECT diagnosis, COUNT(DISTINCT patient_id) AS n FROM visits GROUP BY diagnosis"
OWNERS = "SELECT DISTINCT patient_id, diagnosis FROM visits"
ONCE = f"SELECT diagnosis, COUNT(*) AS n FROM ({OWNERS}) GROUP BY diagnosis"
TERMS = {"rule": "zcdp", "rho": 10_000, "epsilon": None, "ceiling": 10_000}
ZCDP = {**TERMS, "delta_conversion": "1e-6", "delta_selection": "1e-4"}


@pytest.fixture(scope="module")
def con(tmp_path_factory):
    folder = tmp_path_factory.mktemp("counted")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(folder / "heads"))
        yield asked.connection(folder / "c", rows=asked.few_rows(60), **ZCDP)


def list_families(con, sql: str, **terms) -> list[str]:
    return [step.family for step in con.request(sql, **{"rho": 1, **terms}).steps]


@pytest.mark.parametrize("sql", [BY_DIAGNOSIS, ONCE, f"{BY_DIAGNOSIS} ORDER BY n DESC"])
def test_the_selection_counts_and_takes_the_whole_price(con, sql):
    assert list_families(con, sql) == ["counted_keys"]
    (step,) = con._kernel.price(con.request(sql, rho=1)).steps
    assert step.mechanism.loss().rho <= 1 < step.mechanism.loss().rho * 1.001


def test_other_columns_get_the_share_of_the_count(con):
    sql = BY_DIAGNOSIS.replace("AS n", "AS n, SUM(cost) AS c")
    request = con.request(sql, rho=1)
    assert [step.family for step in request.steps] == ["counted_keys", "gaussian"]
    assert len(request.steps[1].query.columns) == 1
    weights = [step.weight for step in request.steps]
    assert weights[0] == weights[1]  # where the count was bought: 1/4 for keys, 3/8 for each


@pytest.mark.parametrize(
    "sql",
    [
        BY_DIAGNOSIS.replace("AS n", "+ 1 AS n"),
        BY_DIAGNOSIS.replace("AS n", "AS n, 2 * COUNT(DISTINCT patient_id) AS twice"),
        f"{BY_DIAGNOSIS} HAVING n > 50",
        f"{BY_DIAGNOSIS} ORDER BY n DESC LIMIT 2",
        "SELECT diagnosis, COUNT(*) AS n FROM visits GROUP BY diagnosis",
        BY_DIAGNOSIS.replace("diagnosis", "diagnosis, urgent"),
        BY_DIAGNOSIS.replace("GROUP BY diagnosis", "GROUP BY ROLLUP(diagnosis)"),
        "SELECT urgent, COUNT(DISTINCT patient_id) AS n FROM visits GROUP BY urgent",
    ],
)
def test_other_counts_are_bought(con, sql):
    assert "counted_keys" not in list_families(con, sql)


def test_the_answer_is_what_was_released(con):
    answer = con.sql(BY_DIAGNOSIS, rho=20)
    (released,) = answer._release.values
    rows = zip(*(answer.to_dict()[name] for name in ("diagnosis", "n")), strict=True)
    assert [(key, str(count)) for key, count in rows] == list(released)
    assert any(NOTE in note for note in answer.footnotes)
    again = con.sql(BY_DIAGNOSIS, rho=20)
    assert again.info["repeated"] and again.to_dict() == answer.to_dict()


@pytest.mark.parametrize("sql", [BY_DIAGNOSIS, ONCE])
def test_at_a_high_price_the_answer_is_the_number_of_people(con, sql):
    """20 keys a person: sigma^2 = 20 / 1,200, so that noise other than 0 has a chance of e^-30."""
    rows = asked.few_rows(60)["visits"]
    owners = Counter(
        diagnosis for _, diagnosis in {(row["patient_id"], row["diagnosis"]) for row in rows}
    )
    assert list_families(con, sql, rho=600) == ["counted_keys"]
    answer = con.sql(sql, rho=600).to_dict()
    assert set(answer["diagnosis"]) == {key for key, count in owners.items() if count > 2}
    for key, count in zip(answer["diagnosis"], answer["n"], strict=True):
        assert count == owners[key]


def test_an_eighth_more_noise_is_paid_for_keys_of_half_the_owners(tmp_path, monkeypatch):
    """Epsilon 1, delta 1e-6: sigma is 11.5 for six keys a person, where a count that is bought with
    three quarters of the price has a deviation of sqrt(2) * 6 / 0.75 = 11.3; and 8.1 beside 5.7 for
    three keys."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "heads"))
    con = asked.connection(tmp_path / "c", rows=asked.few_rows(3))
    by_groups = {
        groups: list_families(con, BY_DIAGNOSIS, rho=None, epsilon=1, max_groups=groups)
        for groups in (3, 6)
    }
    assert by_groups == {3: ["geometric_keys", "laplace"], 6: ["counted_keys"]}


def test_within_finds_a_price_for_the_count(con):
    preview = con.preview(BY_DIAGNOSIS, within=10)
    assert preview.columns[0].half_width <= 10
    assert con.preview(BY_DIAGNOSIS, rho=preview.price * 9 / 10).columns[0].half_width > 10


def test_intervals_reach_down_at_the_threshold(con):
    answer = con.sql(BY_DIAGNOSIS, rho=20, fresh=True)
    (step,) = answer._release.priced.steps
    threshold = step.mechanism.threshold
    release = answer._release
    shown = (("cold", str(threshold)), ("flu", str(threshold + 1000)))
    object.__setattr__(release, "values", (shown,))
    rows = answer.interval("0.99").to_dict()
    half = rows["n_high"][0] - rows["n"][0]
    assert rows["n_low"][0] == 1 and rows["n_low"][1] == rows["n"][1] - half


def test_true_counts_stand_beside_shown_keys(tmp_path, monkeypatch):
    """For dev lineages alone, as the demo's report shows them."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "heads"))
    monkeypatch.setattr(asked.steward, "register", partial(steward.register, dev=True))
    rows = asked.few_rows(60)
    con = asked.connection(tmp_path / "c", rows=rows, **ZCDP)
    release = con.sql(BY_DIAGNOSIS, rho=50)._release
    owners = Counter(
        diagnosis for _, diagnosis in {(r["patient_id"], r["diagnosis"]) for r in rows["visits"]}
    )
    (shown,) = measure_truth(State.beside(tmp_path / "c" / "clinic.yaml"), release)
    assert shown and all(int(count) == owners[key] for key, count in shown)


def test_a_derived_result_keeps_its_counts(con):
    answer = con.sql(BY_DIAGNOSIS, rho=20)
    assert answer.nonnegative("n").to_dict()["n"] == answer.to_dict()["n"]
