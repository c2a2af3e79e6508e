"""Signing in and out: cookies, forms of other sites, failures that tell nothing, ended sessions."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import httpx
import pytest

from dither.console import visitors
from dither.console.visitors import read_next
from dither.identity import ActLog, Authority
from dither.identity.logins import NOT_LOGGED_IN, Logins, WorkFactor
from tests.console.page_visitors import PageVisitor, visit
from tests.datasets.served_clinic import COUNT, ServedClinic

PASSWORD = "correct horse battery"


@pytest.fixture(scope="module")
def peopled(shared) -> ServedClinic:
    """The clinic with a user who has a password and a grant. Hashes are cheap here."""
    authority = Authority(shared.home)
    logins = shared.server._service._doors._logins
    cheap = Logins(authority, WorkFactor(1, 8, 1))
    logins._hasher = cheap._hasher
    authority.acts.record({"act": "user", "name": "ann", "issuer": None, "subject": None}, "t")
    until = (datetime.now(UTC) + timedelta(days=1)).replace(microsecond=0).isoformat()
    grant = {"act": "grant", "id": "0a0b0c0d", "dataset": "clinic", "holder": "user:ann"}
    grant |= {"role": "analyst", "pots": ["total"], "purpose": "tests", "expires": until}
    authority.acts.record(grant, "t")
    cheap.set_password("ann", PASSWORD, "t")
    cheap.close()
    authority.close()
    return shared


def log_in(visitor: PageVisitor, name: str = "ann", password: str = PASSWORD, **more: str):
    return visitor.post("/login", {"name": name, "password": password, **more})


def test_a_password_opens_a_session_and_signing_out_ends_it_at_the_curator(peopled):
    visitor = PageVisitor(peopled.address)
    assert visitor.get("/datasets").url.path == "/login"
    page = log_in(visitor, next="/datasets/clinic/budget")
    assert page.url.path == "/datasets/clinic/budget" and "Budget of clinic" in page.text
    token = visitor.client.cookies["dither-session"]
    assert token.startswith("dither-session-")
    assert visitor.post("/logout", {}).url.path == "/login"
    assert "dither-session" not in visitor.client.cookies
    kept = httpx.get(
        f"{peopled.address}/api/v1/datasets", headers={"authorization": f"Bearer {token}"}
    )
    assert kept.status_code == 401


def test_every_failure_has_the_same_page(peopled):
    """Whether a name exists, is locked or has a password changes nothing that is shown."""
    pages = set()
    for name, password in (("ann", "wrong password"), ("nobody", PASSWORD), ("ann", "x" * 256)):
        page = log_in(PageVisitor(peopled.address), name, password)
        assert page.status_code == 403 and NOT_LOGGED_IN.split(":")[0] in page.text
        assert name not in page.text.replace("username", "") and "dither-session" not in (
            page.cookies
        )
        pages.add(visitors_text(page.text))
    for _ in range(12):
        locked = log_in(PageVisitor(peopled.address), "locked-name", "wrong password")
    pages.add(visitors_text(locked.text))
    assert len(pages) == 1 and locked.status_code == 403


def visitors_text(text: str) -> str:
    """A page without what differs for each browser: the token of its forms."""
    lines = (line for line in text.splitlines() if "form_token" not in line)
    return "\n".join(lines)


@pytest.mark.parametrize(
    "fields", [{}, {"name": ""}, {"name": "a", "password": ""}, {"password": "x"}]
)
def test_an_empty_login_is_refused_without_a_fault(peopled, fields):
    page = PageVisitor(peopled.address).post("/login", fields)
    assert page.status_code in (400, 403)


def test_a_login_form_of_another_site_signs_nobody_in(peopled):
    """Else a visitor could be made to ask in the name of the attacker."""
    visitor = PageVisitor(peopled.address)
    sent = {"name": "ann", "password": PASSWORD}
    refused = visitor.client.post("/login", data=sent)
    assert refused.status_code == 403 and "dither-session" not in visitor.client.cookies
    stolen = {**sent, "form_token": PageVisitor(peopled.address).read_form_token()}
    visitor.get("/login")
    assert visitor.client.post("/login", data=stolen).status_code == 403


def test_cookies_are_for_this_host_hidden_from_scripts_and_sent_over_tls(peopled):
    token = peopled.make_token()
    here = PageVisitor(peopled.address)
    response = here.client.post(
        "/login/token",
        data={"form_token": here.read_form_token(), "token": token},
        follow_redirects=False,
    )
    cookie = response.headers["set-cookie"]
    assert "dither-session=" in cookie and "HttpOnly" in cookie and "SameSite=lax" in cookie
    assert "Secure" not in cookie and "Path=/" in cookie and "Domain" not in cookie
    there = PageVisitor(peopled.address, headers={"host": "dither.example.org"})
    page = there.get("/login")
    cookie = page.headers["set-cookie"]
    assert cookie.startswith("__Host-dither-visit=") and "Secure" in cookie


@pytest.mark.parametrize(
    ("host", "is_secure"),
    [
        ("127.0.0.1:8765", False),
        ("localhost", False),
        ("[::1]:8765", False),
        ("clinic.example.org", True),
        ("127.0.0.1.example.org", True),
        ("10.0.0.1", True),
        ("", True),
    ],
)
def test_only_a_browser_on_this_machine_gets_a_cookie_without_tls(host, is_secure):
    scope = {"type": "http", "headers": [(b"host", host.encode())], "method": "GET", "path": "/"}
    assert visitors.is_secure(visitors.Request(scope)) is is_secure


@pytest.mark.parametrize(
    "path", ["https://evil.example", "//evil.example", "/\\evil.example", "", "evil", "/a\nb"]
)
def test_signing_in_leads_to_no_other_site(path):
    assert read_next(path) == "/datasets"


def test_the_link_of_serve_becomes_a_session_and_a_revoked_token_ends_it(served):
    text, token = served.tokens.create_token("admin", "clinic", "admin", ("total",), 1)
    visitor = PageVisitor(served.address)
    entered = visitor.get("/datasets/clinic")
    assert "data-token-from-fragment" in entered.text and "clinic" in entered.text
    page = visitor.post("/login/token", {"token": text, "next": "/datasets/clinic"})
    assert "Who is protected" in page.text
    served.tokens.revoke_token(token.token_id)
    ended = visitor.get("/datasets/clinic/budget")
    assert ended.url.path == "/login" and "Your session has ended" in ended.text
    assert "dither-session" not in visitor.client.cookies


@pytest.mark.parametrize(
    ("site", "act"),
    [(None, "send"), ("none", "send"), ("cross-site", "fill"), ("same-site", "fill")],
)
def test_a_link_of_another_site_waits_for_a_click(shared, site, act):
    """Else a site could sign people in as somebody who then reads what they ask."""
    headers = {} if site is None else {"sec-fetch-site": site}
    page = PageVisitor(shared.address).get("/datasets/clinic", headers=headers)
    assert f'data-token-from-fragment="{act}"' in page.text
    assert ("from another site" in page.text) == (act == "fill")


def test_a_revoked_token_sees_no_page_that_needs_no_price(served):
    """Connections are kept by the gateway: who opens a page is asked anew all the same."""
    text, token = served.tokens.create_token("eve", "clinic", "analyst", ("total",), 1)
    visitor = PageVisitor(served.address).sign_in(text)
    paths = ("ask", "build?table=visits", "questions", "about.json", "tables.json")
    for path in paths:
        assert visitor.get(f"/datasets/clinic/{path}").url.path != "/login"
    served.tokens.revoke_token(token.token_id)
    for path in paths:
        other = PageVisitor(served.address, cookies={"dither-session": text})
        page = other.get(f"/datasets/clinic/{path}")
        assert page.url.path == "/login", path


def test_a_session_that_ended_while_typing_leads_a_live_preview_to_the_sign_in(served):
    text, token = served.tokens.create_token("ann", "clinic", "analyst", ("total",), 1)
    visitor = PageVisitor(served.address).sign_in(text)
    form_token = visitor.read_form_token()
    served.tokens.revoke_token(token.token_id)
    live = visitor.client.post(
        "/datasets/clinic/preview",
        data={"sql": COUNT, "form_token": form_token},
        headers={"hx-request": "true"},
    )
    assert live.status_code == 200 and live.headers["hx-redirect"].startswith("/login?")
    assert not live.text


@pytest.mark.parametrize("token", ["", "dither-" + "0" * 64, "x" * 300, "a\x00b", "ü" * 40])
def test_a_token_that_is_none_opens_nothing(peopled, token):
    page = PageVisitor(peopled.address).post("/login/token", {"token": token})
    assert page.status_code == 403 and "not accepted" in page.text


def test_who_has_no_grant_sees_an_empty_page(peopled):
    acts = ActLog(peopled.home)
    acts.record({"act": "user", "name": "zoe", "issuer": None, "subject": None}, "t")
    acts.close()
    token = peopled.tokens.create_token("zoe", "clinic", "analyst", ("total",), 1)[0]
    visitor = PageVisitor(peopled.address).sign_in(token)
    assert "You have no dataset yet" in visitor.get("/datasets").text
    refused = visitor.get("/datasets/clinic/ask")
    assert refused.status_code == 403 and "not granted" in refused.text
    nothing = visitor.get("/datasets/no-such-dataset/ask")
    assert nothing.status_code == 403 and "not granted" in nothing.text


def test_an_analyst_reaches_no_page_of_stewards(shared):
    page = visit(shared).get("/datasets/clinic/steward")
    assert page.status_code == 403 and "not granted" in page.text
