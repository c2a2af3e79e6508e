"""The platform under load and kills, on loopback: answers per second, latencies, what was charged.

Curator and gateway are processes of their own, without a schedule (slots of 0 seconds), on the
invented clinic of `dither serve`. A light client (`light_client.py`, a process of its own) repeats
one stored answer, then asks new questions, then asks while the curator is killed and started again.
At the end the ledger must verify, every answer that a client holds must be in it, and what is spent
must be the sum of its charges.

`--postgres`: the same with the ledger in PostgreSQL and two curators over it, of which one takes
over when the other is killed, or paused for longer than its lease.

What a new answer costs over an embedded one is told by the same questions, at the same prices and
in the same order, of a clinic in a process that holds it itself: how much work noise is depends on
its scale, and tables of scales are kept. Platform and embedded clinic are asked by turns, in
`ROUNDS` rounds, and the median round counts: on a machine that others use, the same work costs more
CPU in one minute than in the next. CPU is user and system time of all threads of a process, by the
clock of the process (`clock_gettime`). The embedded process excludes what it imported from garbage
collection, as the served ones do; without that it costs about 2 ms more, which would flatter us.
"""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from fractions import Fraction
from multiprocessing import get_context
from pathlib import Path

import numpy as np
from common import options, report
from served_clinic import SQL, Platform, list_prices, register_clinic, running_platform

from dither import steward
from dither.embedded import EmbeddedCurator
from dither.gateway.answers import describe_answer
from dither.privacy.ledger.pots import on_grid
from dither.privacy.ledger.reports import Reports
from dither.session import Connection

SECONDS_A_KILL = 7
EMBEDDED_PHASE = 4
EMBEDDED_BEFORE = 20
"""Embedded answers before those that are timed: the first ones import modules."""
ROUNDS = 5


class Client:
    """The light client as a process: so many connections, each with requests of its own."""

    def __init__(
        self, platform: Platform, connections: int, seconds: float, phase: int, first: int = 0
    ) -> None:
        """Phase 0 repeats one question; every other phase asks new ones.

        Connections are those of the analysts from `first` on.
        """
        numbers = range(first, first + connections)
        lists = [platform.write_requests(number, phase) for number in numbers]
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
    """A phase of load, with the CPU milliseconds of an answer by process."""

    result: ClientResult
    rate: float
    cpu_ms: dict[str, float]


def load(platform: Platform, connections: int, seconds: float, phase: int, first: int = 0) -> Load:
    """Let so many analysts ask for so long."""
    before = platform.read_cpus()
    result = Client(platform, connections, seconds, phase, first).read_result()
    after = platform.read_cpus()
    count = max(1, len(result.seconds))
    spent = {name: (after[name] - before[name]) / count * 1e3 for name in before}
    return Load(result, count / seconds, spent | {"client": result.cpu_s / count * 1e3})


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


@dataclass(frozen=True)
class Round:
    """The CPU milliseconds of a new answer on the platform, and of the same one embedded."""

    served: Load
    embedded_ms: float

    @property
    def overhead_ms(self) -> float:
        """What curator and gateway together cost more."""
        spent = self.served.cpu_ms
        return spent["curator"] + spent["gateway"] - self.embedded_ms


def time_rounds(platform: Platform, seconds: float) -> list[Round]:
    """Ask new questions on one connection, then the same of an embedded clinic, by turns."""
    where = (platform.folder / "embedded", platform.embedded_url)
    rounds = []
    with ProcessPoolExecutor(1, get_context("spawn"), open_embedded, where) as alone:
        alone.submit(time_embedded, 0, EMBEDDED_PHASE, EMBEDDED_BEFORE).result()
        for number in range(ROUNDS):
            served = load(platform, 1, seconds / ROUNDS, phase=1, first=number)
            count = len(served.result.seconds)
            embedded_ms = alone.submit(time_embedded, number, 1, count).result()
            rounds.append(Round(served, embedded_ms))
    return rounds


def open_embedded(folder: Path, ledger_url: str | None) -> None:
    """Open a clinic in this process, for `time_embedded`.

    As at a gateway, no answer comes from earlier releases: those read no data and buy nothing.
    """
    global _embedded
    file = folder / "clinic.yaml"
    register_clinic(file, ledger_url)
    _embedded = Connection(EmbeddedCurator(file), reuse_releases=False)
    gc.collect()
    gc.freeze()


def time_embedded(number: int, phase: int, count: int) -> float:
    """CPU milliseconds of a new answer in this process, its table and footnotes written."""
    start = time.process_time()
    for price in list_prices(number, phase)[:count]:
        result = _embedded.sql(SQL, epsilon=price)
        describe_answer(result)
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
    loads: dict[str, Load], rounds: list[Round], many: str, why: str
) -> list[dict[str, object]]:
    """The lines of the phases without kills."""
    alone, repeats, fresh = loads["alone"], loads["repeats"], loads["fresh"]
    middle = sorted(rounds, key=lambda turn: turn.overhead_ms)[len(rounds) // 2]
    worst = max(turn.overhead_ms for turn in rounds)
    rows = [
        write_line("repeat, one connection, median", _median(alone), 10, 1, unit="ms", why=why),
        write_line(f"repeats/s, {many}", repeats.rate, 500, 1, unit="/s", why=why, least=True),
        write_line(f"repeat, {many}, p99", _p99(repeats), 300, 1, unit="ms", why=why),
        write_line("new answer, CPU over embedded", middle.overhead_ms, 5, 1, unit="ms", why=why),
        write_line(f"... the worst of {ROUNDS} rounds", worst, 5, 1, unit="ms", why="stated"),
        write_line("new answer embedded, CPU", middle.embedded_ms, 1, 1, unit="ms", why="stated"),
        write_line(f"new answers/s, {many}", fresh.rate, 1, 1, unit="/s", why="stated"),
        write_line(f"new answer, {many}, median", _median(fresh), 1, 1, unit="ms", why="stated"),
        write_line(f"new answer, {many}, p99", _p99(fresh), 1, 1, unit="ms", why="stated"),
    ]
    named = {"repeat": repeats, "new answer": middle.served, f"new answer, {many}": fresh}
    for name, phase in named.items():
        rows += [
            write_line(f"{process} CPU a {name}", spent, 1, 1, unit="ms", why="stated")
            for process, spent in phase.cpu_ms.items()
        ]
    phases = [*loads.values(), *(turn.served for turn in rounds)]
    errors = sum(phase.result.errors for phase in phases)
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
            }
            rounds = time_rounds(platform, max(5.0, seconds / 8))  # while both ledgers are short
            loads["fresh"] = load(platform, analysts, seconds, phase=2)
            killed = load_and_kill(platform, min(analysts, 8), kills)
            phases = [*loads.values(), *(turn.served for turn in rounds)]
            results = [killed, *(phase.result for phase in phases)]
            checks = check_ledger(platform, set().union(*(r.releases for r in results)))
    rows = list_rows(loads, rounds, f"{analysts} analysts", why)
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
