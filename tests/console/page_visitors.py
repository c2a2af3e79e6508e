"""A browser without a screen: it keeps cookies, and sends forms with the token of their page."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from html import unescape
from pathlib import Path
from typing import Any

import httpx

from dither import steward
from dither.console.pages import make_pages
from dither.console.settings import ConsoleSettings
from dither.identity import TokenStore
from tests.datasets import clinic
from tests.datasets.served_clinic import (
    ServedClinic,
    own_state_home,
    running_gateway,
    serving,
    start_server,
)

PLAIN: dict[str, Any] = {"trust_env": False, "verify": False}
"""Clients over plain HTTP on this machine: reading certificates would cost more than a page."""
FORM_TOKEN = re.compile(r'name="form_token" value="([0-9a-f]{64})"')


@contextmanager
def serving_pages(
    folder: Path, epsilon: str, settings: ConsoleSettings | None = None
) -> Iterator[ServedClinic]:
    """The clinic behind a gateway with pages."""
    pages = make_pages(settings or ConsoleSettings())
    with serving(folder, epsilon) as clinic, running_gateway(clinic.socket, pages) as address:
        clinic.address = address
        yield clinic


class PageVisitor:
    """A visitor of a gateway's pages."""

    def __init__(self, address: str, **options: Any):
        self.client = httpx.Client(
            base_url=address, timeout=60, follow_redirects=True, **PLAIN, **options
        )

    def get(self, path: str, **options: Any) -> httpx.Response:
        return self.client.get(path, **options)

    def read_form_token(self, path: str = "/verify") -> str:
        return FORM_TOKEN.search(self.get(path).text)[1]

    def post(self, path: str, fields: dict[str, str], **options: Any) -> httpx.Response:
        """Send a form with the token that a page of this visitor has."""
        sent = {"form_token": self.read_form_token(), **fields}
        return self.client.post(path, data=sent, **options)

    def sign_in(self, token: str) -> PageVisitor:
        answer = self.post("/login/token", {"token": token, "next": "/verify"})
        assert answer.status_code == 200 and answer.url.path == "/verify", answer.text
        return self

    def ask(self, sql: str, amount: str = "0.5", **more: str) -> httpx.Response:
        """Confirm and pay, as a person does."""
        fields = {"sql": sql, "by": "epsilon", "amount": amount, **more}
        page = self.post("/datasets/clinic/confirm", fields)
        hidden = read_hidden(page.text)
        return self.post("/datasets/clinic/ask", {**fields, **pick(hidden, "confirmed", "ask_key")})


def read_hidden(text: str) -> dict[str, str]:
    """The hidden fields of a page, the last of each name."""
    pairs = re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)">', text)
    return {name: unescape(value) for name, value in pairs}


def pick(fields: dict[str, str], *names: str) -> dict[str, str]:
    return {name: fields[name] for name in names}


def visit(served: ServedClinic, role: str = "analyst", name: str = "alice") -> PageVisitor:
    """A visitor who is signed in by a token."""
    return PageVisitor(served.address).sign_in(served.make_token(name, role))


@contextmanager
def serving_rows(
    folder: Path,
    rows: list[clinic.Raw],
    text: str = clinic.CATALOG,
    purpose: dict[str, str] | None = None,
    settings: ConsoleSettings | None = None,
) -> Iterator[ServedClinic]:
    """A clinic of its own rows, catalog and purpose, behind a gateway with pages."""
    with own_state_home(folder), tempfile.TemporaryDirectory(prefix="dither") as short:
        file, state = clinic.register(folder / "clinic", rows, text)
        facts = steward.registered_catalog(state)
        terms = {"epsilon": "100", "ceiling": "100", "purpose": purpose or clinic.PURPOSE}
        steward.open_pot(state, facts, "total", **terms)
        home = folder / "home"
        path = Path(short) / "s"
        server = start_server(file, home, path)
        served = ServedClinic(file, state, home, path, TokenStore(home), server)
        try:
            with running_gateway(path, make_pages(settings or ConsoleSettings())) as address:
                served.address = address
                yield served
        finally:
            server.stop()
            served.tokens.close()
