"""The small clinic behind a curator's socket, and behind a gateway: in threads of the test."""

from __future__ import annotations

import atexit
import os
import shutil
import socket
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from pathlib import Path

import pytest

from dither.curator.run import CuratorSettings, make_server
from dither.curator.server import CuratorServer
from dither.gateway.app import AddPages
from dither.gateway.run import make_gateway
from dither.identity import TokenStore
from dither.remote.curator import RemoteCurator
from dither.remote.transport import SocketPool, SocketTransport, connect_to_socket
from dither.session import Connection
from dither.state import State
from tests.datasets import clinic

COUNT = "SELECT COUNT(*) AS n FROM visits"
BY_WARD = "SELECT ward, COUNT(*) AS n, AVG(cost) AS mean FROM visits GROUP BY ward"
ROWS = [
    clinic.row(str(i), str(i % 40), ward=("north", "south")[i % 2], cost=f"{i}.50")
    for i in range(100)
]


@dataclass
class ServedClinic:
    """A registered clinic with a curator before it."""

    file: Path
    state: State
    home: Path
    socket: Path
    tokens: TokenStore
    server: CuratorServer
    address: str = ""
    """Where a gateway serves it, if one does."""

    def make_token(
        self, name: str = "alice", role: str = "analyst", pots: tuple[str, ...] = ("total",)
    ) -> str:
        return self.tokens.create_token(name, "clinic", role, pots, 1)[0]

    def make_transport(self, token: str | None = None) -> SocketTransport:
        return SocketTransport(make_pool(self.socket), "clinic", token or self.make_token())

    def connect(self, token: str | None = None, pot: str = "total") -> Connection:
        return Connection(RemoteCurator(self.make_transport(token)), pot=pot)

    def read_spent(self, pot: str = "total") -> Fraction:
        """What the ledger says was charged, charges under way included."""
        dataset = self.server._service._datasets["clinic"]
        return dataset._curator.kernel.ledger.pot(pot).spent

    def restart(self) -> None:
        """The same curator in a new process, as far as its state goes."""
        self.server.stop()
        self.server = start_server(self.file, self.home, self.socket)


def make_pool(path: Path) -> SocketPool:
    return SocketPool(lambda: connect_to_socket(path))


def start_server(
    file: Path, home: Path, path: Path, slot_s: float = 0, job_s: float = 0
) -> CuratorServer:
    server = make_server(CuratorSettings((file,), path, home, slot_s=slot_s, job_s=job_s))
    threading.Thread(target=server.serve, daemon=True).start()
    return server


def register_rich_clinic(folder: Path, epsilon: str) -> tuple[Path, State]:
    """The clinic with a pot of so much, copied from one that was registered before."""
    template = _register_template(epsilon)
    shutil.copytree(template / "clinic", folder, dirs_exist_ok=True)
    home = Path(os.environ["XDG_STATE_HOME"])
    shutil.copytree(template / "xdg", home, dirs_exist_ok=True)
    return folder / "clinic.yaml", State.beside(folder / "clinic.yaml")


@cache
def _register_template(epsilon: str) -> Path:
    """A registered clinic with its heads, for copies: registering costs more than all the rest."""
    folder = Path(tempfile.mkdtemp(prefix="dither-template"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    with own_state_home(folder):
        _, state = clinic.register(folder / "clinic", ROWS)
        clinic.open_total(state, epsilon, epsilon)
    return folder


@contextmanager
def own_state_home(folder: Path) -> Iterator[None]:
    """A home of heads for fixtures that several tests share: the tests' own come and go."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(folder / "xdg"))
        yield


@contextmanager
def serving(folder: Path, epsilon: str = "10", slot_s: float = 0) -> Iterator[ServedClinic]:
    """The clinic, served from a socket with a short path."""
    with own_state_home(folder):
        yield from _serve(folder, epsilon, slot_s)


def _serve(folder: Path, epsilon: str, slot_s: float) -> Iterator[ServedClinic]:
    file, state = register_rich_clinic(folder / "clinic", epsilon)
    home = folder / "home"
    with tempfile.TemporaryDirectory(prefix="dither") as short:
        path = Path(short) / "s"
        served = ServedClinic(
            file, state, home, path, TokenStore(home), start_server(file, home, path, slot_s)
        )
        try:
            yield served
        finally:
            served.server.stop()
            served.tokens.close()


@contextmanager
def running_gateway(path: Path, add_pages: AddPages | None = None) -> Iterator[str]:
    """A gateway before a curator's socket; its address."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = make_gateway(path, "127.0.0.1", port, add_pages)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    end = time.monotonic() + 60
    while not server.started and time.monotonic() < end:
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join()
