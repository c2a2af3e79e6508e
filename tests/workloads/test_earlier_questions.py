"""Questions in SQL that earlier releases answer: at no new loss, no worse, and said so."""

from __future__ import annotations

from typing import Any

import pytest

from dither.data.measure import Measurer
from dither.publish.seal import check, write_certificate
from dither.workloads import identity, prefixes
from dither.workloads.earlier_question import EarlierResult
from tests.workloads.conftest import Survey

BY_SEX = "SELECT sex, COUNT(*) AS n FROM survey GROUP BY sex"


def test_a_question_is_answered_from_a_workload_without_data_or_charge(
    survey: Survey, monkeypatch: pytest.MonkeyPatch
) -> None:
    con = survey.connect("pure")
    first = con.workload(identity("age", "sex"), table="survey", epsilon=1).answer()
    spent = survey.read_spent()

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("data was read")

    monkeypatch.setattr(Measurer, "measure", refuse)
    preview = con.preview(BY_SEX, epsilon="0.1")
    assert preview.earlier is not None and not preview.stored
    assert "answered from earlier releases" in str(preview)
    result = con.sql(BY_SEX, epsilon="0.1")
    assert isinstance(result, EarlierResult) and survey.read_spent() == spent
    assert result.info["sources"] == [first.info["release_id"]] == [*preview.earlier.release_ids]
    assert "answered from earlier releases" in str(result)
    assert result.info["charges"] == {} and not {"pot_spent_after", "pot_cap"} & {*result.info}
    cells = first.answer(first.products[0]).reshape(16, 2).sum(axis=0)
    table = result.to_dict()
    assert table["sex"] == ["f", "m"] and table["n"] == pytest.approx(cells.tolist())
    variance = 16 * 2 * 2**2  # sixteen cells of Laplace noise of scale 2
    assert preview.earlier.standard_error == pytest.approx(variance**0.5, rel=0.02)
    assert all(low < n < high for n, low, high in zip(*list(table.values())[1:], strict=True))
    narrow = result.interval(0.5).to_dict()
    assert narrow["n"] == table["n"] and narrow["n_high"][0] < table["n_high"][0]
    assert min(result.nonnegative().to_dict()["n"]) >= 0 and result.consistent() is result


def test_its_certificate_names_sources_and_their_loss(survey: Survey) -> None:
    con = survey.connect("pure")
    con.workload(identity("age", "sex"), table="survey", epsilon=1).answer()
    result = con.sql(BY_SEX, epsilon="0.1")
    certificate = result.certificate()
    body = certificate["body"]
    assert check(write_certificate(certificate), []).problems == ()
    assert body["guarantee"]["epsilon"] == "1" and "no new loss" in body["guarantee"]["stated"]
    assert body["release"]["id"] == f"derived from {result.info['sources'][0]}"
    assert any("answered from earlier releases" in step for step in body["post_processing"])


def test_a_worse_answer_is_not_taken(survey: Survey) -> None:
    """Sixteen cells at epsilon 1 err four times as much as one count by sex at epsilon 1."""
    con = survey.connect("pure")
    con.workload(identity("age", "sex"), table="survey", epsilon=1).answer()
    assert con.preview(BY_SEX, epsilon=1).earlier is None
    result = con.sql(BY_SEX, epsilon=1)
    assert "sources" not in result.info and survey.read_spent() == 2


def test_fresh_measures_anew_and_the_stored_answer_stays_first(survey: Survey) -> None:
    con = survey.connect("pure")
    con.sql(BY_SEX, epsilon=1)
    lower = con.sql(BY_SEX, epsilon="0.5")
    assert isinstance(lower, EarlierResult) and survey.read_spent() == 1
    fresh = con.sql(BY_SEX, epsilon="0.5", fresh=True)
    assert not isinstance(fresh, EarlierResult) and survey.read_spent() == pytest.approx(1.5)
    again = con.sql(BY_SEX, epsilon="0.5")
    assert again.to_dict() == fresh.to_dict() and con.preview(BY_SEX, epsilon="0.5").stored


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT sex, COUNT(*) AS n FROM survey WHERE age < 9 GROUP BY sex",
        "SELECT sex, COUNT(DISTINCT person) AS n FROM survey GROUP BY sex",
        "SELECT sex, COUNT(*) AS n, SUM(cost) AS s FROM survey GROUP BY sex",
        "SELECT sex, COUNT(*) AS n FROM survey GROUP BY sex HAVING COUNT(*) > 3",
        "SELECT sex, COUNT(*) AS n FROM survey GROUP BY sex ORDER BY n LIMIT 1",
        "SELECT AVG(cost) AS mean FROM survey",
        "SELECT sex, SUM(cost) AS n FROM survey GROUP BY sex",
        "SELECT area, COUNT(*) AS n FROM survey GROUP BY area",
    ],
)
def test_other_questions_are_measured(survey: Survey, sql: str) -> None:
    con = survey.connect("pure")
    con.workload(identity("age", "sex"), table="survey", epsilon=100).answer()
    assert con.preview(sql, epsilon="0.1").earlier is None
    con.sql(sql, epsilon="0.1")
    assert survey.read_spent() > 100


def test_sums_answer_sums(survey: Survey) -> None:
    con = survey.connect("pure")
    sums = con.workload(
        prefixes("age"), table="survey", aggregate="SUM(cost) AS s", epsilon=100
    ).answer()
    spent = survey.read_spent()
    result = con.sql("SELECT SUM(cost) AS s FROM survey", epsilon="0.1")
    assert isinstance(result, EarlierResult) and survey.read_spent() == spent
    assert result.to_dict()["s"] == pytest.approx([sums.answer(sums.products[0])[-1]])


def test_one_number_answers_itself_at_a_lower_price(survey: Survey) -> None:
    con = survey.connect("pure")
    first = con.sql("SELECT COUNT(*) AS n FROM survey", epsilon=1)
    result = con.sql("SELECT COUNT(*) AS n FROM survey", epsilon="0.5")
    assert isinstance(result, EarlierResult) and survey.read_spent() == 1
    assert result.to_dict()["n"] == pytest.approx(first.to_dict()["n"])
