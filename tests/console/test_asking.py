"""Asking in the console: looking never spends, paying needs our form and a confirmed price."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
import zipfile
from fractions import Fraction
from html import unescape
from urllib.parse import urlencode

import pyarrow as pa
import pytest

from dither.console.pages import make_pages
from dither.console.settings import ConsoleSettings
from dither.publish.commitment import commitment
from dither.publish.seal import check
from tests.case_lists import mark_between
from tests.console.page_visitors import FORM_TOKEN, PageVisitor, pick, read_hidden, visit
from tests.curator.test_other_pots import apart
from tests.datasets.served_clinic import BY_WARD, COUNT, running_gateway

__all__ = ["apart"]
FILES = ("csv", "json", "arrow", "certificate", "zip")


def write_query(sql: str, amount: str = "0.5", **more: str) -> str:
    return urlencode({"sql": sql, "by": "epsilon", "amount": amount, **more})


def test_a_question_is_previewed_confirmed_paid_and_shown(shared):
    visitor = visit(shared)
    spent = shared.read_spent()
    page = visitor.get(f"/datasets/clinic/ask?{write_query(BY_WARD)}")
    assert "epsilon 0.5" in page.text and "of what is left" in page.text.lower()
    assert shared.read_spent() == spent
    answer = visitor.ask(BY_WARD)
    assert answer.url.path == "/datasets/clinic/answer" and "north" in answer.text
    assert "Paid: epsilon 0.5, delta 0, for one person" in answer.text
    assert shared.read_spent() == spent + Fraction(1, 2)
    again = visitor.get(str(answer.url))
    assert "The answer" in again.text and shared.read_spent() == spent + Fraction(1, 2)


def test_no_page_and_no_file_that_is_fetched_spends(shared):
    """A shared link, a prefetch and a download are GET: they show what is stored, or the price."""
    visitor = visit(shared)
    spent = shared.read_spent()
    query = write_query("SELECT COUNT(*) AS never_asked FROM visits", "0.25")
    pages = [f"/datasets/clinic/answer?{query}", f"/datasets/clinic/certificate?{query}"]
    pages += [f"/datasets/clinic/answer.{kind}?{query}" for kind in FILES]
    pages += [f"/datasets/clinic/{name}?{query}" for name in ("ask", "budget", "history")]
    for path in pages:
        visitor.get(path)
        assert shared.read_spent() == spent, path
    shown = visitor.get(f"/datasets/clinic/answer?{query}")
    assert shown.url.path == "/datasets/clinic/ask"
    for path in ("ask", "confirm", "rehearse", "preview", "steward/submit"):
        assert visitor.get(f"/datasets/clinic/{path}?{query}&confirmed=yes").status_code in (
            200,
            404,
            405,
        )
    assert shared.read_spent() == spent


@pytest.mark.parametrize(
    ("fields", "headers"),
    [
        ({"form_token": ""}, {}),
        ({"form_token": "0" * 64}, {}),
        ({}, {"origin": "https://evil.example"}),
        ({}, {"origin": "null"}),
        ({}, {"sec-fetch-site": "cross-site"}),
        ({}, {"sec-fetch-site": "same-site"}),
        ({}, {"content-type": "text/plain"}),
        ({}, {"content-type": "multipart/form-data; boundary=x"}),
    ],
)
def test_a_form_of_another_site_spends_nothing(shared, fields, headers):
    visitor = visit(shared)
    spent = shared.read_spent()
    sent = {"sql": COUNT, "by": "epsilon", "amount": "0.25"}
    page = visitor.post("/datasets/clinic/confirm", sent)
    confirmed = pick(read_hidden(page.text), "confirmed", "ask_key", "form_token")
    whole = {**sent, **confirmed, **fields}
    refused = visitor.client.post("/datasets/clinic/ask", data=whole, headers=headers)
    assert refused.status_code in (400, 403) and shared.read_spent() == spent


def test_the_token_of_another_visitor_s_form_is_refused(shared):
    eve = visit(shared, name="eve")
    alice = visit(shared)
    spent = shared.read_spent()
    sent = {"sql": COUNT, "by": "epsilon", "amount": "0.25"}
    hidden = read_hidden(eve.post("/datasets/clinic/confirm", sent).text)
    refused = alice.client.post("/datasets/clinic/ask", data={**sent, **hidden})
    assert refused.status_code == 403 and shared.read_spent() == spent


@pytest.mark.parametrize("confirmed", ["", "epsilon 0.1 0", "yes"])
def test_without_the_price_that_was_shown_nothing_is_paid(shared, confirmed):
    visitor = visit(shared)
    spent = shared.read_spent()
    fields = {"sql": COUNT, "by": "epsilon", "amount": "0.75", "confirmed": confirmed}
    page = visitor.post("/datasets/clinic/ask", fields)
    assert "Pay for this answer?" in page.text and shared.read_spent() == spent


def test_a_double_click_buys_one_answer(shared):
    visitor = visit(shared)
    fields = {"sql": COUNT, "by": "epsilon", "amount": "0.125"}
    hidden = read_hidden(visitor.post("/datasets/clinic/confirm", fields).text)
    spent = shared.read_spent()
    paths = {visitor.client.post("/datasets/clinic/ask", data=hidden).url.path for _ in range(2)}
    assert paths == {"/datasets/clinic/answer"} and shared.read_spent() == spent + Fraction(1, 8)


def test_an_accuracy_is_bought_at_the_least_price(shared):
    visitor = visit(shared)
    fields = {"sql": COUNT, "by": "within", "amount": "50"}
    page = visitor.post("/datasets/clinic/confirm", fields)
    assert read_hidden(page.text)["by"] == "epsilon" and "± 50" in page.text
    answer = visitor.client.post("/datasets/clinic/ask", data=read_hidden(page.text))
    assert answer.url.path == "/datasets/clinic/answer" and "The answer" in answer.text


def test_a_rehearsal_is_free_and_says_that_it_is_about_nobody(shared):
    visitor = visit(shared)
    spent = shared.read_spent()
    page = visitor.post("/datasets/clinic/rehearse", {"sql": BY_WARD, "amount": "0.5"})
    assert "about nobody" in page.text and shared.read_spent() == spent
    assert "answer.csv" not in page.text


def test_files_hold_the_numbers_of_the_page_and_their_certificate(shared):
    visitor = visit(shared)
    query = visitor.ask(BY_WARD, "2").url.query.decode()
    files = {kind: visitor.get(f"/datasets/clinic/answer.{kind}?{query}") for kind in FILES}
    assert {file.status_code for file in files.values()} == {200}
    assert all(file.headers["cache-control"] == "no-store" for file in files.values())
    counts = json.loads(files["json"].text)["columns"]["n"]
    rows = list(csv.reader(io.StringIO(files["csv"].text)))
    assert [int(row[rows[0].index("n")]) for row in rows[1:]] == counts
    table = pa.ipc.open_stream(io.BytesIO(files["arrow"].content)).read_all()
    assert table.column("n").to_pylist() == counts
    assert check(files["certificate"].text).intact
    with zipfile.ZipFile(io.BytesIO(files["zip"].content)) as archive:
        opening = json.loads(archive.read("answer.json"))
        signed = check(archive.read("certificate.json").decode())
        assert b"dither verify" in archive.read("README.txt")
    assert opening["columns"]["n"] == counts
    promised = commitment(opening["columns"], opening["nonce"])
    assert signed.body["values"]["commitment"] == promised


def test_the_preview_while_typing_needs_a_form_token_and_keeps_the_question_in_the_address(shared):
    visitor = visit(shared)
    spent = shared.read_spent()
    fields = {"sql": COUNT, "by": "epsilon", "amount": "0.5"}
    token = FORM_TOKEN.search(visitor.get("/verify").text)[1]
    live = visitor.client.post(
        "/datasets/clinic/preview", data=fields, headers={"x-form-token": token}
    )
    assert live.status_code == 200 and "<html" not in live.text
    assert live.headers["hx-replace-url"].startswith("/datasets/clinic/ask?sql=SELECT")
    assert "form_token" not in live.headers["hx-replace-url"]
    assert visitor.client.post("/datasets/clinic/preview", data=fields).status_code == 403
    assert shared.read_spent() == spent


@pytest.mark.parametrize(
    ("sql", "rewritten"),
    mark_between(
        [
            ("SELECT wrd, COUNT(*) AS n FROM visits GROUP BY wrd", "SELECT ward, COUNT(*) AS n"),
            ("SELECT * FROM visits", "SELECT COUNT(*) AS n FROM visits"),
            ("SELECT ward FROM visits", "GROUP BY ward"),
            ("SELECT cost FROM visits", "SELECT AVG(cost) FROM visits"),
        ],
        step=2,
    ),
)
def test_a_refusal_stands_at_its_place_with_a_rewrite_that_is_answered(shared, sql, rewritten):
    visitor = visit(shared)
    page = visitor.get(f"/datasets/clinic/ask?{urlencode({'sql': sql})}")
    assert "<mark>" in page.text and "Click to write it so" in page.text
    assert rewritten in page.text.split("Click to write it so")[1]


def test_named_parameters_become_fields_and_their_values_stay_literals(shared):
    visitor = visit(shared)
    sql = "SELECT COUNT(*) AS n FROM visits WHERE ward = :place AND age > :years"
    query = urlencode({"sql": sql, "p_place": "north' OR 'a'='a", "p_years": "30"})
    page = visitor.get(f"/datasets/clinic/ask?{query}")
    assert 'name="p_place"' in page.text and 'name="p_years"' in page.text
    assert "no declared label" in page.text and "north&#39;&#39; OR" in page.text
    spent = shared.read_spent()
    answer = visitor.ask(sql, "0.5", p_place="north", p_years="30")
    assert answer.url.path == "/datasets/clinic/answer" and "p_years=30" in str(answer.url)
    assert shared.read_spent() == spent + Fraction(1, 2)


def test_the_form_writes_sql_from_names_of_the_catalog_alone(shared):
    visitor = visit(shared)
    choices = {"table": "visits", "aggregate": "AVG", "column": "cost", "group": "ward"}
    filtered = {"filter_column": "ward", "test": "=", "value": "it's"}
    page = visitor.get(f"/datasets/clinic/build?{urlencode({**choices, **filtered})}")
    assert page.url.path == "/datasets/clinic/ask" and "AVG(cost) AS avg_cost" in page.text
    assert "WHERE ward = &#39;it&#39;&#39;s&#39;" in page.text
    hostile = {**choices, "column": "cost) FROM visits; --"}
    assert visitor.get(f"/datasets/clinic/build?{urlencode(hostile)}").status_code == 400


def test_a_drained_pot_is_refused_kindly_and_for_free(served):
    visitor = visit(served)
    visitor.ask(COUNT, "9")
    spent = served.read_spent()
    assert spent > 8
    page = visitor.get(f"/datasets/clinic/ask?{write_query(BY_WARD, '2')}")
    assert "The budget cannot pay this" in page.text and "Ask for" not in page.text
    fields = {"sql": BY_WARD, "by": "epsilon", "amount": "2", "confirmed": "epsilon 2 0"}
    refused = visitor.post("/datasets/clinic/ask", fields)
    assert refused.status_code == 402 and served.read_spent() == spent


def test_a_question_over_answers_is_paid_once_and_shown_again_for_free(shared):
    visitor = visit(shared)
    sql = "SELECT ward, COUNT(*) AS n, SUM(COUNT(*)) OVER () AS t FROM visits GROUP BY ward"
    spent = shared.read_spent()
    answer = visitor.ask(sql, "3")
    assert answer.url.path == "/datasets/clinic/answer" and "The answer" in answer.text
    assert shared.read_spent() == spent + 3
    assert "The answer" in visitor.get(str(answer.url)).text
    assert shared.read_spent() == spent + 3


def test_declared_keys_are_free_and_never_paid_for(shared):
    visitor = visit(shared)
    spent = shared.read_spent()
    query = write_query("SELECT DISTINCT ward FROM visits")
    assert "Nothing: these keys are declared" in visitor.get(f"/datasets/clinic/ask?{query}").text
    page = visitor.get(f"/datasets/clinic/answer?{query}")
    assert "north" in page.text and shared.read_spent() == spent


@pytest.mark.parametrize("copied", ["Python", "curl", "R"])
def test_what_is_copied_holds_the_question_and_no_token(shared, copied):
    token = shared.make_token()
    visitor = PageVisitor(shared.address).sign_in(token)
    answer = visitor.ask(COUNT, "0.5")
    text = answer.text.split(f"The same in {copied}</summary>")[1].partition("</pre>")[0]
    assert "SELECT COUNT(*) AS n FROM visits" in text and "DITHER_TOKEN" in text
    assert token not in answer.text


PROGRAMS = {
    "Python": (sys.executable, "-c"),
    "curl": ("bash", "-c"),
    "R": ("Rscript", "-e", "answer <- eval(parse(text = commandArgs(TRUE))); str(answer)"),
}


@pytest.mark.parametrize("name", ["Python", "curl", pytest.param("R", marks=pytest.mark.all)])
def test_what_is_copied_runs_and_is_given_the_stored_answer(shared, name):
    """It runs as it stands, with values that are texts, quotes and decimals."""
    token = shared.make_token()
    visitor = PageVisitor(shared.address).sign_in(token)
    sql = 'SELECT COUNT(*) AS n FROM visits /* o\'brien "$HOME" */ WHERE ward <> :w AND cost > :c'
    page = visitor.ask(sql, "0.5", p_w="north", p_c="1.5", confidence="0.9")
    spent = shared.read_spent()
    environment = {**os.environ, "DITHER_TOKEN": token}
    copied = page.text.split(f'aria-label="The same in {name}">')[1].partition("</pre>")[0]
    ran = subprocess.run(
        [*PROGRAMS[name], unescape(copied)], env=environment, capture_output=True, text=True
    )
    assert ran.returncode == 0 and "n" in ran.stdout, ran.stderr
    assert "problem" not in ran.stdout and "confidence" in copied
    assert shared.read_spent() == spent


def test_another_group_s_answer_is_offered_at_its_price_and_never_shown_before(apart):
    """Under separate budgets a stored answer is sold: looking shows its price, not its values."""
    with running_gateway(apart.socket, make_pages(ConsoleSettings())) as address:
        board = PageVisitor(address).sign_in(apart.make_token("ann", pots=("board",)))
        paid = board.ask(COUNT, "1", pot="board")
        assert "The answer" in paid.text
        press = PageVisitor(address).sign_in(apart.make_token("eve", pots=("press",)))
        query = paid.url.query.decode().replace("board", "press")
        page = press.get(f"/datasets/clinic/answer?{query}")
        assert page.url.path == "/datasets/clinic/ask" and "Ask for epsilon 1" in page.text
        for kind in FILES:
            assert press.get(f"/datasets/clinic/answer.{kind}?{query}").status_code == 400
        assert apart.read_spent("press") == 0
        bought = press.ask(COUNT, "1", pot="press")
        assert "The answer" in bought.text and apart.read_spent("press") == 1
