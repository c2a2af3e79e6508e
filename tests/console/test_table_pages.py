"""Every page of facts is also JSON, CSV and Arrow, for those who may see the page."""

from __future__ import annotations

import csv
import io
from urllib.parse import urlencode

import pyarrow as pa
import pytest

from tests.console.page_visitors import PageVisitor, visit
from tests.datasets.served_clinic import BY_WARD, COUNT

QUESTION = urlencode({"sql": BY_WARD, "amount": "0.25"})
TABLES = {
    "/datasets": "",
    "/datasets/clinic/tables": "",
    "/datasets/clinic/ask": QUESTION,
    "/datasets/clinic/budget": "",
    "/datasets/clinic/history": "words=visits",
    "/datasets/clinic/register": "",
    "/datasets/clinic/about": "",
    "/datasets/clinic/users": "",
}


@pytest.fixture(scope="module")
def asked(shared):
    visit(shared, "steward").ask(COUNT, "0.5")
    return shared


@pytest.mark.parametrize("page", TABLES)
def test_a_page_is_the_same_table_in_three_formats_and_costs_nothing(asked, page):
    visitor = visit(asked, "steward")
    spent = asked.read_spent()
    replies = {
        kind: visitor.get(f"{page}.{kind}?{TABLES[page]}") for kind in ("json", "csv", "arrow")
    }
    for reply in replies.values():
        assert reply.status_code == 200, reply.text
        assert reply.headers["cache-control"] == "no-store"
        assert reply.headers["content-disposition"].startswith("attachment")
    rows = replies["json"].json()["rows"]
    assert rows
    table = pa.ipc.open_stream(replies["arrow"].content).read_all()
    assert table.num_rows == len(rows)
    if page != "/datasets/clinic/users":  # every visitor is a token more
        assert table.to_pylist() == rows
    lines = list(csv.DictReader(io.StringIO(replies["csv"].text)))
    assert [set(line) for line in lines] == [set(row) for row in rows]
    assert asked.read_spent() == spent


@pytest.mark.parametrize(
    "page", ["/datasets", "/datasets/clinic/budget", "/datasets/clinic/register"]
)
def test_a_page_names_its_files(asked, page):
    text = visit(asked, "steward").get(page).text
    for kind in ("json", "csv", "arrow"):
        assert f'href="{page}.{kind}"' in text


@pytest.mark.parametrize("page", TABLES)
def test_no_table_is_for_strangers_or_for_those_without_the_role(asked, page):
    stranger = PageVisitor(asked.address).get(f"{page}.json?{TABLES[page]}")
    assert stranger.url.path == "/login"
    analyst = visit(asked, name="cid").get(f"{page}.json?{TABLES[page]}")
    assert analyst.status_code == (403 if page.endswith("users") else 200)


def test_a_refusal_is_a_table_with_its_place(asked):
    query = urlencode({"sql": "SELECT wrd FROM visits"})
    rows = visit(asked).get(f"/datasets/clinic/ask.json?{query}").json()["rows"]
    assert rows[0]["at"] == "wrd" and "did you mean ward" in rows[0]["refused"]


def test_a_formula_in_a_question_is_text_in_a_spreadsheet(asked):
    visitor = visit(asked)
    visitor.ask(f"{COUNT} -- =1+1", "0.5")
    text = visitor.get("/datasets/clinic/history.csv").text
    for row in csv.reader(io.StringIO(text)):
        assert not any(cell.startswith(("=", "+", "@", "\t")) for cell in row)
