"""Live sessions of an attacker against a curator and a gateway on loopback, for bench/timing.py.

Two datasets have the same catalog. One has a person more, with as many rows as one person may have
(100,000), beside 50 others with one row: with that person the engine works several times as long
(no person can have more rows in a plan). In a session the attacker asks new questions of fresh
shapes in two streams at once, as many as it can begin in a given time, while a third stream of its
own probes: previews and /healthz at the gateway, the budget and a free repeat at the curator. What
it sees is how long each of them takes.

With a schedule its questions are tuned: of sums and medians, few and many, it asks those whose work
comes nearest to the end of their slots (`bench/timing.py --replay` states the shares). Their noise
has the same scale whatever their shape, so its table is built once, and what is left of the work is
data. Without a schedule, which is the test of the attack itself, it asks the same questions one
after the other: the least time of many tells most, and a second stream would blur the first.

Every so many sessions curator and gateway are started anew, and the next session is their first: a
cold start.
"""

from __future__ import annotations

import http.client
import itertools
import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from common import write_catalog

from dither import steward
from dither.identity import TokenStore
from dither.privacy.ledger.misses import count_misses
from dither.state import State

MAIN = "from dither.cli import main; main()"
WORLDS = ("without", "with")
OTHERS = 50
VICTIM_ROWS = 100_000
SESSIONS_A_START = 20
"""Sessions before curator and gateway are started anew."""
PROBES = ("preview", "healthz", "budget", "repeat")
TUNED = ("MEDIAN", 1)
CANDIDATES = (("SUM", 1), ("SUM", 4), ("SUM", 8), TUNED, ("MEDIAN", 2), ("MEDIAN", 3))
"""Questions by their aggregate and how many of it they have: each reads all rows again."""


@dataclass(frozen=True)
class Tactics:
    """What the attacker asks in a session, in how many streams, and whether another one probes.

    Each stream asks one question after the other, and begins none after so many seconds.
    """

    kind: tuple[str, int]
    streams: int
    seconds: float
    has_probes: bool


ON_SCHEDULE = Tactics(TUNED, 2, 0.8, has_probes=True)
AT_ONCE = Tactics(TUNED, 1, 1.6, has_probes=False)
COLUMNS = """\
      ward: {type: category, values: [north, south], other: keep, nulls: keep}
      age: {type: integer, bounds: [0, 100000], nulls: keep, provenance: this benchmark}
"""
PURPOSE = {
    "question": "How much does time tell?",
    "population": "people whom a benchmark invented",
    "recipient": "readers of the benchmark",
}
SECONDS_TO_START = 120


def write_question(number: int, kind: tuple[str, int] = TUNED) -> str:
    """A question whose work grows with rows; another number is another shape."""
    aggregate, count = kind
    columns = [
        f"{aggregate}(CASE WHEN age > {number + 1_111 * step} THEN age ELSE 0 END) AS a{step}"
        for step in range(count)
    ]
    return f"SELECT ward, {', '.join(columns)} FROM visits GROUP BY ward"


def register(folder: Path, world: str, *, sizes: tuple[int, int] = (OTHERS, VICTIM_ROWS)) -> Path:
    """A dataset of the name of its world."""
    others, victim_rows = sizes
    folder.mkdir(parents=True)
    rows = [f"{p},{('north', 'south')[p % 2]},{p % 90}" for p in range(others)]
    if world == "with":
        draws = random.Random(1)
        rows += [
            f"victim,{draws.choice(('north', 'south'))},{draws.randrange(100_000)}"
            for _ in range(victim_rows)
        ]
    (folder / "visits.csv").write_text("\n".join(["person,ward,age", *rows]))
    file = folder / "catalog.yaml"
    text = write_catalog(
        COLUMNS, population=world, rows_per_unit=victim_rows, max_rows=others + victim_rows
    )
    file.write_text(text.replace("bench", world))
    done = steward.register(file, dev=True)
    terms = {"epsilon": 10**6, "ceiling": 10**6, "purpose": PURPOSE}
    steward.open_pot(State.beside(file), done.catalog, "total", **terms)
    return file


class TimedPlatform:
    """A curator with a schedule or without, and a gateway, as processes of their own."""

    def __init__(self, folder: Path, files: dict[str, Path], slot_s: float) -> None:
        self.home = folder / "home"
        path = folder / "s"
        store = TokenStore(self.home)
        self.tokens = {
            name: store.create_token(f"eve-{name}", name, "analyst", ("total",), 1)[0]
            for name in files
        }
        store.close()
        self._ledgers = [steward.open_ledger(State.beside(file)) for file in files.values()]
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = int(probe.getsockname()[1])
        where = ("--home", self.home, "--socket", path)
        self._commands = (
            ("curator", *files.values(), *where, "--slot", slot_s),
            ("gateway", "--socket", path, "--port", self.port),
        )
        self._path = path
        self._processes: list[subprocess.Popen[bytes]] = []
        self.start()

    def start(self) -> None:
        """Start curator and gateway, and wait until they listen."""
        curator, gateway = self._commands
        self._processes = [self._start(*curator)]
        await_listener(lambda: _try_unix(self._path))
        self._processes.append(self._start(*gateway))
        await_listener(lambda: _try_tcp(self.port))

    def restart(self) -> None:
        """Stop both processes and start them anew: whoever asks next is the first."""
        self._end_processes()
        self.start()

    def _start(self, *words: object) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-c", MAIN, *map(str, words)]
        return subprocess.Popen(command, stderr=subprocess.DEVNULL)

    def count_misses(self) -> int:
        """Misses of all datasets so far."""
        return sum(map(count_misses, self._ledgers))

    def stop(self) -> None:
        self._end_processes()
        for ledger in self._ledgers:
            ledger.close()

    def _end_processes(self) -> None:
        for process in self._processes:
            process.send_signal(signal.SIGTERM)
        for process in self._processes:
            process.wait(60)


def _try_unix(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        return probe.connect_ex(str(path)) == 0


def _try_tcp(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def await_listener(is_listening) -> None:
    end = time.monotonic() + SECONDS_TO_START
    while time.monotonic() < end:
        if is_listening():
            return
        time.sleep(0.05)
    raise TimeoutError


class Stream:
    """One HTTP connection of the attacker to one dataset."""

    def __init__(self, platform: TimedPlatform, dataset: str) -> None:
        self._http = http.client.HTTPConnection("127.0.0.1", platform.port, timeout=120)
        self._token = platform.tokens[dataset]
        self._path = f"/api/v1/datasets/{dataset}"

    def time_call(self, method: str, path: str, body: object = None) -> float:
        """The seconds of a call; it must succeed."""
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"}
        start = time.perf_counter()
        self._http.request(method, path, None if body is None else json.dumps(body), headers)
        reply = self._http.getresponse()
        content = reply.read()
        taken = time.perf_counter() - start
        if reply.status != 200:
            raise RuntimeError(content.decode())
        return taken

    def ask(self, sql: str, epsilon: str) -> float:
        return self.time_call("POST", f"{self._path}/sql", {"sql": sql, "epsilon": epsilon})

    def probe(self, kind: str) -> float:
        if kind == "healthz":
            return self.time_call("GET", "/healthz")
        if kind == "budget":
            return self.time_call("GET", f"{self._path}/budget")
        body = {"sql": write_question(0), "epsilon": "1"}
        return self.time_call("POST", f"{self._path}/{'sql' if kind == 'repeat' else kind}", body)

    def close(self) -> None:
        self._http.close()


class Attacker:
    """Runs sessions, each in a world that a coin chose, and notes all times of each."""

    def __init__(self, platform: TimedPlatform, tactics: Tactics) -> None:
        self._platform = platform
        self._tactics = tactics
        self._shapes = itertools.count(1)
        self._sessions = 0
        self._connect()
        for world in WORLDS:
            for _ in range(3):
                self._probing[world].probe("repeat")

    def _connect(self) -> None:
        self._streams = {
            world: [Stream(self._platform, world) for _ in range(self._tactics.streams)]
            for world in WORLDS
        }
        self._probing = {world: Stream(self._platform, world) for world in WORLDS}

    def close(self) -> None:
        """Close all connections."""
        for world in WORLDS:
            for stream in (*self._streams[world], self._probing[world]):
                stream.close()

    def run_session(self, world: str) -> dict[str, object]:
        """Times of the asks of each stream in order, and of the probes during them."""
        is_cold = self._sessions % SESSIONS_A_START == SESSIONS_A_START - 1
        self._sessions += 1
        if is_cold:
            self.close()
            self._platform.restart()
            self._connect()
        probes: dict[str, list[float]] = {kind: [] for kind in PROBES}
        done = threading.Event()
        thread = threading.Thread(target=self._probe, args=(world, probes, done))
        if self._tactics.has_probes:
            thread.start()
        end = time.monotonic() + self._tactics.seconds
        with ThreadPoolExecutor(self._tactics.streams) as threads:
            asks = list(threads.map(partial(self._ask, end), self._streams[world]))
        done.set()
        if self._tactics.has_probes:
            thread.join()
        flat = [taken for times in asks for taken in times]
        return {"world": world, "asks": flat, "is_cold": is_cold, **probes}

    def _ask(self, end: float, stream: Stream) -> list[float]:
        """Ask questions of fresh shapes, one after the other, until the time is over."""
        times = []
        while time.monotonic() < end:
            question = write_question(next(self._shapes), self._tactics.kind)
            times.append(stream.ask(question, "1"))
        return times

    def _probe(self, world: str, probes: dict[str, list[float]], done: threading.Event) -> None:
        while not done.is_set():
            for kind in PROBES:
                probes[kind].append(self._probing[world].probe(kind))
                if done.is_set():
                    return


def run_sessions(slot_s: float, seconds: float, folder: Path, out: Path) -> int:
    """Run sessions for so long, append them to a file, and return the misses meanwhile.

    A miss is told to all and lengthens all later slots. So sessions up to it count, with it, and
    then both datasets are registered anew: every session meets a schedule without misses.
    """
    end = time.monotonic() + seconds
    misses = 0
    number = 0
    while time.monotonic() < end:
        number += 1
        misses += _run_until_miss(slot_s, end, folder / f"deployment{number}", out)
    return misses


def _run_until_miss(slot_s: float, end: float, folder: Path, out: Path) -> int:
    """Run sessions until one of them sees a miss, or the time is over."""
    os.environ["XDG_STATE_HOME"] = str(folder / "xdg")
    files = {world: register(folder / world, world) for world in WORLDS}
    platform = TimedPlatform(folder, files, slot_s)
    coin = random.SystemRandom()
    misses = 0
    try:
        attacker = Attacker(platform, ON_SCHEDULE if slot_s else AT_ONCE)
        while time.monotonic() < end and not misses:
            session = attacker.run_session(coin.choice(WORLDS))
            if slot_s:
                misses = platform.count_misses()
            with out.open("a") as opened:
                facts = {"slot_s": slot_s, "misses": misses}
                opened.write(json.dumps(session | facts) + "\n")
        attacker.close()
    finally:
        platform.stop()
    return misses
