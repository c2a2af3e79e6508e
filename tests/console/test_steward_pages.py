"""Pages of stewards: acts are drafted here, signed elsewhere, and judged by the curator."""

from __future__ import annotations

import json
from html import unescape

import pytest

from dither.catalog.file.load import parse
from dither.console.act_forms import ACT_FORMS
from dither.identity import Authority
from dither.identity.act_bodies import SIGNABLE_ROLE_ACTS
from dither.identity.signed_acts import LIMIT_ACTS, check_act, draft_act, sign_act
from tests.console.page_visitors import PageVisitor, visit
from tests.curator.test_signed_acts import KEY, STRANGER, list_pots, pin, read_head
from tests.datasets.clinic import PURPOSE

STEWARD = "/datasets/clinic/steward"
EXACT_FIGURES = ("incident count", "repaired", "misses so far", "max_incidents")


@pytest.fixture
def pinned(served):
    authority = Authority(served.home)
    pin(authority, KEY)
    authority.close()
    return served


def read_act(text: str) -> dict:
    return json.loads(unescape(text.split('aria-label="The act">')[1].partition("</pre>")[0]))


def write_draft(visitor: PageVisitor, act: str, **terms: str) -> dict:
    page = visitor.post(f"{STEWARD}/draft", {"act": act, **terms})
    assert page.status_code == 200, page.text
    return read_act(page.text)


def test_a_draft_is_the_act_that_dither_sign_takes(pinned):
    visitor = visit(pinned, "steward")
    terms = {"pot": "total", "cap": "6", "reason": "a second report"}
    act = write_draft(visitor, "raise", **terms)
    head = read_head(pinned).model_dump(exclude={"kind"})
    assert act == draft_act(**head, kind="raise", terms=terms)
    assert set(ACT_FORMS) == {*LIMIT_ACTS, *SIGNABLE_ROLE_ACTS}


def test_a_steward_opens_a_budget_by_a_signature_that_the_page_never_sees_made(pinned):
    visitor = visit(pinned, "steward")
    terms = {"pot": "board", "epsilon": "1", "ceiling": "1", "kind": "group"} | PURPOSE
    act = write_draft(visitor, "open", inside="total", **terms)
    check_act(act, set(act))
    signed = json.dumps(sign_act(act, KEY, 1))
    page = visitor.post(f"{STEWARD}/submit", {"signed": signed})
    assert "Done: the budget board is open" in page.text and "board" in list_pots(pinned)
    again = visitor.post(f"{STEWARD}/submit", {"signed": signed})
    assert "Done" not in again.text and "draft" in again.text


def test_a_steward_makes_a_user_by_a_signature(pinned):
    """The page writes the act, the steward signs it elsewhere, and the page takes it."""
    visitor = visit(pinned, "steward")
    assert "kind=user" in visitor.get("/datasets/clinic/users").text
    account = {"issuer": "https://id.example.org", "subject": "248289761001"}
    act = write_draft(visitor, "user", name="bob", **account)
    assert act["terms"] == {"name": "bob@clinic", **account}
    unsigned = visitor.post(f"{STEWARD}/submit", {"signed": json.dumps(act)})
    assert 'role="alert"' in unsigned.text and "bob@clinic" not in list_users(pinned)
    signed = json.dumps(sign_act(act, KEY, 1))
    assert (
        "Done: the act user is done" in visitor.post(f"{STEWARD}/submit", {"signed": signed}).text
    )
    assert list_users(pinned)["bob@clinic"].subject == account["subject"]
    act = write_draft(visitor, "user", name="eve@clinic")
    assert act["terms"] == {"name": "eve@clinic", "issuer": None, "subject": None}


def list_users(served):
    authority = Authority(served.home)
    users = authority.acts.read_directory().users
    authority.close()
    return users


@pytest.mark.parametrize("fault", ["stranger", "altered", "unsigned", "junk"])
def test_what_no_steward_signed_moves_nothing(pinned, fault):
    visitor = visit(pinned, "steward")
    act = write_draft(visitor, "open", pot="board", epsilon="1", ceiling="1", **PURPOSE)
    signed = sign_act(act, STRANGER if fault == "stranger" else KEY, 1)
    if fault == "altered":
        signed["act"]["terms"]["ceiling"] = "9"
    if fault == "unsigned":
        signed["signature"] = "0" * 128
    text = "not json" if fault == "junk" else json.dumps(signed)
    page = visitor.post(f"{STEWARD}/submit", {"signed": text})
    assert 'role="alert"' in page.text and "Done" not in page.text
    assert list_pots(pinned) == {"total"}


def test_the_administrator_s_link_moves_no_limit(pinned):
    """It reads and drafts (rule P31)."""
    visitor = visit(pinned, "admin", "admin")
    act = write_draft(visitor, "raise", pot="total", cap="9", reason="because of the report")
    page = visitor.post(f"{STEWARD}/submit", {"signed": json.dumps(act)})
    assert "Done" not in page.text


def test_a_form_of_another_site_delivers_no_act(pinned):
    visitor = visit(pinned, "steward")
    act = write_draft(visitor, "open", pot="board", epsilon="1", ceiling="1", **PURPOSE)
    signed = json.dumps(sign_act(act, KEY, 1))
    refused = visitor.client.post(f"{STEWARD}/submit", data={"signed": signed})
    assert refused.status_code == 403 and list_pots(pinned) == {"total"}


def test_a_missing_term_is_named_and_what_was_typed_is_kept(pinned):
    visitor = visit(pinned, "steward")
    page = visitor.post(f"{STEWARD}/draft", {"act": "raise", "pot": "total", "cap": "7"})
    assert "Reason: say something here" in page.text and 'value="7"' in page.text


def test_no_page_shows_repairs_misses_or_numbers_of_incidents(pinned):
    visitor = visit(pinned, "steward")
    for name in ("", "/ask", "/budget", "/history", "/register", "/about", "/steward"):
        text = visitor.get(f"/datasets/clinic{name}").text.lower()
        assert not [word for word in EXACT_FIGURES if word in text]


# -- catalogs from a header line


HEADER = "person,age,ward,pay"
DECISIONS = {
    "header": HEADER,
    "is_header": "yes",
    "person": "person",
    "rows_per_person": "5",
    "table": "visits",
    "max_rows": "100000",
    "kind_1": "age",
    "kind_2": "north | south",
    "kind_3": "money 1000",
}


def test_a_catalog_is_drafted_from_a_header_line_and_decisions(shared):
    visitor = visit(shared, "steward")
    second = visitor.post("/catalog/columns", {"header": HEADER, "is_header": "yes"})
    assert "the person named by person" in second.text and 'name="kind_3"' in second.text
    page = visitor.post("/catalog/draft", DECISIONS)
    text = unescape(page.text.split('name="catalog"')[1].partition(">")[2].partition("</te")[0])
    catalog = parse(text)
    table = catalog.tables[0]
    assert table.rows_per_unit == 5 and table.max_rows == 100_000
    assert table.column_names == ("person", "age", "ward", "pay")
    checked = visitor.post("/catalog/check", {"catalog": text})
    assert "Nothing is wrong with it" in checked.text


@pytest.mark.parametrize(
    "changes",
    [
        {"is_header": ""},
        {"header": f"{HEADER}\n7,30,north,12"},
        {"header": ""},
        {"header": "a,a"},
        {"person": ""},
        {"person": "nobody"},
        {"rows_per_person": ""},
        {"rows_per_person": "²"},
        {"max_rows": "123456"},
        {"kind_1": "", "kind_2": "", "kind_3": ""},
        {"kind_1": "no such kind"},
    ],
)
def test_nothing_is_drafted_without_a_decision(shared, changes):
    """A line that was not called a header is a person's row, and is not repeated as columns."""
    page = visit(shared, "steward").post("/catalog/draft", {**DECISIONS, **changes})
    assert 'role="alert"' in page.text and "dither: 1" not in page.text


def test_the_problems_of_a_catalog_stand_at_their_lines(shared):
    text = "dither: 1\ndataset: x\nlineage: ???\nneighbours: both\n"
    page = visit(shared, "steward").post("/catalog/check", {"catalog": text})
    assert "line 3" in page.text and "line 4" in page.text and "neighbours: both" in page.text
