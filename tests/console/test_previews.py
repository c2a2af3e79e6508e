"""What is shown before paying is a function of catalog, question and paid releases (rule P49)."""

from __future__ import annotations

import re
from urllib.parse import urlencode

import pytest

from tests.console.page_visitors import PageVisitor, serving_rows, visit
from tests.datasets import clinic
from tests.datasets.served_clinic import BY_WARD, COUNT

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


@pytest.fixture(scope="module")
def twins(tmp_path_factory):
    """Two clinics with one catalog and other rows."""
    with (
        serving_rows(tmp_path_factory.mktemp("few"), FEW) as few,
        serving_rows(tmp_path_factory.mktemp("many"), MANY) as many,
    ):
        yield few, many


def remove_tokens(text: str) -> str:
    """A page without what is drawn for each browser: tokens of forms and of asks."""
    return re.sub(r"\b[0-9a-f]{32,64}\b", "", text)


def list_pages(visitor: PageVisitor) -> list[str]:
    """All that a visitor can see before paying."""
    pages = [visitor.get(f"/datasets{path}") for path in ("", "/clinic")]
    pages += [visitor.get(f"/datasets/clinic/{name}") for name in ("budget", "about", "register")]
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
