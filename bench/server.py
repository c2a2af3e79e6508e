"""The platform under load and kills, on loopback: answers per second, latencies, what was charged.

Curator and gateway are processes of their own, without a schedule (slots of 0 seconds). Light
clients (http.client, one connection each) repeat one stored answer, then ask new questions, then
ask while the curator is killed and started again. At the end the ledger must verify, every answer
that a client holds must be in it, and what is spent must be the sum of its charges.

With PostgreSQL and two curators the same is shown by tests/curator/test_two_curators.py.
"""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from fractions import Fraction
from pathlib import Path

import numpy as np
from common import options, report, write_catalog

from dither import steward
from dither.identity import TokenStore
from dither.privacy.ledger.pots import on_grid
from dither.privacy.ledger.reports import Reports
from dither.state import State

MAIN = "from dither.cli import main; main()"
SQL = "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward"
COLUMNS = "      ward: {type: category, values: [north, south], other: keep, nulls: keep}\n"
PURPOSE = {
    "question": "How much load does the platform bear?",
    "population": "people whom a benchmark invented",
    "recipient": "readers of the benchmark",
}
SECONDS_TO_START = 180


class Platform:
    """A registered dataset with a curator and a gateway before it."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "bench.yaml"
        self.home = folder / "home"
        self.socket = folder / "s"
        rows = [f"{i},{('north', 'south')[i % 2]}" for i in range(5000)]
        (folder / "visits.csv").write_text("\n".join(["person,ward", *rows]))
        text = write_catalog(COLUMNS, population="bench", rows_per_unit=1, max_rows=10**5)
        self.file.write_text(text)
        self.state = State.beside(self.file)
        done = steward.register(self.file, dev=True)
        terms = {"epsilon": 10**6, "ceiling": 10**6, "max_incidents": 1000, "purpose": PURPOSE}
        steward.open_pot(self.state, done.catalog, "total", **terms)
        tokens = TokenStore(self.home)
        self.tokens = [
            tokens.create_token(f"analyst{n}", "bench", "analyst", ("total",), 1)[0]
            for n in range(50)
        ]
        tokens.close()
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = int(probe.getsockname()[1])
        self.curator = self.start_curator()
        self.gateway = self._start("gateway", "--socket", self.socket, "--port", self.port)
        self._await_gateway()

    def start_curator(self) -> subprocess.Popen[bytes]:
        where = ("--home", self.home, "--socket", self.socket, "--slot", "0")
        process = self._start("curator", self.file, *where)
        end = time.monotonic() + SECONDS_TO_START
        while time.monotonic() < end:
            with socket.socket(socket.AF_UNIX) as probe:
                if probe.connect_ex(str(self.socket)) == 0:
                    return process
            time.sleep(0.05)
        raise TimeoutError

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


class Analyst(threading.Thread):
    """A client with one connection that asks until it is told to stop."""

    def __init__(self, platform: Platform, number: int, stop: threading.Event, fresh: bool) -> None:
        super().__init__(daemon=True)
        self._platform = platform
        self._token = platform.tokens[number]
        self._number = number
        self._stop_asking = stop
        self._is_fresh = fresh
        self.seconds: list[float] = []
        self.errors = 0
        self.refused = 0
        self.releases: set[str] = set()

    def run(self) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self._platform.port, timeout=120)
        asked = 0
        while not self._stop_asking.is_set():
            asked += 1
            epsilon = "1" if not self._is_fresh else f"1/{1000 + 100 * asked + self._number}"
            body = json.dumps({"sql": SQL, "epsilon": epsilon})
            start = time.perf_counter()
            try:
                self._ask(connection, body, start)
            except (OSError, http.client.HTTPException, ValueError):
                self.errors += 1
                connection.close()

    def _ask(self, connection: http.client.HTTPConnection, body: str, start: float) -> None:
        headers = {
            "Authorization": f"Bearer {self._token}",
            "Content-Type": "application/json",
        }
        connection.request("POST", "/api/v1/datasets/bench/sql", body, headers)
        reply = connection.getresponse()
        document = json.loads(reply.read())
        if reply.status == 200:
            self.seconds.append(time.perf_counter() - start)
            self.releases.add(document["info"]["release_id"])
        elif reply.status in (409, 422, 500, 503):
            self.refused += 1  # a curator that is down, suspended or was killed in the act
            time.sleep(0.05)
        else:
            self.errors += 1


def load(platform: Platform, analysts: int, seconds: float, *, fresh: bool) -> list[Analyst]:
    """Let so many analysts ask for so long."""
    stop = threading.Event()
    threads = [Analyst(platform, number, stop, fresh) for number in range(analysts)]
    for thread in threads:
        thread.start()
    time.sleep(seconds)
    stop.set()
    for thread in threads:
        thread.join()
    return threads


def load_and_kill(platform: Platform, analysts: int, kills: int) -> list[Analyst]:
    """Let analysts ask while the curator is killed and started again."""
    stop = threading.Event()
    threads = [Analyst(platform, number, stop, True) for number in range(analysts)]
    for thread in threads:
        thread.start()
    for _ in range(kills):
        time.sleep(1)
        platform.kill_and_restart()
        platform.clear_incidents()
    time.sleep(1)
    stop.set()
    for thread in threads:
        thread.join()
    return threads


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


def main() -> None:
    chosen = options(__doc__ or "")
    analysts, seconds, kills = (8, 5.0, 1) if chosen.quick else (50, 120.0, 10)
    why = "--quick: fewer analysts, and a machine that others use" if chosen.quick else ""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ["XDG_STATE_HOME"] = str(folder / "xdg")
        platform = Platform(folder)
        try:
            (alone,) = load(platform, 1, seconds / 2, fresh=False)
            before = read_cpu(platform.curator), read_cpu(platform.gateway)
            repeats = load(platform, analysts, seconds, fresh=False)
            after = read_cpu(platform.curator), read_cpu(platform.gateway)
            fresh = load(platform, analysts, seconds, fresh=True)
            killed = load_and_kill(platform, min(analysts, 8), kills)
            held = set().union(*(thread.releases for thread in (alone, *repeats, *fresh, *killed)))
            checks = check_ledger(platform, held)
        finally:
            platform.stop()
    taken = np.array([s for thread in repeats for s in thread.seconds])
    bought = np.array([s for thread in fresh for s in thread.seconds])
    cpu_ms = [(end - start) / len(taken) * 1e3 for start, end in zip(before, after, strict=True)]
    errors = sum(thread.errors for thread in (alone, *repeats, *fresh))
    many = f"{analysts} analysts"
    ms = 1e3
    rows = [
        write_line(
            "repeat, one connection, median",
            float(np.median(alone.seconds)) * ms,
            10,
            1,
            unit="ms",
            why=why,
        ),
        write_line(
            f"repeats/s, {many}", len(taken) / seconds, 500, 1, unit="/s", why=why, least=True
        ),
        write_line(
            f"repeat, {many}, p99", float(np.quantile(taken, 0.99)) * ms, 300, 1, unit="ms", why=why
        ),
        write_line(f"new answers/s, {many}", len(bought) / seconds, 1, 1, unit="/s", why="stated"),
        write_line(
            f"new answer, {many}, median",
            float(np.median(bought)) * ms,
            1,
            1,
            unit="ms",
            why="stated",
        ),
        write_line("curator CPU a repeat", cpu_ms[0], 1, 1, unit="ms", why="stated"),
        write_line("gateway CPU a repeat", cpu_ms[1], 1, 1, unit="ms", why="stated"),
        write_line("errors without kills", float(errors), 0, 0, unit=""),
        *(
            write_line(f"{kills} kills: {label}", count, 0, 0, unit="")
            for label, count in checks.items()
        ),
    ]
    report("server", rows, ("duckdb", "uvicorn"), as_json=chosen.json)


if __name__ == "__main__":
    main()
