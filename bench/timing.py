"""Attacks on the time of answers: can a session tell whether one person is in the data?

The attacker sees when every answer of a session leaves, chooses each question to end just before
its slot (boundary-tuned), and decides at the end by the likelihood of the whole session, the first
miss included. It knows the law of work times without and with the victim, and the law of delays.

1. Work times of a question are recorded here, on the invented clinic, without and with one victim.
2. The schedule is a pure function (`dither.curator.schedule.find_end`): it is replayed on recorded
   times, scaled to the boundary of the slot, over many simulated sessions.

Live sessions against a curator are not built: its line says so.

What is claimed: bits leaked by misses, at most log2 of the possible histories. No (eps_t, delta_t)
is claimed: the work of one person is not bounded by a proof.
"""

from __future__ import annotations

import os
import tempfile
import time
from math import comb, log2
from pathlib import Path

import numpy as np
from common import options, report, write_catalog

from dither import steward
from dither.curator.schedule import DELAY_SHARE, MOST_MISSES, find_end, find_slot_length
from dither.embedded import EmbeddedCurator
from dither.session import Connection
from dither.state import State

PEOPLE = 5_000
VISITS = 3
SLOT_S = 0.5
QUESTIONS = 30
"""Questions of one session: past ten misses every slot has its greatest length."""
COLUMNS = """\
      ward: {type: category, values: [north, south], other: keep, nulls: keep}
      age: {type: integer, bounds: [0, 110], nulls: keep, provenance: life tables}
"""
PURPOSE = {
    "question": "How much does time tell?",
    "population": "people whom a benchmark invented",
    "recipient": "readers of the benchmark",
}
SQL = "SELECT ward, COUNT(*) AS n, AVG(age) AS a FROM visits GROUP BY ward"


def register(folder: Path, *, has_victim: bool) -> Path:
    """The clinic, with the victim's visits or without them."""
    folder.mkdir()
    people = range(PEOPLE if has_victim else PEOPLE - 1)
    rows = [f"{p},{('north', 'south')[p % 2]},{p % 90}" for p in people for _ in range(VISITS)]
    (folder / "visits.csv").write_text("\n".join(["person,ward,age", *rows]))
    file = folder / "clinic.yaml"
    file.write_text(
        write_catalog(COLUMNS, population="bench", rows_per_unit=VISITS, max_rows=10**5)
    )
    done = steward.register(file, dev=True)
    state = State.beside(file)
    steward.open_pot(state, done.catalog, "total", epsilon=10**6, ceiling=10**6, purpose=PURPOSE)
    return file


def record_work(cons: tuple[Connection, Connection], count: int) -> tuple[np.ndarray, np.ndarray]:
    """Seconds of fresh answers without and with the victim, taken in turns."""
    times: tuple[list[float], list[float]] = ([], [])
    for con in cons:
        con.sql(SQL, epsilon=1, fresh=True)
    for _ in range(count):
        for con, kept in zip(cons, times, strict=True):
            start = time.perf_counter()
            con.sql(SQL, epsilon=1, fresh=True)
            kept.append(time.perf_counter() - start)
    return np.array(times[0]), np.array(times[1])


def tune(work: np.ndarray, slot_s: float) -> float:
    """The factor by which a question must be heavier so that half of its answers miss the slot."""
    return float((1 - DELAY_SHARE / 2) * slot_s / np.median(work))


def find_miss_chance(times: np.ndarray, factor: float, slot_s: float, has_delay: bool) -> float:
    """How likely a scaled question misses its slot, by the recorded times."""
    ready = (slot_s - factor * times) / (DELAY_SHARE * slot_s)
    return float(np.mean(np.clip(1 - ready, 0, 1) if has_delay else ready < 0))


def replay_sessions(out: np.ndarray, inside: np.ndarray, count: int, *, has_delay: bool) -> float:
    """The share of simulated sessions in which the attacker is right."""
    draws = np.random.default_rng(7)
    right = 0
    slots = [find_slot_length(SLOT_S, misses) for misses in range(MOST_MISSES + 1)]
    factors = [tune(out, slot) for slot in slots]
    chances = [
        [find_miss_chance(times, factor, slot, has_delay) for times in (out, inside)]
        for factor, slot in zip(factors, slots, strict=True)
    ]
    for _ in range(count):
        is_in = bool(draws.integers(2))
        times = inside if is_in else out
        work = times[draws.integers(len(times), size=QUESTIONS)]
        delays = draws.random(QUESTIONS) if has_delay else np.zeros(QUESTIONS)
        misses = 0
        score = 0.0
        for seconds, delay in zip(work, delays, strict=True):
            if misses >= MOST_MISSES:
                break
            low, high = (min(max(p, 1e-9), 1 - 1e-9) for p in chances[misses])
            after, _ = find_end(SLOT_S, misses, 1, factors[misses] * float(seconds), float(delay))
            is_miss = after > misses
            score += np.log(high / low) if is_miss else np.log((1 - high) / (1 - low))
            misses = after
        right += (score > 0) == is_in if score else bool(draws.integers(2)) == is_in
    return right / count


def decide_by_times(out: np.ndarray, inside: np.ndarray, count: int) -> float:
    """The same attacker where answers leave when they are ready: the mean of a session's times."""
    draws = np.random.default_rng(8)
    middle = (out.mean() + inside.mean()) / 2
    right = 0
    for _ in range(count):
        is_in = bool(draws.integers(2))
        times = inside if is_in else out
        mean = times[draws.integers(len(times), size=QUESTIONS)].mean()
        right += (mean > middle) == (is_in == (inside.mean() > out.mean()))
    return right / count


def count_bits() -> float:
    """Log2 of the histories of misses over so many questions: which of them missed."""
    return log2(sum(comb(QUESTIONS, misses) for misses in range(MOST_MISSES + 1)))


def write_line(
    name: str, value: float | None, base: float, target: float, *, unit: str, why: str = ""
) -> dict[str, object]:
    """A line of the table; with `why` it is reported and not judged."""
    ratio = None if value is None else value / base
    is_met = None if why or ratio is None else ratio <= target
    facts = {"name": name, "ours_s": value, "base_s": base, "ratio": ratio, "target": target}
    return facts | {"ok": is_met, "unit": unit} | ({"why": why} if why else {})


def list_attacks(
    out: np.ndarray, inside: np.ndarray, sessions: int, *, is_judged: bool
) -> list[dict[str, object]]:
    """Each victim: the attacker's share of right sessions by chance (0.5), and as it is."""
    quick = "" if is_judged else "--quick reports and does not judge"
    rows = []
    for victim, with_victim, why in (
        ("one unit's share of the rows", out * (1 + 1 / PEOPLE), quick),
        ("work recorded with the victim", inside, "the machine's load differs between recordings"),
        ("ten times slower", out * 10, "a first miss decides: work per unit is not bounded"),
    ):
        plain = decide_by_times(out, with_victim, sessions)
        alone = replay_sessions(out, with_victim, sessions, has_delay=False)
        delayed = replay_sessions(out, with_victim, sessions, has_delay=True)
        unjudged = why or "what the schedule is measured against"
        rows += [
            write_line(f"{victim}: no schedule", plain, 0.5, 1.04, unit="", why=unjudged),
            write_line(f"{victim}: slots alone", alone, 0.5, 1.04, unit="", why=unjudged),
            write_line(f"{victim}: slots and delay", delayed, 0.5, 1.04, unit="", why=why),
        ]
    return rows


def main() -> None:
    chosen = options(__doc__ or "")
    samples = 40 if chosen.quick else 400
    sessions = 2_000 if chosen.quick else 100_000
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        cons = []
        for site in ("without", "with"):
            os.environ["XDG_STATE_HOME"] = str(folder / f"xdg {site}")
            file = register(folder / site, has_victim=site == "with")
            cons.append(Connection(EmbeddedCurator(file)))
        out, inside = record_work((cons[0], cons[1]), samples)
    work = float(np.median(out))
    rows = list_attacks(out, inside, sessions, is_judged=not chosen.quick)
    rows += [
        write_line("work of the question", work, work, 1, unit="s", why="what is replayed"),
        write_line("bits of miss histories", count_bits(), QUESTIONS, 1, unit="bits", why="stated"),
        write_line(
            "600 live sessions, upper 95% end", None, 0.5, 1.1, unit="", why="not built: hours"
        ),
        write_line("added latency, median", None, 0.15, 1, unit="s", why="not measured"),
    ]
    report("timing", rows, ("numpy", "duckdb"), as_json=chosen.json)


if __name__ == "__main__":
    main()
