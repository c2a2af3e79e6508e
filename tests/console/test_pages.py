"""Every page: its headers, no script or style inside, and no text of anybody as markup."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from urllib.parse import quote, urlencode

import httpx
import pytest

from tests.case_lists import mark_between
from tests.console.page_visitors import PageVisitor, serving_rows, visit
from tests.datasets import clinic
from tests.datasets.served_clinic import BY_WARD, COUNT, ROWS

SCRIPT = "<script>alert(1)</script>"
IMAGE = "<img src=x onerror=alert(2)>"
QUOTES = "\"'><svg onload=alert(3)>"
HIDDEN = "a\u202eb\u0007c"
DATASET_PAGES = ("", "/ask", "/budget", "/history", "/register", "/about")
PAGES = (
    "/datasets",
    "/catalog",
    "/verify",
    "/login",
    "/no-such-page",
    *(f"/datasets/clinic{page}" for page in DATASET_PAGES),
)


class MarkupReader(HTMLParser):
    """Collects what a strict security policy forbids, and what a page fetches."""

    def __init__(self, text: str):
        super().__init__()
        self.problems: list[str] = []
        self.links: list[str] = []
        self.tags: set[str] = set()
        self._script_has_source = True
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        named = dict(attributes)
        self.tags.add(tag)
        if tag in ("style", "iframe", "object", "embed", "base"):
            self.problems.append(f"<{tag}>")
        if tag == "script" and "src" not in named:
            self.problems.append("inline script")
        if tag == "input" and named.get("type") == "file":
            self.problems.append("a file input")
        for name in named:
            if name.startswith("on") or name == "style":
                self.problems.append(f"{tag} {name}")
        links = [named.get(name) or "" for name in ("href", "src", "action", "hx-post")]
        self.links += [link for link in links if link]


def check_markup(text: str) -> MarkupReader:
    page = MarkupReader(text)
    assert page.problems == []
    for link in page.links:
        assert link.startswith(("/", "#", "?")) and not link.startswith("//"), link
    return page


@pytest.mark.parametrize("path", mark_between(PAGES, step=3))
def test_a_page_has_strict_headers_and_no_script_or_style_inside(shared, path):
    check_page(visit(shared, "steward").get(path), 404 if path == "/no-such-page" else 200)


def test_the_page_of_stewards_is_as_strict(served):
    check_page(visit(served, "steward").get("/datasets/clinic/steward"), 200)


def check_page(response: httpx.Response, status: int) -> None:
    assert response.status_code == status
    policy = response.headers["content-security-policy"]
    assert "default-src 'none'" in policy and "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy and "form-action 'self'" in policy
    assert response.headers.get_list("content-security-policy") == [policy]
    assert response.headers["cache-control"] == "no-store"
    assert response.headers["x-content-type-options"] == "nosniff"
    page = check_markup(response.text)
    assert {"main", "h1", "nav"} <= page.tags
    assert response.text.count("<h1>") == 1 and '<html lang="en">' in response.text


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """A clinic whose steward wrote markup wherever a catalog and a budget take text."""
    text = clinic.CATALOG.replace("[north, south]", f"[north, '{IMAGE}', '{SCRIPT}']")
    text = text.replace("life tables", f'"{SCRIPT}"')
    text = text.replace("provenance: tariff", f"provenance: '{IMAGE}'")
    purpose = {"question": f"Why {SCRIPT}?", "population": f"People {IMAGE}", "recipient": HIDDEN}
    with serving_rows(tmp_path_factory.mktemp("hostile"), ROWS, text, purpose) as served:
        yield served


def test_markup_in_a_catalog_a_budget_and_labels_stays_text(hostile):
    visitor = visit(hostile, "steward")
    sql = "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward"
    answer = visitor.ask(sql)
    assert IMAGE.replace("<", "&lt;").replace(">", "&gt;") in answer.text
    query = answer.url.query.decode()
    paths = [f"/datasets/clinic{page}" for page in DATASET_PAGES]
    paths += [f"/datasets/clinic/{name}?{query}" for name in ("answer", "ask", "certificate")]
    seen = ""
    for path in ("/datasets", *paths):
        text = visitor.get(path).text
        check_markup(text)
        assert SCRIPT not in text and IMAGE not in text, path
        assert "\u202e" not in text and "\u0007" not in text, path
        seen += text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in seen
    assert "\\u202e" in seen


def test_markup_in_what_a_visitor_types_stays_text(served):
    visitor = visit(served, "steward")
    for typed in (SCRIPT, IMAGE, QUOTES, HIDDEN):
        sql = f"SELECT COUNT(*) AS n FROM visits WHERE ward = '{typed}' {typed}"
        query = urlencode({"sql": sql, "amount": typed, "p_x": typed, "pot": ""})
        texts = [visitor.get(f"/datasets/clinic/ask?{query}").text]
        texts.append(visitor.get(f"/datasets/clinic/history?{urlencode({'words': typed})}").text)
        texts.append(visitor.get(f"/login?{urlencode({'next': '/' + typed})}").text)
        texts.append(visitor.get(f"/datasets/{quote(typed)}/ask").text)
        texts.append(visitor.post("/verify", {"certificate": typed, "key": typed}).text)
        header = {"header": f"a,{typed}", "is_header": "yes"}
        texts.append(visitor.post("/catalog/columns", header).text)
        texts.append(visitor.post("/catalog/check", {"catalog": f"dither: {typed}"}).text)
        draft = {"act": "raise", "pot": typed, "cap": typed, "reason": typed}
        texts.append(visitor.post("/datasets/clinic/steward/draft", draft).text)
        texts.append(visitor.post("/datasets/clinic/steward/submit", {"signed": typed}).text)
        for text in texts:
            check_markup(text)
            assert typed not in text
            assert "\u202e" not in text and "\u0007" not in text


def test_a_column_named_like_markup_stays_text(shared):
    visitor = visit(shared)
    sql = f'SELECT COUNT(*) AS "{IMAGE}" FROM visits'
    page = visitor.get(f"/datasets/clinic/ask?{urlencode({'sql': sql})}")
    check_markup(page.text)
    assert IMAGE not in page.text


def test_what_a_page_fetches_is_served_and_its_address_names_its_content(shared):
    visitor = visit(shared)
    text = visitor.get(f"/datasets/clinic/ask?{urlencode({'sql': COUNT})}").text
    files = re.findall(r'(?:src|href)="(/static/[^"]+)"', text)
    assert len(files) >= 8
    for file in files:
        response = visitor.get(file)
        assert response.status_code == 200 and "immutable" in response.headers["cache-control"]
        assert response.headers["x-content-type-options"] == "nosniff"
    assert visitor.get("/static/../pages.py").status_code == 404
    assert visitor.get("/static/vendor.json").status_code == 404


def read_weight(visitor: PageVisitor, path: str) -> int:
    """Bytes on the wire: the page and what it fetches, compressed where the server does so."""
    page = visitor.get(path)
    total = len(page.content)
    for file in set(re.findall(r'(?:src|href)="(/static/[^"]+)"', page.text)):
        response = visitor.get(file, headers={"accept-encoding": "gzip"})
        total += response.num_bytes_downloaded
    return total


def test_pages_are_light(shared):
    """The budgets of docs/console.md: 100 kB for the first page, 250 kB with the editor."""
    visitor = visit(shared, "steward")
    question = urlencode({"sql": BY_WARD})
    assert 15_000 < read_weight(visitor, "/datasets") <= 100_000
    assert 100_000 < read_weight(visitor, f"/datasets/clinic/ask?{question}") <= 250_000


def test_the_api_keeps_its_own_answers_beside_the_pages(shared):
    visitor = visit(shared)
    assert visitor.get("/api/v1/nothing").headers["content-type"] == "application/problem+json"
    assert visitor.get("/api/v1/datasets").status_code == 401
    assert "Routes" in visitor.get("/api").text
    assert visitor.get("/healthz").json() == {"status": "ok"}


def test_a_cookie_is_no_token_of_the_api(shared):
    """Else another site's form could ask by the API, which has no form tokens."""
    visitor = visit(shared)
    spent = shared.read_spent()
    answer = visitor.client.post(
        "/api/v1/datasets/clinic/sql", json={"sql": COUNT, "epsilon": "0.375"}
    )
    assert answer.status_code == 401 and shared.read_spent() == spent
