"""Single sign-on: code and PKCE against a small provider; the curator alone judges the ID token."""

from __future__ import annotations

import base64
import hashlib
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

import pytest

from dither.console.settings import ConsoleSettings, SignOnSettings, read_sign_on
from dither.errors import ParameterError
from dither.identity import Authority
from tests.console.page_visitors import PageVisitor, serving_pages
from tests.datasets.served_clinic import ServedClinic
from tests.identity.test_directory import LATER
from tests.identity.test_openid import ISSUER, STRANGER, pin_issuer, write_claims, write_token


@dataclass
class Provider:
    """A provider of OpenID Connect: codes with their challenges, and what it says of a person."""

    codes: dict[str, dict[str, str]] = field(default_factory=dict)
    claims: dict[str, object] = field(default_factory=dict)
    key: object = None
    address: str = ""
    trades: int = 0

    def issue_code(self, authorization: str) -> dict[str, str]:
        """What the provider adds to the address that it sends the browser back to."""
        asked = {name: texts[0] for name, texts in parse_qs(urlsplit(authorization).query).items()}
        assert asked["response_type"] == "code" and asked["code_challenge_method"] == "S256"
        assert asked["scope"] == "openid" and asked["client_id"] == "dither"
        code = f"code-{len(self.codes)}"
        self.codes[code] = asked
        return {"code": code, "state": asked["state"], "iss": ISSUER}

    def trade(self, form: dict[str, str]) -> dict[str, str] | None:
        """The ID token of a code, once, for whoever has the verifier (RFC 7636, section 4.6)."""
        self.trades += 1
        asked = self.codes.pop(form.get("code", ""), None)
        digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        if asked is None or challenge != asked["code_challenge"]:
            return None
        if form.get("redirect_uri") != asked["redirect_uri"]:
            return None
        claims = write_claims(asked["nonce"], **self.claims)
        return {"id_token": write_token(claims, key=self.key), "token_type": "Bearer"}


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    started = Provider()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"])).decode()
            reply = started.trade({name: texts[0] for name, texts in parse_qs(body).items()})
            self.send_response(400 if reply is None else 200)
            self.end_headers()
            self.wfile.write(json.dumps(reply or {"error": "invalid_grant"}).encode())

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    started.address = f"http://127.0.0.1:{server.server_address[1]}"
    yield started
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def clinic(provider, tmp_path_factory) -> Iterator[ServedClinic]:
    settings = SignOnSettings(
        ISSUER,
        "dither",
        "https://id.example.org/authorize",
        f"{provider.address}/token",
        "http://127.0.0.1/login/callback",
    )
    folder = tmp_path_factory.mktemp("sign-on")
    with serving_pages(folder, "100", ConsoleSettings(settings)) as served:
        authority = Authority(served.home)
        pin_issuer(authority)
        user = {"act": "user", "name": "alice", "issuer": ISSUER, "subject": "1234"}
        authority.acts.record(user, "t")
        grant = {"act": "grant", "id": "0a0b0c0d", "dataset": "clinic", "holder": "user:alice"}
        grant |= {"role": "analyst", "pots": ["total"], "purpose": "tests", "expires": LATER}
        authority.acts.record(grant, "t")
        authority.close()
        yield served


@pytest.fixture(autouse=True)
def honest(provider):
    """The provider says the truth unless a test has it lie."""
    provider.claims = {}
    provider.key = None


def begin(visitor: PageVisitor, next_path: str = "/datasets/clinic/budget") -> str:
    response = visitor.client.get(
        "/login/sign-on", params={"next": next_path}, follow_redirects=False
    )
    assert response.status_code == 303
    return response.headers["location"]


def finish(visitor: PageVisitor, terms: dict[str, str]):
    return visitor.client.get("/login/callback", params=terms)


def test_a_person_signs_on_and_comes_back_to_the_page(clinic, provider):
    visitor = PageVisitor(clinic.address)
    assert "Continue at https://id.example.org" in visitor.get("/login").text
    location = begin(visitor)
    assert location.startswith("https://id.example.org/authorize?")
    page = finish(visitor, provider.issue_code(location))
    assert page.url.path == "/datasets/clinic/budget" and "Budget of clinic" in page.text
    assert visitor.client.cookies["dither-session"].startswith("dither-session-")


def check_refused(visitor: PageVisitor, page) -> None:
    assert page.status_code == 403 and "sign-on" in page.text
    assert "dither-session" not in visitor.client.cookies


@pytest.mark.parametrize(
    "claims",
    [
        {"nonce": "0" * 32},
        {"aud": "somebody-else"},
        {"iss": "https://evil.example"},
        {"sub": "another"},
        {"exp": 1},
    ],
)
def test_what_the_curator_does_not_accept_opens_no_session(clinic, provider, claims):
    """The gateway checks none of it: only the curator does (rule P31)."""
    visitor = PageVisitor(clinic.address)
    location = begin(visitor)
    provider.claims = claims
    check_refused(visitor, finish(visitor, provider.issue_code(location)))


def test_a_key_that_was_not_pinned_opens_no_session(clinic, provider):
    visitor = PageVisitor(clinic.address)
    location = begin(visitor)
    provider.key = STRANGER
    check_refused(visitor, finish(visitor, provider.issue_code(location)))


def test_a_browser_that_did_not_begin_cannot_finish(clinic, provider):
    """Else a visitor could be signed in as the attacker, or a stolen code be used."""
    eve = PageVisitor(clinic.address)
    terms = provider.issue_code(begin(eve))
    trades = provider.trades
    stranger = PageVisitor(clinic.address)
    check_refused(stranger, finish(stranger, terms))
    alice = PageVisitor(clinic.address)
    begin(alice)
    check_refused(alice, finish(alice, terms))
    assert provider.trades == trades


@pytest.mark.parametrize(
    "changes", [{"state": "0" * 32}, {"state": ""}, {"code": ""}, {"iss": "https://evil.example"}]
)
def test_an_answer_that_does_not_fit_is_not_traded(clinic, provider, changes):
    visitor = PageVisitor(clinic.address)
    terms = {**provider.issue_code(begin(visitor)), **changes}
    trades = provider.trades
    check_refused(visitor, finish(visitor, terms))
    assert provider.trades == trades


def test_a_code_of_another_sign_on_is_refused_by_its_challenge(clinic, provider):
    eve = PageVisitor(clinic.address)
    stolen = provider.issue_code(begin(eve))["code"]
    alice = PageVisitor(clinic.address)
    terms = {**provider.issue_code(begin(alice)), "code": stolen}
    check_refused(alice, finish(alice, terms))


def test_without_settings_there_is_no_sign_on(shared):
    visitor = PageVisitor(shared.address)
    assert "Continue at" not in visitor.get("/login").text
    assert visitor.get("/login/sign-on").status_code == 400


WRITTEN = {
    "issuer": ISSUER,
    "client_id": "dither",
    "authorization_endpoint": f"{ISSUER}/authorize",
    "token_endpoint": f"{ISSUER}/token",
    "redirect_uri": "https://dither.example.org/login/callback",
}


def test_the_file_of_a_provider_is_read_strictly():
    assert read_sign_on(json.dumps(WRITTEN)).client_secret is None
    assert "hush" not in repr(read_sign_on(json.dumps({**WRITTEN, "client_secret": "hush"})))


@pytest.mark.parametrize(
    "changes",
    [
        {"token_endpoint": "http://id.example.org/token"},
        {"token_endpoint": "http://localhost.example.org/token"},
        {"token_endpoint": 1},
        {"unknown": "x"},
    ],
)
def test_a_provider_without_tls_or_with_unknown_terms_is_refused(changes):
    with pytest.raises(ParameterError):
        read_sign_on(json.dumps({**WRITTEN, **changes}))
