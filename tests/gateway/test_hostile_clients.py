"""Clients that want to stop others, or to be charged for nothing: half bodies, silence, junk."""

from __future__ import annotations

import json
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor, as_completed

import httpx
import pytest

from dither.gateway import http_protocol
from dither.gateway.turns import MOST_PER_TOKEN
from tests.datasets.served_clinic import COUNT, running_gateway, serving

JSON = {"content-type": "application/json"}


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("served"), "1000") as clinic:
        yield clinic


@pytest.fixture(scope="module")
def address(served):
    with running_gateway(served.socket) as url:
        yield url


@pytest.fixture(scope="module")
def client(served, address):
    headers = {"authorization": f"Bearer {served.make_token()}", **JSON}
    url = f"{address}/api/v1/datasets/clinic"
    with httpx.Client(base_url=url, headers=headers, timeout=60) as opened:
        yield opened


def open_stream(address: str) -> socket.socket:
    host, _, port = address.removeprefix("http://").partition(":")
    return socket.create_connection((host, int(port)), timeout=10)


def test_a_question_that_was_sent_by_half_is_not_asked(served, address):
    token = served.make_token()
    content = json.dumps({"sql": COUNT, "epsilon": 0.37}).encode()
    head = (
        "POST /api/v1/datasets/clinic/sql HTTP/1.1\r\nHost: localhost\r\n"
        f"Authorization: Bearer {token}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(content) + 1}\r\n\r\n"
    )
    spent = served.read_spent()
    with open_stream(address) as stream:
        stream.sendall(head.encode() + content)
        stream.shutdown(socket.SHUT_WR)
        while stream.recv(65536):
            pass
    # the ask that follows would find the answer of the first one stored
    headers = {"authorization": f"Bearer {token}", **JSON}
    url = f"{address}/api/v1/datasets/clinic/sql"
    answer = httpx.post(url, content=content + b" ", headers=headers, timeout=60)
    assert answer.json()["info"]["repeated"] is False
    assert served.read_spent() > spent


@pytest.mark.parametrize("sent", [b"", b"GET /healthz HTTP/1.1\r\nHost: lo"], ids=["none", "half"])
def test_who_sends_no_request_is_cut_off(address, monkeypatch, sent):
    monkeypatch.setattr(http_protocol, "SECONDS_FOR_HEADERS", 0.05)
    with open_stream(address) as stream:
        stream.sendall(sent)
        assert stream.recv(65536) == b""


def test_silence_after_a_response_is_cut_off_too_and_a_slow_answer_is_not(
    address, served, monkeypatch
):
    dataset = served.server._service._datasets["clinic"]
    serve = dataset.serve
    monkeypatch.setattr(http_protocol, "SECONDS_FOR_HEADERS", 0.05)

    def serve_slowly(*arguments):
        time.sleep(0.3)
        return serve(*arguments)

    monkeypatch.setattr(dataset, "serve", serve_slowly, raising=False)
    request = (
        "GET /api/v1/datasets/clinic HTTP/1.1\r\nHost: localhost\r\n"
        f"Authorization: Bearer {served.make_token()}\r\n\r\nGET"
    )
    with open_stream(address) as stream:
        stream.sendall(request.encode())
        received = b""
        while chunk := stream.recv(65536):
            received += chunk
    assert received.startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("pot", ["", "x" * 129, "\ud800"], ids=["empty", "long", "half"])
@pytest.mark.parametrize("route", ["preview", "sql", "explain", "suggest"])
def test_a_name_that_no_pot_can_have_is_a_problem_of_the_body(client, served, route, pot):
    spent = served.read_spent()
    body = {"sql": COUNT, "epsilon": 1, "pot": pot}
    if route == "suggest":
        body = {"what": "bounds", "of": "visits.cost", "epsilon": 1, "pot": pot}
    response = client.post(f"/{route}", content=json.dumps(body))
    assert response.status_code == 422 and "body.pot" in response.json()["detail"]
    assert served.read_spent() == spent


def nest(depth: int) -> dict:
    document: dict = {}
    for _ in range(depth):
        document = {"a": document}
    return document


@pytest.mark.parametrize(
    "query",
    [
        {"a": 1.5},
        {"a": float("nan")},
        {"a": "\ud800"},
        nest(400),
        nest(900),
        {"": 1},
        {"a": 10**2000},
    ],
    ids=["float", "nan", "half", "deep", "deeper", "empty", "digits"],
)
def test_a_call_that_a_curator_could_not_read_is_a_problem_and_no_fault(client, served, query):
    step = {"query": 0, "columns": None, "family": "laplace", "weight": "1/1"}
    request = {"queries": [query], "steps": [step], "price": {"epsilon": "1/1"}, "pot": "total"}
    body = {"kind": "price", "request": request, "rules": 2}
    response = client.post("/calls", content=json.dumps(body))
    assert response.status_code == 400
    assert response.json()["kind"] in ("ProtocolError", "ParameterError")


def test_a_revoked_token_opens_no_connection_that_waits_in_the_gateway(served, address):
    text, token = served.tokens.create_token("carol", "clinic", "analyst", ("total",), 1)
    headers = {"authorization": f"Bearer {text}"}
    url = f"{address}/api/v1/datasets/clinic"
    with httpx.Client(base_url=url, headers=headers, timeout=60) as carol:
        body = {"sql": COUNT, "epsilon": 1}
        assert carol.post("/preview", json=body).status_code == 200
        served.tokens.revoke_token(token.token_id)
        for route in ("preview", "explain", "sql"):
            assert carol.post(f"/{route}", json=body).status_code == 401
        assert carol.get("/budget").status_code == 401


def test_one_token_cannot_take_the_turns_of_others(served, address, monkeypatch):
    """Its requests past the bound are sent away for free; afterwards it has all turns again."""
    dataset = served.server._service._datasets["clinic"]
    serve = dataset.serve
    gate = threading.Event()

    def serve_later(*arguments):
        gate.wait(60)
        return serve(*arguments)

    monkeypatch.setattr(dataset, "serve", serve_later, raising=False)
    url = f"{address}/api/v1/datasets/clinic"
    greedy = {"authorization": f"Bearer {served.make_token('greedy')}"}
    modest = {"authorization": f"Bearer {served.make_token('modest')}"}

    def read(headers: dict) -> int:
        return httpx.get(url, headers=headers, timeout=60).status_code

    with ThreadPoolExecutor(MOST_PER_TOKEN + 2) as pool:
        first = [pool.submit(read, greedy) for _ in range(MOST_PER_TOKEN + 1)]
        refused = next(as_completed(first))
        assert refused.result() == 503
        others = pool.submit(read, modest)
        gate.set()
        assert others.result() == 200
        codes = [future.result() for future in first]
    assert sorted(codes) == [200] * MOST_PER_TOKEN + [503]
    assert any(read(greedy) == 200 or time.sleep(0.01) for _ in range(1000))
