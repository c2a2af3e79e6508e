"""Calls over HTTP: for clients of a gateway.

A call whose connection is lost is sent again. That is safe: every release carries a key of its own,
under which the curator sells one answer.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from ipaddress import ip_address
from urllib.parse import parse_qs, quote, unquote, urlsplit

import httpx
from pydantic import BaseModel

from dither.canonical import dumps
from dither.errors import ParameterError
from dither.protocol.errors import BusyError, ProtocolError
from dither.protocol.frames import read_document
from dither.protocol.problems import read_problem
from dither.remote.transport import Outcome, read_reply
from dither.version import __version__

TRIES = 3
PAUSE_S = 0.5
TIMEOUT = httpx.Timeout(600.0, connect=10.0)
_REMEDY = "write it as https://host/datasets/NAME, with token= or the variable DITHER_TOKEN"


@dataclass(frozen=True)
class DatasetAddress:
    """Where a dataset is served, and the token to send there."""

    base: str
    dataset: str
    token: str = field(repr=False)


def read_address(url: str, token: str | None = None) -> DatasetAddress:
    """The parts of an address; a token may stand in its fragment, which no server is sent.

    >>> read_address("https://host/datasets/clinic#token=dither-ab").dataset
    'clinic'
    """
    split = urlsplit(url)
    prefix, _, name = split.path.rstrip("/").rpartition("/")
    if split.scheme not in ("http", "https") or not split.hostname:
        raise ParameterError(f"not the address of a dataset: {_REMEDY}")
    if not prefix.endswith("/datasets") or not name:
        raise ParameterError(f"the address names no dataset: {_REMEDY}")
    if split.username is not None:
        raise ParameterError(f"an address holds neither user nor password: {_REMEDY}")
    if split.scheme == "http" and not _is_loopback(split.hostname):
        raise ParameterError(
            "a token would travel in clear over http: use https, or a tunnel to this machine"
        )
    fragment = parse_qs(split.fragment).get("token", [None])[0]
    secret = token or fragment or os.environ.get("DITHER_TOKEN")
    if not secret:
        raise ParameterError(f"a token is missing: {_REMEDY}")
    base = f"{split.scheme}://{split.netloc}{prefix.removesuffix('/datasets')}"
    return DatasetAddress(base, unquote(name), secret)


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def make_client(address: DatasetAddress) -> httpx.Client:
    """A client that sends the token to the address alone: it follows no redirect.

    The proxy of the environment is used for https, which it cannot read; over plain http to this
    machine it would read the token.
    """
    is_encrypted = address.base.startswith("https:")
    return httpx.Client(timeout=TIMEOUT, trust_env=is_encrypted, follow_redirects=False)


class HttpTransport:
    """Calls about one dataset, through a gateway."""

    def __init__(self, address: DatasetAddress, client: httpx.Client | None = None) -> None:
        self._url = f"{address.base}/api/v1/datasets/{quote(address.dataset, safe='')}/calls"
        headers = {
            "authorization": f"Bearer {address.token}",
            "content-type": "application/json",
            "user-agent": f"dither/{__version__}",
        }
        self._client = client or make_client(address)
        self._headers = headers

    def call(self, act: BaseModel, result: type[Outcome]) -> Outcome:
        """The result of a call; the errors of curator and gateway are raised as the library's."""
        response = self._send(dumps(act.model_dump()).encode())
        if response.status_code != 200:
            raise read_problem(_read_json(response))
        return read_reply(_read_json(response), result)

    def _send(self, body: bytes) -> httpx.Response:
        """Send a body; a lost connection is tried again."""
        for attempt in range(TRIES):
            try:
                return self._client.post(self._url, content=body, headers=self._headers)
            except httpx.TransportError:
                if attempt + 1 < TRIES:
                    time.sleep(PAUSE_S * (attempt + 1))
        raise BusyError(
            "the gateway does not answer. What was charged is stored: ask again when it runs"
        )


def _read_json(response: httpx.Response) -> object:
    """The document of a response."""
    try:
        document: object = read_document(response.content, is_canonical=False)
    except ProtocolError:
        raise ProtocolError(
            f"the gateway answered {response.status_code} without a document of dither: is this "
            "its address?"
        ) from None
    return document
