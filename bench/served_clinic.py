"""Curator and gateway on the invented clinic as processes of their own, for bench/server.py."""

from __future__ import annotations

import json
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from light_client import write_request

from dither import steward
from dither.cli.clinic import write_clinic
from dither.cli.served import DEMO_PEOPLE
from dither.identity import TokenStore
from dither.privacy.ledger.reports import Reports
from dither.state import State

MAIN = "from dither.cli import main; main()"
SQL = "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward"
PURPOSE = {
    "question": "How much load does the platform bear?",
    "population": "people whom a benchmark invented",
    "recipient": "readers of the benchmark",
}
SECONDS_TO_START = 180
SECONDS_TO_NOTICE = 60
TAKEOVER_AFTER = 2
PRICES_A_CONNECTION = 2000


def register_clinic(file: Path, ledger_url: str | None = None) -> State:
    """Invent the clinic, register it, and open a budget that is never spent."""
    write_clinic(file.parent, DEMO_PEOPLE, declares_people=True)
    state = State.beside(file)
    done = steward.register(file, dev=True, ledger_url=ledger_url)
    terms = {"epsilon": 10**6, "ceiling": 10**6, "max_incidents": 1000, "purpose": PURPOSE}
    steward.open_pot(state, done.catalog, "total", **terms)
    return state


def list_prices(number: int, phase: int) -> list[str]:
    """The prices of one connection in a phase: nobody else asks them."""
    first = 1000 + 10**6 * phase + PRICES_A_CONNECTION * number
    return [f"1/{first + step}" for step in range(PRICES_A_CONNECTION)]


class Platform:
    """The invented clinic with a curator and a gateway before it."""

    embedded_url: str | None = None
    """Where a clinic without a curator has its ledger, if not in a file."""

    def __init__(self, folder: Path, ledger_url: str | None = None) -> None:
        self.folder = folder
        self.file = folder / "clinic" / "clinic.yaml"
        self.home = folder / "home"
        self.socket = folder / "s"
        self.state = register_clinic(self.file, ledger_url)
        tokens = TokenStore(self.home)
        self.tokens = [
            tokens.create_token(f"analyst{n}", "clinic", "analyst", ("total",), 1)[0]
            for n in range(50)
        ]
        tokens.close()
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = int(probe.getsockname()[1])
        self.curator = self.start_curator()
        sockets = [word for path in self.list_sockets() for word in ("--socket", path)]
        self.gateway = self._start("gateway", *sockets, "--port", self.port)
        self._await_gateway()

    def list_sockets(self) -> list[Path]:
        """Where a curator may listen."""
        return [self.socket]

    def write_requests(self, number: int, phase: int) -> list[str]:
        """The requests of one connection: one question, or many at prices that nobody asked."""
        path = "/api/v1/datasets/clinic/sql"
        prices = ["1"] if phase == 0 else list_prices(number, phase)
        return [
            write_request(path, self.tokens[number], json.dumps({"sql": SQL, "epsilon": price}))
            for price in prices
        ]

    def read_cpus(self) -> dict[str, float]:
        """CPU seconds so far, by process."""
        return {"curator": read_cpu(self.curator.pid), "gateway": read_cpu(self.gateway.pid)}

    def start_curator(self) -> subprocess.Popen[bytes]:
        where = ("--home", self.home, "--socket", self.socket, "--slot", "0")
        process = self._start("curator", self.file, *where)
        await_socket(self.socket)
        return process

    def _start(self, *words: object) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-c", MAIN, *map(str, words)]
        return subprocess.Popen(command, stderr=subprocess.DEVNULL)

    def _await_gateway(self) -> None:
        end = time.monotonic() + SECONDS_TO_START
        while time.monotonic() < end:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.05)
        raise TimeoutError

    def kill_and_restart(self) -> None:
        """Kill the curator with whatever it does; the steward clears what it left."""
        self.curator.send_signal(signal.SIGKILL)
        self.curator.wait()
        self.curator = self.start_curator()

    def clear_incidents(self) -> None:
        ledger = steward.open_ledger(self.state)
        ledger._count_abandoned()
        has_open = bool(Reports.from_ledger(ledger).incidents_open())
        ledger.close()
        if has_open:
            steward.clear_incidents(self.state, "the benchmark killed the curator")

    def stop(self) -> None:
        for process in (self.gateway, self.curator):
            process.kill()
            process.wait()


class SharedPlatform(Platform):
    """Two curators over one ledger in PostgreSQL, each with a copy of the state folder.

    By turns the one that serves is killed, or paused past its patience. The other takes over, and
    the first waits again; one that was paused must notice by itself, and stop.
    """

    def __init__(self, folder: Path, ledger_url: str, database_pid: int) -> None:
        self._database_pid = database_pid
        self._faults = 0
        super().__init__(folder, ledger_url)

    def read_cpus(self) -> dict[str, float]:
        """CPU seconds so far, by process; those of the database together."""
        database = sum(map(read_cpu, list_family(self._database_pid)))
        waiting = read_cpu(self._waiting[1].pid)
        return super().read_cpus() | {"waiting curator": waiting, "PostgreSQL": database}

    def start_curator(self) -> subprocess.Popen[bytes]:
        copy = self.folder / "copy"
        shutil.copytree(self.file.parent, copy)
        self._files = {self.socket: self.file, self.folder / "t": copy / self.file.name}
        serving = self._start_shared(self.socket)
        await_socket(self.socket)
        self._waiting = (self.folder / "t", self._start_shared(self.folder / "t"))
        return serving

    def _start_shared(self, path: Path) -> subprocess.Popen[bytes]:
        where = ("--home", self.home, "--socket", path, "--slot", "0")
        shared = ("--shared", "--takeover-after", TAKEOVER_AFTER)
        return self._start("curator", self._files[path], *where, *shared)

    def list_sockets(self) -> list[Path]:
        return [self.socket, self.folder / "t"]

    def kill_and_restart(self) -> None:
        first, path = self.curator, self.socket
        is_paused = self._faults % 2 == 1
        self._faults += 1
        first.send_signal(signal.SIGSTOP if is_paused else signal.SIGKILL)
        self.socket, self.curator = self._waiting
        await_socket(self.socket)
        first.send_signal(signal.SIGCONT)
        first.wait(SECONDS_TO_NOTICE)
        self._waiting = (path, self._start_shared(path))

    def stop(self) -> None:
        self._waiting[1].kill()
        self._waiting[1].wait()
        super().stop()


def await_socket(path: Path) -> None:
    """Wait until a curator listens."""
    end = time.monotonic() + SECONDS_TO_START
    while time.monotonic() < end:
        with socket.socket(socket.AF_UNIX) as probe:
            if probe.connect_ex(str(path)) == 0:
                return
        time.sleep(0.05)
    raise TimeoutError


@contextmanager
def running_platform(folder: Path, *, is_shared: bool) -> Iterator[Platform]:
    """A platform over SQLite, or two curators over a PostgreSQL server that is started here."""
    if not is_shared:
        platform = Platform(folder)
        try:
            yield platform
        finally:
            platform.stop()
        return
    import pgserver  # pip install pgserver psycopg

    place = Path(tempfile.mkdtemp(prefix="dither-postgres-"))
    server = pgserver.get_server(place, cleanup_mode="stop")
    try:
        server.psql("CREATE DATABASE ledger")
        server.psql("CREATE DATABASE embedded")
        shared = SharedPlatform(folder, server.get_uri("ledger"), server.get_pid())
        shared.embedded_url = server.get_uri("embedded")
        try:
            yield shared
        finally:
            shared.stop()
    finally:
        server.cleanup()
        shutil.rmtree(place, ignore_errors=True)


def read_cpu(pid: int) -> float:
    """User and system CPU seconds of all threads of a process so far (clock_getcpuclockid)."""
    return time.clock_gettime(~pid << 3 | 2)


def list_family(pid: int) -> list[int]:
    """A process and its children."""
    family = [pid]
    for file in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it may have ended meanwhile
            if int(file.read_text().rpartition(")")[2].split()[1]) == pid:
                family.append(int(file.parent.name))
    return family
