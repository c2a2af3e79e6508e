"""A gateway before several curators goes to the one that answers."""

from __future__ import annotations

import socket
import threading
import time

import httpx
import pytest

from dither.gateway.run import make_gateway
from dither.protocol import messages
from dither.protocol.errors import BusyError
from dither.remote import failover
from dither.remote.failover import CuratorChoice, is_answering, watch
from dither.remote.transport import SocketPool, SocketTransport, connect_to_socket
from tests.datasets.served_clinic import COUNT, serving, start_server


@pytest.fixture
def served(tmp_path):
    with serving(tmp_path) as clinic:
        yield clinic


@pytest.fixture
def paused(tmp_path):
    """The socket of a process that accepts connections and does not answer."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "paused"))
        listener.listen(8)
        yield tmp_path / "paused"


def make_connectors(*paths):
    return [lambda path=path: connect_to_socket(path) for path in paths]


def test_a_curator_that_is_down_is_passed_over(served, tmp_path):
    choice = CuratorChoice(make_connectors(tmp_path / "missing", served.socket))
    pool = SocketPool(choice.connect)
    transport = SocketTransport(pool, "clinic", served.make_token())
    assert transport.call(messages.ReadFacts(), messages.PublicFacts).version == 1
    pool.close()


def test_where_no_curator_listens_the_asker_is_told(tmp_path):
    choice = CuratorChoice(make_connectors(tmp_path / "a", tmp_path / "b"))
    pool = SocketPool(choice.connect)
    with pytest.raises(BusyError, match="does not answer"):
        pool._take()


def test_a_paused_curator_is_found_by_its_silence(served, paused):
    """The planted bug: who only connects takes a paused process for a curator."""
    paused_one, serving_one = make_connectors(paused, served.socket)
    paused_one().close()
    assert not is_answering(paused_one, 0.1)
    assert is_answering(serving_one)


def test_after_a_change_idle_connections_are_used_no_more(served, paused, monkeypatch):
    monkeypatch.setattr(failover, "SECONDS_BETWEEN_CHECKS", 0.01)
    monkeypatch.setattr(
        failover, "is_answering", lambda connect: is_answering(connect, seconds=0.2)
    )
    choice = CuratorChoice(make_connectors(paused, served.socket))
    pool = SocketPool(choice.connect)
    pool._put_back(choice.connect())
    stopped = threading.Event()
    thread = threading.Thread(target=watch, args=(choice, pool, stopped))
    thread.start()
    while choice._current == 0:
        time.sleep(0.001)
    while pool._idle:
        time.sleep(0.001)
    stopped.set()
    thread.join()
    transport = SocketTransport(pool, "clinic", served.make_token())
    assert transport.call(messages.ReadFacts(), messages.PublicFacts).version == 1


def test_a_call_may_take_the_last_connection_while_all_are_closed():
    class Taken(list):
        """Not empty when it is looked at, and empty a moment later."""

        def __bool__(self) -> bool:
            return True

    pool = SocketPool(socket.socket)
    pool._idle = Taken([socket.socket()])
    pool.close()
    assert len(pool._idle) == 0


def test_a_gateway_goes_on_with_the_curator_that_took_over(served):
    """The first stops, another listens elsewhere: the same gateway answers, the charge is there."""
    second = served.socket.with_name("second")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = make_gateway([served.socket, second], "127.0.0.1", port)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.001)
    headers = {"authorization": f"Bearer {served.make_token()}"}
    url = f"http://127.0.0.1:{port}/api/v1/datasets/clinic/sql"

    def ask() -> httpx.Response:
        body = {"sql": COUNT, "epsilon": 1}
        return httpx.post(url, json=body, headers=headers, timeout=60)

    first = ask().json()
    served.server.stop()
    assert ask().status_code == 503
    served.server = start_server(served.file, served.home, second)
    again = ask().json()
    assert again["columns"] == first["columns"] and again["info"]["repeated"]
    assert served.read_spent() == 1
    server.should_exit = True
    thread.join()
