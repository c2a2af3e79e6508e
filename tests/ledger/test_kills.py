"""Crowds and kills: workers that die at random moments, and processes that race for the last penny;
on both stores."""

from __future__ import annotations

import os
import random
import signal
import time
from contextlib import suppress
from fractions import Fraction
from multiprocessing import get_context
from pathlib import Path

import pytest

from dither.errors import BudgetError, DitherError
from tests.case_lists import mark_rest
from tests.ledger.ledger_place import TIME, Place, reserve

PRICE = "1/100000"


def work(place: Place, sent: Path) -> None:
    """Releases for ever; writes down the number of each answer *after* commit, as a client would
    receive it."""
    descriptor = os.open(sent, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    ledger = place.open()
    while True:
        try:
            reservation = reserve(ledger, PRICE)
            ledger.commit(reservation, str(reservation.seq).encode(), {}, released_at=TIME)
            os.write(descriptor, b"%d\n" % reservation.seq)
        except BudgetError:
            return
        # a server that is busy reaping our dead siblings, or a sibling's death suspended the pot
        except DitherError:
            with suppress(DitherError):
                ledger.clear_incidents("the machine lost power during the night")
            time.sleep(0.01)


def kill_at_random(
    place: Place, folder: Path, *, processes: int, kills: int, seconds: float
) -> int:
    """Kills workers at random moments and starts others in their place; the number of answers that
    left."""
    context, dice, sent = get_context("fork"), random.Random(7), folder / "sent"
    workers = [context.Process(target=work, args=(place, sent)) for _ in range(processes)]
    for worker in workers:
        worker.start()
    end, killed = time.monotonic() + seconds, 0
    while killed < kills and time.monotonic() < end:
        time.sleep(dice.expovariate(1 / 0.03))
        place_of = dice.randrange(processes)
        victim = workers[place_of]
        assert victim.pid is not None
        os.kill(victim.pid, signal.SIGKILL)
        victim.join()
        killed += 1
        workers[place_of] = context.Process(target=work, args=(place, sent))
        workers[place_of].start()
    for worker in workers:
        assert worker.pid is not None
        os.kill(worker.pid, signal.SIGKILL)
        worker.join()
    assert killed >= min(kills, 5)
    answers = [int(line) for line in sent.read_text().splitlines()]
    assert len(answers) == len(set(answers))
    ledger = place.open()
    charged = {record.seq for record in ledger.history(unreleased=True)}
    released = {record.seq for record in ledger.history()}
    assert (
        set(answers) <= released <= charged
    )  # whatever left was stored, and whatever was stored was paid
    assert ledger.pot("total").spent == len(charged) * Fraction(PRICE)
    report = place.verify()
    assert report.ok, report
    ledger.close()
    return len(answers)


@pytest.mark.parametrize("both", mark_rest(["sqlite", "postgres"], quick=1), indirect=True)
def test_random_kills_under_load(both: Place, tmp_path: Path) -> None:
    both.create(cap=1, max_incidents=10**9).close()
    assert kill_at_random(both, tmp_path, processes=3, kills=40, seconds=6) > 0


@pytest.mark.soak
def test_two_hundred_random_kills_under_load(both: Place, tmp_path: Path) -> None:
    both.create(cap=1, max_incidents=10**9).close()
    assert kill_at_random(both, tmp_path, processes=8, kills=200, seconds=600) > 0


def race(place: Place, fits: int, processes: int) -> None:
    """Exactly `fits` charges are paid, by however many processes."""
    place.create(cap=1).close()
    context = get_context("fork")
    start, paid = context.Barrier(processes), context.Queue()

    def spend() -> None:
        ledger, count = place.open(), 0
        start.wait(60)
        try:
            while True:
                ledger.commit(reserve(ledger, f"1/{fits}"), b"", {}, released_at=TIME)
                count += 1
        except BudgetError:
            paid.put(count)

    workers = [context.Process(target=spend) for _ in range(processes)]
    for worker in workers:
        worker.start()
    counts = [paid.get(timeout=300) for _ in workers]
    for worker in workers:
        worker.join(60)
    assert sum(counts) == fits
    report = place.verify()
    assert report.ok and report.releases == fits and report.pots[0].left == 0


def test_processes_race_for_a_pot_that_fits_exactly_31(both: Place) -> None:
    race(both, 31, 4)


@pytest.mark.soak
def test_eight_processes_race_for_a_pot_that_fits_exactly_777(both: Place) -> None:
    race(both, 777, 8)
