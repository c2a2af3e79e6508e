"""Budget, history, register and the guarantee in frequencies: what each visitor is shown."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from fractions import Fraction

import pytest

from dither.answer.history import PaidRelease
from dither.console.budget_page import NO_FORECAST, forecast_end
from dither.console.pages import make_pages
from dither.console.register_pages import list_frequencies
from dither.console.settings import ConsoleSettings, read_register_tokens
from dither.errors import ParameterError
from dither.publish.interpret import interpret
from tests.console.page_visitors import PageVisitor, visit
from tests.datasets.served_clinic import BY_WARD, COUNT, running_gateway

NOW = datetime(2026, 6, 30, 12, tzinfo=UTC)


def make_release(days_ago: float, charged: str) -> PaidRelease:
    time = (NOW - timedelta(days=days_ago)).isoformat()
    amount = Fraction(charged)
    return PaidRelease("0" * 16, time, 1, "count", amount, Fraction(0), "epsilon", None, "person")


def test_a_forecast_is_what_is_left_over_the_pace_of_thirty_days():
    """Four days of June hold 1 in all, so 0.25 a day: 2 lasts 8 days. Older ones do not count."""
    releases = [make_release(3, "1/2"), make_release(1, "1/2"), make_release(200, "50")]
    assert "about 8 more days" in forecast_end(Fraction(2), releases, NOW)
    assert forecast_end(Fraction(2), releases[:1], NOW) == NO_FORECAST
    assert forecast_end(Fraction(0), releases, NOW) == "It is empty."


@pytest.mark.parametrize(("epsilon", "prior", "after"), [(1, 50, 74), (1, 10, 24), (1, 1, 3)])
def test_frequencies_are_posteriors_of_a_hundred_rounded_up(epsilon, prior, after):
    """Bayes: odds grow by e^epsilon; e/(1+e) = 0.7311, 0.2320 and 0.0267, rounded up."""
    meaning = interpret(epsilon, 0, unit="person", neighbours="add_remove")
    frequencies = {entry.before: entry.after for entry in list_frequencies(meaning)}
    assert frequencies[prior] == after


def test_the_budget_shows_balances_purpose_and_promise(shared):
    visitor = visit(shared)
    visitor.ask(COUNT, "1")
    page = visitor.get("/datasets/clinic/budget")
    for words in ("left of 1000", "whatever is asked", "How busy are the two wards?"):
        assert words in page.text
    assert 'role="img" aria-label="total: ' in page.text.replace("'", '"')


def test_history_is_filtered_and_leads_to_the_answer_and_its_certificate(shared):
    visitor = visit(shared)
    answer = visitor.ask(BY_WARD, "1")
    spent = shared.read_spent()
    page = visitor.get("/datasets/clinic/history?words=AVG+ward")
    assert "AVG(cost)" in page.text and page.text.count("<tr>") == 2
    link = page.text.split('href="/datasets/clinic/answer?')[1].partition('"')[0]
    again = visitor.get(f"/datasets/clinic/answer?{link.replace('&amp;', '&')}")
    assert again.url.path.endswith("/answer") and "north" in again.text
    certificate = visitor.get(f"/datasets/clinic/certificate?{answer.url.query.decode()}")
    assert "As signed: no field was changed" in certificate.text
    assert "No answer has these words" in visitor.get("/datasets/clinic/history?words=zzz").text
    assert shared.read_spent() == spent


def test_a_pasted_certificate_is_checked_and_a_changed_one_is_told_apart(shared):
    visitor = visit(shared)
    query = visitor.ask(COUNT, "1").url.query.decode()
    text = visitor.get(f"/datasets/clinic/answer.certificate?{query}").text
    stranger = PageVisitor(shared.address)
    assert "As signed" in stranger.post("/verify", {"certificate": text}).text
    changed = text.replace('"person"', '"row"', 1)
    assert changed != text
    page = stranger.post("/verify", {"certificate": changed}).text
    assert "Not as signed" in page and "As signed" not in page
    other_key = {"certificate": text, "key": "0" * 64}
    assert "signed by another key" in stranger.post("/verify", other_key).text
    assert "64 hex digits" in stranger.post("/verify", {**other_key, "key": "xyz"}).text


def test_the_register_is_for_signed_in_visitors_unless_it_is_opened(shared):
    stranger = PageVisitor(shared.address)
    for name in ("register", "about"):
        assert stranger.get(f"/datasets/clinic/{name}").url.path == "/login"


def test_an_open_register_shows_parameters_and_neither_texts_nor_values(served):
    sql = "SELECT COUNT(*) AS secret_name FROM visits WHERE age > 57"
    answer = visit(served).ask(sql, "1")
    assert "secret_name" in answer.text
    auditor = served.make_token("zoe", "auditor", ())
    pages = make_pages(ConsoleSettings(register_tokens={"clinic": auditor}))
    with running_gateway(served.socket, pages) as address:
        stranger = PageVisitor(address)
        page = stranger.get("/datasets/clinic/register")
        assert page.url.path.endswith("/register") and page.status_code == 200
        assert "count from visits" in page.text and "epsilon 1, delta 0" in page.text
        assert "How busy are the two wards?" in page.text
        assert "secret_name" not in page.text and "57" not in page.text
        assert auditor not in page.text and "zoe" not in page.text
        about = stranger.get("/datasets/clinic/about")
        assert "at most" in about.text and "of 100" in about.text
        for name in ("ask", "budget", "history", "steward"):
            assert stranger.get(f"/datasets/clinic/{name}").url.path == "/login"
        assert stranger.get("/datasets/clinic").text.count("Open the link") >= 1


def test_lines_of_register_tokens_have_a_dataset_and_a_token():
    assert read_register_tokens("a x\n\nb y\n") == {"a": "x", "b": "y"}
    with pytest.raises(ParameterError):
        read_register_tokens("a\n")
