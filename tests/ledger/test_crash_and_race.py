"""Several processes at once, and processes that die: what was charged stays charged, and no charge
is made twice."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from fractions import Fraction
from multiprocessing import get_context
from multiprocessing.queues import Queue
from pathlib import Path

import pytest

from dither.errors import BudgetError, RefusedError
from dither.privacy.ledger.database import Pool
from dither.privacy.ledger.steward_ledger import StewardLedger
from tests.ledger.ledger_place import Place, release, reserve

ROOT = Path(__file__).parents[2]
CHILD = """
import sys, time
from pathlib import Path
from tests.ledger.ledger_place import Place, reserve, release, TIME
ledger = Place(Path(sys.argv[1]), *sys.argv[2:]).open()
release(ledger)
reservation = reserve(ledger, "0.2")
print("reserved", flush=True)
time.sleep(60)
"""


def test_a_crash_between_reserve_and_commit_keeps_the_charge(both: Place) -> None:
    both.create().close()
    command = [sys.executable, "-c", CHILD, str(both.folder), *([both.url] if both.url else [])]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None and child.stdout.readline() == b"reserved\n"
        child.send_signal(signal.SIGKILL)
    assert (
        both.url or both.path.with_name("ledger.sqlite-wal").stat().st_size
    )  # it died with its log
    report = both.verify()
    assert report.ok and (report.entries, report.releases) == (4, 1)
    ledger = both.open()
    assert ledger.pot("total").spent == Fraction(3, 10)
    assert len(ledger.history(unreleased=True)) == 2 and len(ledger.history()) == 1
    with pytest.raises(RefusedError, match="suspended"):  # what died may have been killed by a row
        reserve(ledger, "0.7")
    ledger.clear_incidents("the machine lost power during the night")
    release(ledger, "0.7")
    with pytest.raises(BudgetError):
        reserve(ledger, "0.01")
    assert both.verify().ok


def _spend(place: Place, start: threading.Barrier, paid: Queue[int]) -> None:
    ledger, count = place.open(), 0
    start.wait(20)
    try:
        while True:
            release(ledger, "1/24")
            count += 1
    except BudgetError:
        paid.put(count)


def test_four_processes_race_for_a_pot_that_fits_exactly_24(both: Place) -> None:
    both.create(cap=1).close()
    context = get_context("fork")
    start, paid = context.Barrier(4), context.Queue()
    workers = [context.Process(target=_spend, args=(both, start, paid)) for _ in range(4)]
    for worker in workers:
        worker.start()
    counts = [paid.get(timeout=30) for _ in workers]
    for worker in workers:
        worker.join(30)
    assert [worker.exitcode for worker in workers] == [0] * 4
    assert sum(counts) == 24
    report = both.verify()
    assert report.ok and report.releases == 24 and report.pots[0].left == 0
    assert both.open().pot("total").spent == 1


def test_threads_share_one_ledger(both: Place) -> None:
    ledger = both.create(cap=1)
    refused: list[bool] = []

    def spend() -> None:
        for _ in range(8):
            try:
                release(ledger, "1/20")
            except BudgetError:
                refused.append(True)

    threads = [threading.Thread(target=spend) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(refused) == 4 and both.verify().releases == 20


def _release_in_child(ledger: StewardLedger, parents: Pool) -> None:
    assert ledger._database.pool is not parents
    release(ledger, "0.1")


def test_a_forked_child_uses_connections_of_its_own(both: Place) -> None:
    ledger = both.create()
    release(ledger)
    context = get_context("fork")
    children = [
        context.Process(target=_release_in_child, args=(ledger, ledger._database.pool))
        for _ in range(2)
    ]
    for child in children:
        child.start()
    release(ledger)
    for child in children:
        child.join(30)
    assert [child.exitcode for child in children] == [0, 0]
    assert ledger.pot("total").spent == Fraction(4, 10)
    assert both.verify().ok


def test_creating_at_once_makes_one_ledger(both: Place) -> None:
    context = get_context("fork")
    made = context.Queue()

    def create() -> None:
        try:
            both.create().close()
            made.put(True)
        except Exception as error:
            made.put(type(error).__name__)

    children = [context.Process(target=create) for _ in range(3)]
    for child in children:
        child.start()
    results = [made.get(timeout=30) for _ in children]
    for child in children:
        child.join(30)
    assert results.count(True) == 1 and results.count("RefusedError") == 2
    assert both.verify().ok
    assert (
        both.url or [file.name for file in both.path.parent.iterdir() if "new" in file.name] == []
    )
