"""Single sign-on against a real provider of OpenID Connect: npm's oidc-provider, on loopback."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, urljoin, urlsplit

import httpx
import pytest
from typer.testing import CliRunner

from dither.cli.main import app
from dither.console.settings import ConsoleSettings, SignOnSettings
from tests.console.page_visitors import PageVisitor, serving_pages
from tests.console.test_sign_on import begin, check_refused, finish
from tests.datasets.served_clinic import ServedClinic

pytestmark = pytest.mark.all
SCRIPT = Path(__file__).parent / "oidc_provider.mjs"
MODULES = Path(sys.prefix) / "node_modules"
ISSUER = "https://id.example.org"
CALLBACK = "http://127.0.0.1/login/callback"
FORM = re.compile(r'<form[^>]* action="([^"]+)"')
PROMPT = re.compile(r'name="prompt" value="(\w+)"')


@pytest.fixture(scope="module")
def provider() -> Iterator[str]:
    """The address of a running provider."""
    process = subprocess.Popen(
        ["node", SCRIPT, MODULES, ISSUER, CALLBACK],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        yield process.stdout.readline().strip()
    finally:
        process.communicate()


def run_command(*words: object) -> None:
    shown = CliRunner().invoke(app, list(map(str, words)))
    assert shown.exit_code == 0, shown.output


@pytest.fixture(scope="module")
def clinic(provider, tmp_path_factory) -> Iterator[ServedClinic]:
    """A clinic whose steward fetched and pinned the provider's keys, by the commands of the page.

    Alice has a grant, Bob is a user without one, and nobody else is known.
    """
    folder = tmp_path_factory.mktemp("real-provider")
    addresses = (f"{provider}/auth", f"{provider}/token", CALLBACK)
    settings = ConsoleSettings(SignOnSettings(ISSUER, "dither", *addresses))
    with serving_pages(folder, "100", settings) as served:
        keys = folder / "keys.json"
        keys.write_text(httpx.get(f"{provider}/jwks", timeout=60).text)
        home = ("--home", served.home)
        run_command("issuer", "pin", ISSUER, "dither", "--keys", keys, *home)
        for name in ("alice", "bob"):
            account = ("--issuer", ISSUER, "--subject", f"{name}-at-work")
            run_command("user", "create", name, *account, *home)
        grant = ("--pot", "total", "--purpose", "tests of single sign-on")
        run_command("grant", "create", "clinic", "alice", *grant, *home)
        yield served


def sign_in(authorization: str, account: str) -> dict[str, str]:
    """What a browser brings back from the provider, where a person signed in and agreed."""
    with httpx.Client(timeout=60) as browser:
        response = browser.get(authorization)
        for _ in range(10):
            while response.has_redirect_location:
                target = urljoin(str(response.url), response.headers["location"])
                if target.startswith(CALLBACK):
                    query = parse_qs(urlsplit(target).query)
                    return {name: texts[0] for name, texts in query.items()}
                response = browser.get(target)
            form = urljoin(str(response.url), FORM.search(response.text)[1])
            fields = {"prompt": PROMPT.search(response.text)[1], "login": account, "password": "x"}
            response = browser.post(form, data=fields)
    raise AssertionError("the provider did not send the browser back")


def test_a_person_signs_on_at_the_provider_and_reads_a_budget(clinic):
    visitor = PageVisitor(clinic.address)
    page = finish(visitor, sign_in(begin(visitor), "alice-at-work"))
    assert page.url.path == "/datasets/clinic/budget" and "Budget of clinic" in page.text
    assert visitor.client.cookies["dither-session"].startswith("dither-session-")


def test_an_account_that_is_no_user_opens_no_session(clinic):
    visitor = PageVisitor(clinic.address)
    check_refused(visitor, finish(visitor, sign_in(begin(visitor), "alice")))


def test_a_user_without_a_grant_reads_nothing(clinic):
    visitor = PageVisitor(clinic.address)
    page = finish(visitor, sign_in(begin(visitor), "bob-at-work"))
    assert "dither-session" in visitor.client.cookies
    assert page.status_code == 403 and "Budget of clinic" not in page.text


def test_the_provider_takes_a_code_with_the_verifier_of_its_own_sign_on_alone(clinic):
    """PKCE: Eve brings her code into the sign-on that Alice began, whose verifier does not fit."""
    eve = PageVisitor(clinic.address)
    stolen = sign_in(begin(eve), "alice-at-work")["code"]
    alice = PageVisitor(clinic.address)
    terms = {**sign_in(begin(alice), "alice-at-work"), "code": stolen}
    check_refused(alice, finish(alice, terms))


def test_a_code_is_taken_once(clinic):
    visitor = PageVisitor(clinic.address)
    terms = sign_in(begin(visitor), "alice-at-work")
    cookies = dict(visitor.client.cookies)
    finish(visitor, terms)
    again = PageVisitor(clinic.address)
    again.client.cookies.update(cookies)
    check_refused(again, finish(again, terms))


def test_keys_that_are_not_pinned_any_more_open_no_session(clinic):
    run_command("issuer", "revoke", ISSUER, "--home", clinic.home)
    visitor = PageVisitor(clinic.address)
    check_refused(visitor, finish(visitor, sign_in(begin(visitor), "alice-at-work")))
