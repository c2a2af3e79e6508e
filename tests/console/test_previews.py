"""What is shown before paying is a function of catalog, question and paid releases (rule P49)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

import httpx
import pytest

from dither.curator.schedule import Schedule
from dither.privacy.kernel.kernel import Kernel
from tests.console.page_visitors import PLAIN, PageVisitor, serving_rows, visit
from tests.datasets import clinic
from tests.datasets.served_clinic import BY_WARD, COUNT, ServedClinic

FEW = [clinic.row("1", "1")]
MANY = [
    clinic.row(str(i), str(i % 30), ward=("north", "south", "east")[i % 3], cost=f"{i}.25")
    for i in range(150)
]
QUESTIONS = (
    COUNT,
    BY_WARD,
    "SELECT SUM(cost) AS s, MEDIAN(age) AS m FROM visits WHERE urgent",
    "SELECT DISTINCT ward FROM visits",
    "SELECT wrd, COUNT(*) FROM visits GROUP BY wrd",
    "SELECT * FROM visits",
)
PAGES = (
    *("budget", "about", "register", "history", "tables.json", "budget.json", "register.csv"),
    *("history.json", "about.json"),
)
PAID = (COUNT, BY_WARD, "SELECT QUANTILE(age, 0.9) AS q FROM visits")
MOMENT = "2026-03-01T12:00:00+00:00"


@pytest.fixture(scope="module")
def twins(tmp_path_factory):
    """Two clinics with one catalog and other rows."""
    with (
        serving_rows(tmp_path_factory.mktemp("few"), FEW) as few,
        serving_rows(tmp_path_factory.mktemp("many"), MANY) as many,
    ):
        yield few, many


def remove_tokens(text: str) -> str:
    """A page without what is drawn for each browser or release: tokens, keys and ids."""
    return re.sub(r"\b(?:[0-9a-f]{16}|[0-9a-f]{32,64})\b", "", text)


def list_pages(visitor: PageVisitor) -> list[str]:
    """All that a visitor can see before paying."""
    pages = [visitor.get(f"/datasets{path}") for path in ("", "/clinic")]
    pages += [visitor.get(f"/datasets/clinic/{name}") for name in PAGES]
    for sql in QUESTIONS:
        for terms in ({"amount": "0.3"}, {"by": "within", "amount": "40"}, {"group_size": "50"}):
            fields = {"sql": sql, **terms}
            pages.append(visitor.get(f"/datasets/clinic/ask?{urlencode(fields)}"))
    fields = {"sql": BY_WARD, "amount": "0.3"}
    pages.append(visitor.post("/datasets/clinic/preview", fields))
    pages.append(visitor.post("/datasets/clinic/confirm", fields))
    assert {page.status_code for page in pages} == {200}
    return [remove_tokens(page.text) for page in pages]


def test_every_page_before_paying_is_the_same_whatever_the_rows(twins):
    few, many = (list_pages(visit(served)) for served in twins)
    assert len(few) == len(many) > 20
    for one_page, twin_page in zip(few, many, strict=True):
        assert one_page == twin_page
    assert any("± " in page for page in few)


def test_the_pages_do_differ_with_what_was_paid_for(twins):
    """The comparison above can fail: an answer and its balance tell the two apart."""
    answer = visit(twins[0]).ask(COUNT, "1")
    assert "The answer" in answer.text
    budgets = [remove_tokens(visit(served).get("/datasets/clinic/budget").text) for served in twins]
    assert budgets[0] != budgets[1]


@pytest.fixture
def paid_twins(tmp_path, monkeypatch) -> Iterator[list[ServedClinic]]:
    """Two clinics with one catalog, other rows and the same releases at the same time.

    The second is given the numbers that were released from the first.
    """
    released: dict[str, Any] = {}
    randomise = Kernel.randomise

    def randomise_once(kernel, priced, exact):
        values = randomise(kernel, priced, exact)
        return released.setdefault(repr(priced.request), values)

    monkeypatch.setattr(Kernel, "randomise", randomise_once)
    monkeypatch.setattr(Schedule, "read_clock", lambda schedule: MOMENT)
    with (
        serving_rows(tmp_path / "few", FEW) as few,
        serving_rows(tmp_path / "many", MANY) as many,
    ):
        for served in (few, many):
            visitor = visit(served)
            for sql in PAID:
                assert "The answer" in visitor.ask(sql, "1").text
        assert len(released) == len(PAID)
        yield [few, many]


def list_replies(served: ServedClinic) -> list[str]:
    """What programs are told before paying: previews, plans and suggestions."""
    headers = {"authorization": f"Bearer {served.make_token()}"}
    replies = []
    with httpx.Client(base_url=served.address, headers=headers, timeout=60, **PLAIN) as client:
        for sql in (*QUESTIONS, *PAID):
            for act in ("preview", "explain"):
                body = {"sql": sql, "epsilon": "1"}
                replies.append(client.post(f"/api/v1/datasets/clinic/{act}", json=body))
        replies += [
            client.get(f"/api/v1/datasets/clinic{path}") for path in ("", "/budget", "/history")
        ]
        bought = {"what": "rows_per_unit", "of": "visits", "epsilon": "1"}
        replies.append(client.post("/api/v1/datasets/clinic/suggest", json=bought))
        assert replies[-1].status_code == 200, replies[-1].text
    return [f"{reply.status_code} {remove_tokens(reply.text)}" for reply in replies]


def test_every_page_is_the_same_where_releases_are_the_same(paid_twins):
    """Stored answers, balances and forecasts follow from releases, and from no row."""
    few, many = ([*list_pages(visit(twin)), *list_replies(twin)] for twin in paid_twins)
    assert any("Asked before" in page or "stored" in page for page in few)
    for one_page, twin_page in zip(few, many, strict=True):
        assert one_page == twin_page
    for path in ("answer", "answer.csv", "answer.json"):
        query = urlencode({"sql": BY_WARD, "amount": "1"})
        answers = [visit(twin).get(f"/datasets/clinic/{path}?{query}") for twin in paid_twins]
        assert {answer.status_code for answer in answers} == {200}
        texts = [
            remove_tokens(answer.text).replace(twin.address, "")
            for answer, twin in zip(answers, paid_twins, strict=True)
        ]
        assert texts[0] == texts[1]
