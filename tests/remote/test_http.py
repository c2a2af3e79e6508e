"""Where the token of a client travels: to its gateway, and nowhere else."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from dither.protocol import messages
from dither.protocol.errors import ProtocolError
from dither.remote.http import HttpTransport, make_client, read_address

TOKEN = "dither-" + "ab" * 32


@contextmanager
def recording(location: str | None = None) -> Iterator[tuple[str, list[str]]]:
    """A server that records each request's line and token, and may redirect."""
    requests: list[str] = []

    class Recorder(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            requests.append(f"{self.path} {self.headers.get('authorization')}")
            self.send_response(404 if location is None else 307)
            if location is not None:
                self.send_header("location", location)
            self.send_header("content-length", "0")
            self.end_headers()

        do_GET = do_POST

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Recorder)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", requests
    finally:
        server.shutdown()
        server.server_close()


def call(address: str) -> None:
    transport = HttpTransport(read_address(f"{address}/datasets/clinic", TOKEN))
    with pytest.raises(ProtocolError):
        transport.call(messages.ListDatasets(), messages.DatasetNames)


def test_a_redirect_is_not_followed():
    with recording() as (elsewhere, strangers), recording(f"{elsewhere}/x") as (address, requests):
        call(address)
    assert len(requests) == 1 and TOKEN in requests[0]
    assert strangers == []


@pytest.mark.parametrize("variable", ["HTTP_PROXY", "http_proxy", "ALL_PROXY"])
def test_a_proxy_of_the_environment_never_reads_the_token(monkeypatch, variable):
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    with recording() as (proxy, strangers), recording() as (address, requests):
        monkeypatch.setenv(variable, proxy)
        call(address)
    assert strangers == [] and len(requests) == 1


def test_over_https_certificates_are_checked_and_the_environment_may_name_the_proxy(monkeypatch):
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    client = make_client(read_address("https://host/datasets/clinic", TOKEN))
    assert client.trust_env and not client.follow_redirects
    direct = client._transport._pool._ssl_context
    assert direct.check_hostname and direct.verify_mode.name == "CERT_REQUIRED"


def test_an_address_that_is_printed_shows_no_token():
    address = read_address(f"https://host/datasets/clinic#token={TOKEN}")
    assert address.token == TOKEN and TOKEN not in repr(address)
