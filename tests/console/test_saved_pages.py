"""Saved questions in pages: kept by the curator, opened for free, and harmless as texts."""

from __future__ import annotations

import re
from html import unescape

import pytest

from tests.console.page_visitors import PageVisitor, visit
from tests.datasets.served_clinic import COUNT

SAVE = "/datasets/clinic/questions"
MARKUP = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>"


def save(visitor: PageVisitor, name: str, sql: str = COUNT, **more: str):
    fields = {"sql": sql, "by": "epsilon", "amount": "0.3", "question_name": name}
    return visitor.post(SAVE, {**fields, **more})


def list_links(text: str) -> dict[str, str]:
    """The links to saved questions of a page, by their names."""
    saved = text.partition('<ul class="saved">')[2].partition("</ul>")[0]
    pairs = re.findall(r'<h2><a href="([^"]+)">([^<]*)</a>', saved)
    return {unescape(name): unescape(link) for link, name in pairs}


def test_a_saved_question_opens_with_its_price_and_is_removed(served):
    visitor = visit(served)
    page = save(visitor, "  visits  in all ")
    link = list_links(page.text)["visits in all"]
    opened = visitor.get(link)
    assert "What it will cost" in opened.text and "COUNT(*) AS n" in opened.text
    assert served.read_spent() == 0
    page = visitor.post(f"{SAVE}/remove", {"question_name": "visits in all"})
    assert list_links(page.text) == {}


def test_a_shared_question_is_seen_by_those_of_the_same_budget(served):
    save(visit(served, name="ann"), "ours", is_shared="yes")
    save(visit(served, name="ann"), "mine")
    bob = visit(served, name="bob")
    page = bob.get("/datasets/clinic/questions")
    assert set(list_links(page.text)) == {"ours"} and "shared by ann" in page.text
    assert 'aria-label="Remove ours"' not in page.text
    refused = bob.post(f"{SAVE}/remove", {"question_name": "ours"})
    assert refused.status_code == 400
    assert set(list_links(visit(served, name="ann").get("/datasets/clinic/questions").text)) == {
        "mine",
        "ours",
    }


def test_markup_in_names_and_texts_stays_text(served):
    visitor = visit(served)
    page = save(visitor, MARKUP[:100], sql=f"{COUNT} WHERE ward = 'x' -- {MARKUP}", is_shared="yes")
    for shown in (page.text, visit(served, name="bob").get("/datasets/clinic/questions").text):
        assert "<script>alert" not in shown and "<img" not in shown
        assert MARKUP[:100] in list_links(shown)


@pytest.mark.parametrize("name", ["", " ", "x" * 101, "a\u202eb"])
def test_a_question_needs_a_plain_name(served, name):
    assert save(visit(served), name).status_code == 400


def test_a_form_of_another_site_saves_nothing(served):
    visitor = visit(served)
    fields = {"sql": COUNT, "question_name": "planted", "form_token": "0" * 64}
    assert visitor.client.post(SAVE, data=fields).status_code == 403
    sent = {**fields, "form_token": visitor.read_form_token()}
    headers = {"origin": "https://evil.example"}
    assert visitor.client.post(SAVE, data=sent, headers=headers).status_code == 403
    assert list_links(visitor.get("/datasets/clinic/questions").text) == {}
