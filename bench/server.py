"""The platform under load and kills, on loopback: answers per second, latencies, what was charged.

Curator and gateway are processes of their own, without a schedule (slots of 0 seconds), on the
invented clinic of `dither serve`. A light client (`light_client.py`, a process of its own) repeats
one stored answer, then asks new questions, then asks while the curator is killed and started again.
At the end the ledger must verify, every answer that a client holds must be in it, and what is spent
must be the sum of its charges.

`--postgres`: the same with the ledger in PostgreSQL and two curators over it, of which one takes
over when the other is killed.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np
from common import options, report
from light_client import write_request

from dither import steward
from dither.cli.clinic import write_clinic
from dither.cli.served import DEMO_PEOPLE
from dither.embedded import EmbeddedCurator
from dither.identity import TokenStore
from dither.privacy.ledger.pots import on_grid
from dither.privacy.ledger.reports import Reports
from dither.session import Connection
from dither.state import State

MAIN = "from dither.cli import main; main()"
SQL = "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward"
PURPOSE = {
    "question": "How much load does the platform bear?",
    "population": "people whom a benchmark invented",
    "recipient": "readers of the benchmark",
}
SECONDS_TO_START = 180
SECONDS_A_KILL = 7
EMBEDDED_PHASE = 4
"""Prices of answers in this process: nobody asks them through the gateway."""
EMBEDDED_BEFORE = 20
"""Answers in this process before those that are timed: the first ones import modules."""


class Platform:
    """The invented clinic with a curator and a gateway before it."""

    def __init__(self, folder: Path, ledger_url: str | None = None) -> None:
        self.folder = folder
        self.file = folder / "clinic" / "clinic.yaml"
        self.home = folder / "home"
        self.socket = folder / "s"
        write_clinic(self.file.parent, DEMO_PEOPLE, declares_people=True)
        self.state = State.beside(self.file)
        done = steward.register(self.file, dev=True, ledger_url=ledger_url)
        terms = {"epsilon": 10**6, "ceiling": 10**6, "max_incidents": 1000, "purpose": PURPOSE}
        steward.open_pot(self.state, done.catalog, "total", **terms)
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
        first = 1000 + 10**6 * phase + 2000 * number
        prices = ["1"] if phase == 0 else [f"1/{first + step}" for step in range(2000)]
        return [
            write_request(path, self.tokens[number], json.dumps({"sql": SQL, "epsilon": price}))
            for price in prices
        ]

    def read_cpus(self) -> tuple[float, float]:
        """CPU seconds of curator and gateway."""
        return read_cpu(self.curator), read_cpu(self.gateway)

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

    Killing kills the one that serves; the other takes over, and the killed one waits again.
    """

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
        shared = ("--shared", "--takeover-after", "2")
        return self._start("curator", self._files[path], *where, *shared)

    def list_sockets(self) -> list[Path]:
        return [self.socket, self.folder / "t"]

    def kill_and_restart(self) -> None:
        killed = self.socket
        self.curator.send_signal(signal.SIGKILL)
        self.curator.wait()
        self.socket, self.curator = self._waiting
        await_socket(self.socket)
        self._waiting = (killed, self._start_shared(killed))

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
        shared = SharedPlatform(folder, server.get_uri("ledger"))
        try:
            yield shared
        finally:
            shared.stop()
    finally:
        server.cleanup()
        shutil.rmtree(place, ignore_errors=True)


class Client:
    """The light client as a process: so many connections, each with requests of its own."""

    def __init__(self, platform: Platform, connections: int, seconds: float, phase: int) -> None:
        """Phase 0 repeats one question; every other phase asks new ones."""
        lists = [platform.write_requests(number, phase) for number in range(connections)]
        file = platform.folder / f"requests{phase}.json"
        file.write_text(json.dumps(lists))
        script = Path(__file__).with_name("light_client.py")
        command = [sys.executable, str(script), str(platform.port), str(seconds), str(file)]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE)

    def read_result(self) -> ClientResult:
        """What came back, once the time is over."""
        document = json.loads(self._process.communicate()[0])
        return ClientResult(
            np.array(document["seconds"]),
            set(document["releases"]),
            int(document["errors"]),
            float(document["cpu_s"]),
        )


@dataclass(frozen=True)
class ClientResult:
    """Seconds and releases of the answers, responses that were none, and the client's CPU."""

    seconds: np.ndarray
    releases: set[str]
    errors: int
    cpu_s: float


@dataclass(frozen=True)
class Load:
    """A phase of load, with the CPU milliseconds an answer of curator, gateway and client."""

    result: ClientResult
    rate: float
    cpu_ms: tuple[float, float, float]


def load(platform: Platform, connections: int, seconds: float, phase: int) -> Load:
    """Let so many analysts ask for so long."""
    before = platform.read_cpus()
    result = Client(platform, connections, seconds, phase).read_result()
    after = platform.read_cpus()
    count = max(1, len(result.seconds))
    spent = [(end - start) / count * 1e3 for start, end in zip(before, after, strict=True)]
    return Load(result, count / seconds, (*spent, result.cpu_s / count * 1e3))


def load_and_kill(platform: Platform, connections: int, kills: int) -> ClientResult:
    """Let analysts ask while the curator is killed and started again."""
    client = Client(platform, connections, SECONDS_A_KILL * kills, phase=3)
    end = time.monotonic() + SECONDS_A_KILL * kills
    for _ in range(kills):
        time.sleep(1)
        platform.kill_and_restart()
        platform.clear_incidents()
    while time.monotonic() < end:
        time.sleep(0.1)
    return client.read_result()


def time_embedded(platform: Platform, count: int) -> float:
    """CPU milliseconds of a new answer in this process.

    As at a gateway, no answer comes from earlier releases: those read no data and buy nothing.
    """
    con = Connection(EmbeddedCurator(platform.file), reuse_releases=False)
    first = 1000 + 10**6 * EMBEDDED_PHASE
    for number in range(EMBEDDED_BEFORE):
        con.sql(SQL, epsilon=f"1/{first + number}")
    start = time.process_time()
    for number in range(count):
        result = con.sql(SQL, epsilon=f"1/{first + EMBEDDED_BEFORE + number}")
        if result.info["repeated"]:
            raise RuntimeError("an answer that should be new was a repeat")
    return (time.process_time() - start) / count * 1e3


def check_ledger(platform: Platform, held: set[str]) -> dict[str, float]:
    """What must hold after everything: 0 lost, 0 uncharged, spent the sum of charges."""
    verified = steward.verify_ledger(platform.state, "")
    ledger = steward.open_ledger(platform.state)
    reports = Reports.from_ledger(ledger)
    known = {record.release_id for record in reports.history()}
    total = Fraction(0)
    with ledger._database.transaction(write=False) as transaction:
        from dither.privacy.ledger import rows

        for _, body in rows.bodies(transaction, "reserve"):
            total = on_grid(total + rows.charges_from(body)["total"].amount)
    spent = ledger.pot("total").spent
    ledger.close()
    return {
        "ledger that does not verify": float(not verified.ok),
        "answers that are not in the ledger": float(len(held - known)),
        "spent that is not the sum of charges": float(spent != total),
    }


def read_cpu(process: subprocess.Popen[bytes]) -> float:
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def write_line(
    name: str,
    value: float,
    base: float,
    limit: float,
    *,
    unit: str,
    why: str = "",
    least: bool = False,
) -> dict[str, object]:
    """A line; `base` is the target, and the value is at most (or at least) that; else unjudged."""
    ratio = value / base if base else value
    is_met = ratio >= limit if least else ratio <= limit
    facts = {"name": name, "ours_s": value, "base_s": base, "ratio": ratio, "target": limit}
    return facts | {"ok": None if why else is_met, "unit": unit} | ({"why": why} if why else {})


def list_rows(
    loads: dict[str, Load], embedded_ms: float, many: str, why: str
) -> list[dict[str, object]]:
    """The lines of the phases without kills."""
    alone, repeats = loads["alone"], loads["repeats"]
    single, fresh = loads["single"], loads["fresh"]
    overhead = single.cpu_ms[0] + single.cpu_ms[1] - embedded_ms
    rows = [
        write_line("repeat, one connection, median", _median(alone), 10, 1, unit="ms", why=why),
        write_line(f"repeats/s, {many}", repeats.rate, 500, 1, unit="/s", why=why, least=True),
        write_line(f"repeat, {many}, p99", _p99(repeats), 300, 1, unit="ms", why=why),
        write_line("new answer, CPU over embedded", overhead, 5, 1, unit="ms", why=why),
        write_line("new answer embedded, CPU", embedded_ms, 1, 1, unit="ms", why="stated"),
        write_line(f"new answers/s, {many}", fresh.rate, 1, 1, unit="/s", why="stated"),
        write_line(f"new answer, {many}, median", _median(fresh), 1, 1, unit="ms", why="stated"),
        write_line(f"new answer, {many}, p99", _p99(fresh), 1, 1, unit="ms", why="stated"),
    ]
    for name, phase in (("repeat", repeats), ("new answer", single)):
        rows += [
            write_line(f"{process} CPU a {name}", spent, 1, 1, unit="ms", why="stated")
            for process, spent in zip(("curator", "gateway", "client"), phase.cpu_ms, strict=True)
        ]
    errors = sum(phase.result.errors for phase in loads.values())
    return [*rows, write_line("errors without kills", float(errors), 0, 0, unit="")]


def _median(phase: Load) -> float:
    return float(np.median(phase.result.seconds)) * 1e3


def _p99(phase: Load) -> float:
    return float(np.quantile(phase.result.seconds, 0.99)) * 1e3


def main() -> None:
    chosen = options(__doc__ or "", "postgres")
    analysts, seconds, kills = (8, 5.0, 1) if chosen.quick else (50, 120.0, 10)
    why = "--quick: fewer analysts, and a machine that others use" if chosen.quick else ""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ["XDG_STATE_HOME"] = str(folder / "xdg")
        with running_platform(folder, is_shared=chosen.postgres) as platform:
            Client(platform, analysts, 3, phase=0).read_result()
            loads = {
                "alone": load(platform, 1, seconds / 8, phase=0),
                "repeats": load(platform, analysts, seconds / 4, phase=0),
                "single": load(platform, 1, seconds / 8, phase=1),
                "fresh": load(platform, analysts, seconds, phase=2),
            }
            embedded_ms = time_embedded(platform, 20 if chosen.quick else 200)
            killed = load_and_kill(platform, min(analysts, 8), kills)
            results = [killed, *(phase.result for phase in loads.values())]
            checks = check_ledger(platform, set().union(*(r.releases for r in results)))
    rows = list_rows(loads, embedded_ms, f"{analysts} analysts", why)
    rows += [
        write_line(f"{kills} kills: {label}", count, 0, 0, unit="")
        for label, count in checks.items()
    ]
    held = float(len(killed.releases))
    rows.append(write_line(f"{kills} kills: answers meanwhile", held, 1, 1, unit="", why="stated"))
    name = "server, PostgreSQL" if chosen.postgres else "server"
    report(name, rows, ("duckdb", "uvicorn"), as_json=chosen.json)


if __name__ == "__main__":
    main()
