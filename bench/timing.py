"""Attacks on the time of answers: can a session tell whether one person is in the data?

1. *Replay*: work times are recorded here without and with a person; the schedule is a pure function
   (`dither.curator.schedule.find_end`) and is replayed on them over many simulated sessions. The
   attacker knows both laws of work and the law of delays, and decides by the likelihood of a whole
   session, the first miss included. Where it may, it tunes questions to end near their slots' end.
2. *Live* (`--live`, nine minutes, some 200 sessions with a schedule and some without; sessions are
   appended to a file in the folder that `--sessions` names, so that several runs add up;
   `--verdicts` judges them, and writes one verdict a session beside them; `--at-once` runs the test
   of the attack alone, three minutes without a schedule): `live_sessions.py` has the attack,
   `session_attack.py` the verdicts.
3. *Latency* (`--latency`): what the schedule adds on the invented clinic of `dither serve`.

What is claimed: bits leaked by misses, at most log2 of the possible histories, and a bound on any
session given what one person adds to the work (docs/proofs/schedule.md). No (eps_t, delta_t) is
claimed without that condition.
"""

from __future__ import annotations

import gc
import json
import os
import tempfile
import time
from math import comb, expm1, log2
from pathlib import Path

import numpy as np
from common import options, report
from live_sessions import (
    CANDIDATES,
    OTHERS,
    VICTIM_ROWS,
    Stream,
    TimedPlatform,
    register,
    run_sessions,
    write_question,
)
from session_attack import attack, find_upper_end

from dither import steward
from dither.cli.clinic import write_clinic
from dither.cli.served import DEMO_PEOPLE, SLOT_S
from dither.curator.schedule import (
    DELAY_SHARE,
    MOST_MISSES,
    WORK_SHARE,
    count_slots,
    find_slot_length,
)
from dither.curator.work_bounds import bound_work
from dither.embedded import EmbeddedCurator
from dither.session import Connection
from dither.state import State

QUESTIONS = 30
"""Questions of one simulated session: past ten misses every slot has its greatest length."""
PEOPLE = 5_000
SHARE_SAMPLES = 9
LIVE_SECONDS = 500.0
AT_ONCE_SECONDS = 170.0
DEMO_QUESTIONS = (
    "SELECT COUNT(*) AS n FROM patients WHERE smoker",
    "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward",
    "SELECT ward, AVG(wait) AS w FROM visits GROUP BY ward",
    "SELECT SUM(cost) AS s FROM visits",
    "SELECT county, AVG(age) AS a FROM patients GROUP BY county",
    "SELECT MEDIAN(wait) AS m FROM visits",
    "SELECT AVG(price) AS p FROM prescriptions",
)
PURPOSE = {
    "question": "How late are answers on the schedule?",
    "population": "people whom a benchmark invented",
    "recipient": "readers of the benchmark",
}


# -- replay


def record_work(cons: list[Connection], count: int) -> list[np.ndarray]:
    """CPU seconds of fresh answers in each world, taken in turns, one thread for the engine.

    What a curator does in a slot is timed: pricing, charging, measuring, noise and storing. Waits
    for the disk and for other processes are left out: on a machine that others use they are most of
    the time, and they are no work of the question.
    """
    times: list[list[float]] = [[] for _ in cons]
    for number in range(-2, count):
        pairs = list(zip(cons, times, strict=True))
        for con, kept in pairs if number % 2 else reversed(pairs):
            request = con.request(write_question(number), epsilon=1)
            start = time.process_time()
            con._curator.kernel.release(request)
            if number >= 0:
                kept.append(time.process_time() - start)
    return [np.array(kept) for kept in times]


def list_share(con: Connection, kind: tuple[str, int]) -> dict[str, object]:
    """How much of its slots the work of a question takes, with the person."""
    taken = []
    for number in range(SHARE_SAMPLES):
        request = con.request(write_question(10_000 + number, kind), epsilon=1)
        held = SLOT_S * count_slots(SLOT_S, bound_work(con._curator.kernel.price(request)))
        start = time.process_time()
        con._curator.kernel.release(request)
        taken.append((time.process_time() - start) / held)
    aggregate, count = kind
    label = f"{count} x {aggregate} by ward: share of its slots"
    return write_line(label, float(np.median(taken)), 1, 1, why="stated")


def find_chances(work: np.ndarray, held: float) -> float:
    """How likely a question of these works misses what it holds."""
    return float(np.mean(np.exp(np.minimum(0, -(held - work) / (DELAY_SHARE * held)))))


def replay_sessions(
    out: np.ndarray, inside: np.ndarray, slots: int, count: int, *, has_delay: bool = True
) -> float:
    """The share of simulated sessions in which the attacker is right."""
    draws = np.random.default_rng(7)
    is_in = draws.random(count) < 0.5
    misses = np.zeros(count, dtype=int)
    score = np.zeros(count)
    lengths = np.array([slots * find_slot_length(SLOT_S, m) for m in range(MOST_MISSES + 1)])
    chances = np.array([[find_chances(work, held) for work in (out, inside)] for held in lengths])
    if not has_delay:
        chances = np.array([[np.mean(w > held) for w in (out, inside)] for held in lengths])
    chances = np.clip(chances, 1e-12, 1 - 1e-12)
    for _ in range(QUESTIONS):
        held = lengths[misses]
        work = np.where(is_in, draws.choice(inside, count), draws.choice(out, count))
        delay = draws.exponential(1, count) if has_delay else 0
        is_miss = (work + delay * DELAY_SHARE * held > held) & (misses < MOST_MISSES)
        low, high = chances[misses].T
        told = np.where(is_miss, np.log(high / low), np.log((1 - high) / (1 - low)))
        score += np.where(misses < MOST_MISSES, told, 0)
        misses += is_miss
    guess = np.where(np.abs(score) > 1e-12, score > 0, draws.random(count) < 0.5)
    return float(np.mean(guess == is_in))


def tune(out: np.ndarray, inside: np.ndarray, share: float) -> tuple[np.ndarray, np.ndarray]:
    """Works of a question that is so much heavier that without the person it takes this share."""
    factor = share * SLOT_S / np.median(out)
    return factor * out, factor * inside


def replay_tuned(out: np.ndarray, inside: np.ndarray, count: int, *, has_delay: bool) -> float:
    """The best of several tunings: from rare misses to almost certain ones."""
    shares = (0.8, 0.9, 0.95, 0.97, 0.98, 0.99, 1.0)
    return max(
        replay_sessions(*tune(out, inside, share), 1, count, has_delay=has_delay)
        for share in shares
    )


def replay_bounded(out: np.ndarray, slots: int, count: int) -> float:
    """A person with whom the work is ten times as long, and all that its public bound allows."""
    inside = WORK_SHARE * slots * SLOT_S * out / np.max(out)
    return replay_sessions(inside / 10, inside, slots, count)


def decide_by_times(out: np.ndarray, inside: np.ndarray, count: int) -> float:
    """The attacker where answers leave when they are ready: the mean of a session's times."""
    draws = np.random.default_rng(8)
    middle = (out.mean() + inside.mean()) / 2
    is_in = draws.random(count) < 0.5
    means = np.array([draws.choice(w, (count, 5)).mean(axis=1) for w in (out, inside)])
    seen = np.where(is_in, means[1], means[0])
    return float(np.mean((seen > middle) == (is_in == (inside.mean() > out.mean()))))


def bound_session(moved_s: float) -> float:
    """The share of right sessions that no attacker passes, if a person moves work by so much."""
    mean = DELAY_SHARE * SLOT_S
    return 0.5 + sum(expm1(moved_s / (mean * 2**m)) for m in range(MOST_MISSES)) / 2


def count_bits() -> float:
    """Log2 of the histories of misses over so many questions: which of them missed."""
    return log2(sum(comb(QUESTIONS, misses) for misses in range(MOST_MISSES + 1)))


def list_replays(sessions: int, samples: int, *, is_judged: bool) -> list[dict[str, object]]:
    quick = "" if is_judged else "--quick reports and does not judge"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ["DITHER_THREADS"] = "1"
        cons = []
        for world in ("without", "with"):
            os.environ["XDG_STATE_HOME"] = str(folder / f"xdg {world}")
            cons.append(Connection(EmbeddedCurator(register(folder / world, world))))
        priced = cons[0]._curator.kernel.price(cons[0].request(write_question(0), epsilon=1))
        slots = count_slots(SLOT_S, bound_work(priced))
        shares = [list_share(cons[1], kind) for kind in CANDIDATES]
        gc.collect()
        gc.freeze()  # as a curator does before it listens: a full collection takes 70 ms of CPU
        out, inside = record_work(cons, samples)
        gc.unfreeze()
    del os.environ["DITHER_THREADS"]
    bounded = out * (1 + 1 / PEOPLE)
    moved_s = SLOT_S / PEOPLE
    base = "what the schedule is measured against"
    missing = "only where work passes its public bound: a miss tells it, at most ten ever"
    heavy = f"a person of {VICTIM_ROWS:,} rows beside {OTHERS}"
    return [
        write_line(f"{heavy}: CPU without", float(np.median(out)), 1, 1, unit="s", why="stated"),
        write_line("... CPU with", float(np.median(inside)), 1, 1, unit="s", why="stated"),
        write_line("... no schedule", decide_by_times(out, inside, sessions), 0.5, 1, why=base),
        write_line(
            f"... its {slots} slots", replay_sessions(out, inside, slots, sessions), 0.5, 1.04,
            why=quick,
        ),
        write_line(
            "a person who makes it ten times slower",
            replay_sessions(out, 10 * out, slots, sessions), 0.5, 1.04, why=quick,
        ),
        write_line(
            "... up to the bound of its work",
            replay_bounded(out, slots, sessions), 0.5, 1.04, why=quick,
        ),
        write_line("a person of 1/5000 of the work, tuned: slots without delay",
                   replay_tuned(out, bounded, sessions, has_delay=False), 0.5, 1, why=base),
        write_line("... slots and delay",
                   replay_tuned(out, bounded, sessions, has_delay=True), 0.5, 1.04, why=quick),
        write_line("... proved for any session", bound_session(moved_s), 0.5, 1.04),
        write_line("ten times slower and tuned past its bound: slots and delay",
                   replay_tuned(out, out * 10, sessions, has_delay=True), 0.5, 1, why=missing),
        *shares,
        write_line("bits of miss histories", count_bits(), QUESTIONS, 1, unit="bits", why="stated"),
    ]  # fmt: skip


# -- live


def list_live(file: Path, seconds: float, *, is_judged: bool) -> list[dict[str, object]]:
    """Run sessions with the schedule and without it, and judge all that the file holds."""
    for slot_s, share in ((SLOT_S, 0.9), (0.0, 0.1)):
        run_live(file, slot_s, share * seconds)
    return judge_sessions(file, is_judged=is_judged)


def run_live(file: Path, slot_s: float, seconds: float) -> None:
    """Run sessions for so long, and append them to the file."""
    with tempfile.TemporaryDirectory() as name:
        run_sessions(slot_s, seconds, Path(name), file)


def judge_sessions(file: Path, *, is_judged: bool) -> list[dict[str, object]]:
    """Guess the world of every session that the file holds, and write the verdicts beside it."""
    sessions = [json.loads(text) for text in file.read_text().splitlines()]
    rows = []
    for slot_s, name in ((0.0, "without"), (SLOT_S, "with")):
        chosen = [session for session in sessions if session["slot_s"] == slot_s]
        if len(chosen) < 50:
            continue
        verdicts = attack(chosen)
        right, count = sum(verdicts), len(verdicts)
        write_verdicts(file.with_name(f"verdicts-{name}.jsonl"), chosen, verdicts)
        label = f"{count} live sessions {name} a schedule"
        enough = "" if is_judged and count >= 600 else "fewer than 600, or --quick"
        if slot_s:
            end = find_upper_end(right, count)
            cold = [verdict for verdict, session in zip(verdicts, chosen, strict=True)
                    if session["is_cold"]]  # fmt: skip
            share = sum(cold) / max(1, len(cold))
            misses = sum(session["misses"] > 0 for session in chosen)
            rows += [write_line(f"{label}: right", right / count, 0.5, 1, why="stated"),
                     write_line(f"{label}: upper 95% end", end, 0.5, 1.1, why=enough),
                     write_line(f"... {len(cold)} of them first after a start", share, 0.5, 1,
                                why="stated"),
                     write_line("... with a miss", float(misses), 1, 1, why="stated")]  # fmt: skip
        else:
            rows.append(write_line(f"{label}: right", right / count, 0.95, 1, least=True))
    return rows


def write_verdicts(file: Path, sessions: list[dict[str, object]], verdicts: list[bool]) -> None:
    """Write for every session its world and whether the attacker was right, one a line."""
    pairs = zip(sessions, verdicts, strict=True)
    lines = [json.dumps({"world": s["world"], "is_right": verdict}) for s, verdict in pairs]
    file.write_text("\n".join(lines) + "\n")


# -- latency


def list_latencies(repeats: int, *, is_judged: bool) -> list[dict[str, object]]:
    """The median latency of new answers on the invented clinic, with the schedule and without."""
    medians = {}
    for slot_s in (0.0, SLOT_S):
        with tempfile.TemporaryDirectory() as name:
            medians[slot_s] = time_demo(Path(name), slot_s, repeats)
    added = (medians[SLOT_S] - medians[0.0]) * 1e3
    why = "" if is_judged else "--quick reports and does not judge"
    return [
        write_line("demo, new answer, at once", medians[0.0] * 1e3, 1, 1, unit="ms", why="stated"),
        write_line("demo, added latency, median", added, 150, 1, unit="ms", why=why),
    ]


def time_demo(folder: Path, slot_s: float, repeats: int) -> float:
    os.environ["XDG_STATE_HOME"] = str(folder / "xdg")
    write_clinic(folder / "clinic", DEMO_PEOPLE, declares_people=True)
    file = folder / "clinic" / "clinic.yaml"
    done = steward.register(file, dev=True)
    terms = {"epsilon": 10**6, "ceiling": 10**6, "purpose": PURPOSE}
    steward.open_pot(State.beside(file), done.catalog, "total", **terms)
    platform = TimedPlatform(folder, {"clinic": file}, slot_s)
    try:
        stream = Stream(platform, "clinic")
        times = []
        for number in range(repeats + 1):
            for sql in DEMO_QUESTIONS:
                taken = stream.ask(sql, f"1/{1000 + number}")
                times += [taken] if number else []
        print(json.dumps({"slot_s": slot_s, "misses": platform.count_misses()}))
        return float(np.median(times))
    finally:
        platform.stop()


def write_line(
    name: str,
    value: float,
    base: float,
    target: float,
    *,
    unit: str = "",
    why: str = "",
    least: bool = False,
) -> dict[str, object]:
    """A line of the table; with `why` it is reported and not judged."""
    ratio = value / base
    is_met = ratio >= target if least else ratio <= target
    facts = {"name": name, "ours_s": value, "base_s": base, "ratio": ratio, "target": target}
    return facts | {"ok": None if why else is_met, "unit": unit} | ({"why": why} if why else {})


def main() -> None:
    parts = ("live", "at-once", "replay", "latency", "verdicts")
    chosen = options(__doc__ or "", *parts, folder="sessions")
    is_judged = not chosen.quick
    runs_all = not any(getattr(chosen, part.replace("-", "_")) for part in parts)
    rows: list[dict[str, object]] = []
    with tempfile.TemporaryDirectory() as name:
        file = Path(chosen.sessions or name) / "sessions.jsonl"
        if chosen.replay or runs_all:
            sessions, samples = (2_000, 30) if chosen.quick else (100_000, 300)
            rows += list_replays(sessions, samples, is_judged=is_judged)
        if chosen.latency or runs_all:
            rows += list_latencies(3 if chosen.quick else 20, is_judged=is_judged)
        if chosen.live or runs_all:
            seconds = 40.0 if chosen.quick else LIVE_SECONDS
            rows += list_live(file, seconds, is_judged=is_judged)
        if chosen.at_once:
            run_live(file, 0.0, 40.0 if chosen.quick else AT_ONCE_SECONDS)
        if chosen.verdicts or chosen.at_once:
            rows += judge_sessions(file, is_judged=is_judged)
    report("timing", rows, ("numpy", "duckdb"), as_json=chosen.json)


if __name__ == "__main__":
    main()
