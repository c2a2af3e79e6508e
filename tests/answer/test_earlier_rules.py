"""Answers stored under looser rules of stability stay free; nothing new is measured under them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import dither
from dither import steward
from dither.answer.asked import read_price, read_question
from dither.answer.earlier_rules import has_other_noise, was_priced_otherwise
from dither.errors import RefusedError
from dither.plan.analyse import FIRST_RULES, NEWEST_RULES
from dither.plan.analysed_query import Analyses
from dither.privacy.kernel import kernel
from dither.privacy.kernel.release import Release
from dither.state import State
from dither.workloads import identity
from tests.case_lists import mark_rest
from tests.datasets.clinic import CATALOG, PURPOSE, catalog, row, write_csv

PLAIN = "SELECT ward, COUNT(*) AS n, AVG(cost) AS m FROM visits GROUP BY ward"
BY_WARD = "SELECT ward, SUM(score) AS s FROM visits WHERE score IN (1, 2) GROUP BY ward"
TIGHTER = "SELECT SUM(score) AS s FROM visits WHERE score IN (1, 2)"


@pytest.fixture
def connection(
    first_release: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> dither.Connection:
    return connect_clinic(tmp_path, monkeypatch)


def connect_clinic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dither.Connection:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "xdg"))
    file = tmp_path / "clinic.yaml"
    file.write_text(CATALOG)
    write_csv(tmp_path / "visits.csv", [row(str(i), str(i % 40), score="1") for i in range(100)])
    steward.register(file)
    steward.open_pot(
        State.beside(file), catalog(), "total", epsilon=10, ceiling=20, purpose=PURPOSE
    )
    return dither.connect(file)


def sell_by_the_first_rules(
    connection: dither.Connection, monkeypatch: pytest.MonkeyPatch, question: str
) -> Release:
    """What release 0.1 did: its rules were the newest."""
    asked = read_question(question, epsilon=1)
    view = connection._view()
    bound = connection._offers.bind(asked, FIRST_RULES)
    offered = connection._offers.offer(bound, asked, read_price(asked, bound.dialect), view)
    with monkeypatch.context() as patched:
        patched.setattr(kernel, "NEWEST_RULES", FIRST_RULES)
        release = connection._kernel.answer(offered.priced.request, FIRST_RULES)
    connection._kernel._idle.clear()
    return release


def list_analyses(connection: dither.Connection) -> tuple[Analyses, Analyses]:
    version = connection._kernel.version
    return replace(version, rules=FIRST_RULES).analyses, version.analyses


def test_a_plain_question_is_priced_once(connection):
    for question in (PLAIN, "SELECT COUNT(*) AS n FROM visits"):
        recipe = connection.bind(question)
        assert not was_priced_otherwise(recipe, *list_analyses(connection))


CONDITIONED = [
    "SELECT ward, COUNT(*) AS n FROM visits WHERE age >= 2 GROUP BY ward",
    "SELECT ward, AVG(cost) AS m FROM visits WHERE weight IN (20, 50) GROUP BY ward",
    "SELECT COUNT(*) AS n FROM visits WHERE age >= 2 AND weight < 50",
    "SELECT ward, MEDIAN(cost) AS m FROM visits WHERE age >= 2 GROUP BY ward",
]
MEASURED = [
    f"SELECT {values} FROM visits WHERE {condition}"
    for values in (
        "COUNT(cost) AS n",
        "SUM(score) AS s, COUNT(*) AS n",
        "AVG(score) AS m",
        "VARIANCE(score) AS v",
        "COUNT(CASE WHEN score < 3 THEN cost END) AS n",
        "SUM(COALESCE(cost, 1)) AS s",
        "COUNT(DISTINCT score) AS n",
        "MEDIAN(cost) AS m",
        "QUANTILE_CONT(score, 0.25) AS q, MEDIAN(cost) AS m",
        "MEDIAN(CASE WHEN score < 3 THEN cost END) AS m",
        "MEDIAN(score * weight) AS m, COUNT(cost) AS n",
    )
    for condition in ("score = 3", "age = 3 AND cost IS NOT NULL", "weight < 50", "age > 17")
]


@pytest.mark.parametrize("question", mark_rest(CONDITIONED, quick=1))
def test_a_condition_on_what_is_not_measured_changes_no_price(connection, question):
    assert not was_priced_otherwise(connection.bind(question), *list_analyses(connection))


def test_where_the_first_rules_are_not_asked_they_make_the_same_request(connection):
    """Else an answer that was paid under them would be sold again."""
    view = connection._view()
    same = []
    for question in CONDITIONED + MEASURED:
        if was_priced_otherwise(connection.bind(question), *list_analyses(connection)):
            continue
        asked = read_question(question, epsilon=1)
        keys = set()
        for rules in (FIRST_RULES, NEWEST_RULES):
            bound = connection._offers.bind(asked, rules)
            offered = connection._offers.offer(bound, asked, read_price(asked, bound.dialect), view)
            keys.add(offered.priced.key)
        assert len(keys) == 1, question
        same.append(question)
    assert len(same) > len(CONDITIONED)


def test_a_question_that_has_less_noise_now_was_priced_otherwise(connection):
    recipe = connection.bind(TIGHTER)
    assert was_priced_otherwise(recipe, *list_analyses(connection))


def test_an_answer_of_the_first_rules_is_free_and_keeps_its_noise(connection, monkeypatch):
    old = sell_by_the_first_rules(connection, monkeypatch, TIGHTER)
    spent = connection.budget().pots[0].spent
    again = connection.sql(TIGHTER, epsilon=1)
    assert again.info["repeated"]
    assert again.info["release_id"] == old.release_id
    assert again.to_pandas()["s"].tolist() == [old.values[0][0]]
    assert again.columns[0].sensitivity == 15
    assert connection.budget().pots[0].spent == spent
    assert connection.preview(TIGHTER, epsilon=1).stored


def test_a_fresh_answer_has_the_noise_of_the_newest_rules(connection, monkeypatch):
    """At most 3 rows a person: the first rules clamp scores to 5, the newest to 2."""
    sell_by_the_first_rules(connection, monkeypatch, TIGHTER)
    assert connection.preview(TIGHTER, epsilon=1).columns[0].sensitivity == 15
    fresh = connection.sql(TIGHTER, epsilon=1, fresh=True)
    assert not fresh.info["repeated"]
    assert fresh.columns[0].sensitivity == 6


def test_a_new_answer_keeps_its_law_when_it_is_asked_for_again(connection):
    """Noise on several cells has the loss Pure(epsilon) whatever its scale: 15 by the first rules,
    6 by the newest. The new answer must not be found, and read, as one of the first rules."""
    first = connection.sql(BY_WARD, epsilon=1)
    again = connection.sql(BY_WARD, epsilon=1)
    assert not first.info["repeated"] and again.info["repeated"]
    assert first.columns[1].sensitivity == again.columns[1].sensitivity == 6
    assert str(first.to_pandas()) == str(again.to_pandas())


def test_an_answer_of_the_first_rules_on_several_cells_keeps_its_law(connection, monkeypatch):
    old = sell_by_the_first_rules(connection, monkeypatch, BY_WARD)
    for _ in range(2):
        again = connection.sql(BY_WARD, epsilon=1)
        assert again.info["release_id"] == old.release_id
        assert again.columns[1].sensitivity == 15
        connection.sql(BY_WARD, epsilon=1, fresh=True)


def test_an_answer_of_the_first_rules_is_no_source_of_another(connection, monkeypatch):
    """Its key is that of noise of 6 for the newest rules, and its noise is 15: the total of the
    wards was shown with an interval, and certified with a scale, 2.5 times too small."""
    sell_by_the_first_rules(connection, monkeypatch, BY_WARD)
    assert "sources" not in connection.sql(TIGHTER, epsilon="0.001").info
    workload = connection.workload(
        identity("ward"), table="visits", where="score IN (1, 2)", aggregate="SUM(score)", epsilon=1
    )
    assert workload.earlier is None


def test_a_workload_never_reads_an_answer_of_the_first_rules_with_less_noise(
    connection, monkeypatch
):
    terms = {"table": "visits", "where": "score IN (1, 2)", "aggregate": "SUM(score)"}
    offered = connection.workload(identity("ward"), epsilon=1, **terms).offer.priced.request
    steps = tuple(replace(step, weight=step.weight / 2) for step in offered.steps)
    with monkeypatch.context() as patched:  # as release 0.1 sold it
        patched.setattr(kernel, "NEWEST_RULES", FIRST_RULES)
        old = connection._kernel.answer(replace(offered, steps=steps), FIRST_RULES)
    connection._kernel._idle.clear()
    assert has_other_noise(connection._kernel, connection._kernel.price(old.priced.request))
    for is_new in (True, False):
        again = connection.workload(identity("ward"), epsilon=1, **terms).answer()
        assert again.info["release_id"] != old.release_id
        assert again.info["repeated"] is not is_new


def test_nothing_is_measured_under_the_first_rules(connection):
    """A measurer with wider bounds must never serve a price of narrower ones."""
    request = connection.request(TIGHTER, epsilon=1)
    with pytest.raises(RefusedError, match="ask again"):
        connection._kernel.answer(request, FIRST_RULES)
    assert connection.budget().pots[0].spent == 0
    assert connection._kernel.answer(request, NEWEST_RULES).charged > 0


def test_a_version_that_was_registered_now_has_no_earlier_answers(tmp_path, monkeypatch):
    """So that nobody waits for a second binding, and no key is told apart from one never used."""
    connection = connect_clinic(tmp_path, monkeypatch)
    assert connection._kernel.version.facts.rules == NEWEST_RULES
    sell_by_the_first_rules(connection, monkeypatch, TIGHTER)  # as nobody can have done
    assert not connection.sql(TIGHTER, epsilon=1).info["repeated"]
    steps = connection.request(BY_WARD, epsilon=1).steps
    assert [step.weight for step in steps] == [1 for _ in steps]
