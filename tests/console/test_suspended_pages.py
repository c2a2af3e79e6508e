"""Pages of a suspended dataset, and who is shown users and grants."""

from __future__ import annotations

import json
import re

import pytest

from dither.identity import Authority
from dither.identity.signed_acts import sign_act
from dither.privacy.kernel.kernel import Kernel
from tests.console.page_visitors import visit
from tests.console.test_steward_pages import read_act
from tests.curator.test_saved_questions import grant
from tests.curator.test_signed_acts import KEY, pin
from tests.datasets.served_clinic import COUNT

SINCE = re.compile(r"suspended since \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC")
STEWARD = "/datasets/clinic/steward"


@pytest.fixture
def pinned(served):
    authority = Authority(served.home)
    pin(authority, KEY)
    for body in (
        {"act": "user", "name": "ann", "issuer": None, "subject": None},
        {"act": "group", "name": "wards"},
        {"act": "join", "group": "wards", "user": "ann"},
        grant("0000000a", "clinic", "2999-01-01T00:00:00+00:00"),
    ):
        authority.acts.record(body, "test")
    authority.close()
    return served


def test_pages_say_since_when_and_a_signed_act_clears_it(pinned, monkeypatch):
    analyst = visit(pinned)
    paid = analyst.ask(COUNT, "1")
    assert "suspended" not in paid.text

    def fail(*_):
        raise RuntimeError("the engine ran out of memory")

    with monkeypatch.context() as patch:
        patch.setattr(Kernel, "measure", fail)
        analyst.ask(COUNT, "0.5")
    for path in (
        "/datasets",
        "/datasets/clinic",
        "/datasets/clinic/ask",
        "/datasets/clinic/budget",
    ):
        page = analyst.get(path)
        assert SINCE.search(page.text), path
        assert "memory" not in page.text and not re.search(r"\d incident", page.text)
    assert "The answer" in analyst.get(str(paid.url)).text
    spent = pinned.read_spent()
    assert "suspended" in analyst.ask(COUNT, "0.25").text and pinned.read_spent() == spent
    steward = visit(pinned, "steward", "sue")
    page = steward.get(STEWARD)
    assert SINCE.search(page.text) and "dither budget clear CATALOG" in page.text
    drafted = steward.post(f"{STEWARD}/draft", {"act": "clear", "reason": "it has more memory"})
    signed = json.dumps(sign_act(read_act(drafted.text), KEY, 1))
    page = steward.post(f"{STEWARD}/submit", {"signed": signed})
    assert "Done: incidents are cleared" in page.text, page.text
    assert "suspended" not in analyst.get("/datasets/clinic/ask").text


def test_a_steward_ends_a_grant_from_the_page_of_users_by_a_signature(pinned):
    steward = visit(pinned, "steward", "sue")
    page = steward.get("/datasets/clinic/users")
    assert "group:wards" in page.text and ">ann<" in page.text and "a report" in page.text
    link = re.search(r'href="([^"]+kind=end-grant[^"]+)"', page.text)[1].replace("&amp;", "&")
    assert 'value="0000000a"' in steward.get(link).text
    drafted = steward.post(f"{STEWARD}/draft", {"act": "end-grant", "id": "0000000a"})
    act = read_act(drafted.text)
    assert act["terms"] == {"id": "0000000a", "dataset": "clinic"}
    unsigned = steward.post(f"{STEWARD}/submit", {"signed": json.dumps(act)})
    assert 'role="alert"' in unsigned.text
    assert "0000000a" in steward.get("/datasets/clinic/users").text
    signed = json.dumps(sign_act(act, KEY, 1))
    assert "Done" in steward.post(f"{STEWARD}/submit", {"signed": signed}).text
    assert "0000000a" not in steward.get("/datasets/clinic/users").text


def test_users_are_not_for_analysts(pinned):
    page = visit(pinned, name="bob").get("/datasets/clinic/users")
    assert page.status_code == 403 and "wards" not in page.text
