"""A person's interrupt is no incident: it is raised after the answer was stored (rule
interrupts-wait)."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
import traceback
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from dither import BudgetError, RefusedError, steward
from dither.answer import leased
from dither.commands import CHARGED_IS_STORED
from dither.data.measure import Measurer
from dither.privacy.kernel.kernel import Kernel
from dither.privacy.kernel.lease import Lease
from dither.privacy.kernel.release import Version
from dither.privacy.ledger import Ledger
from tests.kernel.interrupted_clinic import (
    COUNT,
    Clinic,
    engine_that,
    interrupt_main_thread,
    make_clinic,
    raise_in_thread,
)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Clinic:
    """One clinic for all tests; each asks a question of its own."""
    folder = tmp_path_factory.mktemp("interrupts")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(folder / "heads"))
        return make_clinic(folder / "clinic", epsilon="1000", ceiling="1000")


@pytest.fixture
def site(shared: Clinic, monkeypatch: pytest.MonkeyPatch) -> Clinic:
    monkeypatch.setenv("XDG_STATE_HOME", str(shared.file.parent.parent / "heads"))
    return shared


def unsettled(site: Clinic) -> list[object]:
    """Incidents, and charges without an answer."""
    ledger = site.ledger()
    never = [record for record in ledger.history(unreleased=True) if record.released_at is None]
    return [*ledger.incidents(), *never]


def question(number: int) -> str:
    return f"{COUNT} WHERE age >= {number}"


@pytest.mark.parametrize("presses", [1, 3])
def test_an_interrupt_is_raised_after_the_answer_was_stored(site: Clinic, presses: int) -> None:
    con = site.connect()
    before = len(site.ledger().history())

    def press() -> None:
        for _ in range(presses):
            interrupt_main_thread()

    with engine_that(press), pytest.raises(KeyboardInterrupt) as interrupted:
        con.sql(question(presses), epsilon=1)
    assert interrupted.value.__notes__ == [CHARGED_IS_STORED]
    assert len(site.ledger().history()) == before + 1 and unsettled(site) == []
    again = con.sql(question(presses), epsilon=1)
    assert again.info["repeated"] and again.info["charged"] == "0/1"


def test_an_interrupt_is_held_from_before_the_charge(
    site: Clinic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the charge and the next line there is no gap through which an interrupt could
    come."""
    honest = Ledger.reserve

    def interrupted_reserve(self: Ledger, *given: Any, **named: Any) -> Any:
        interrupt_main_thread()
        reservation = honest(self, *given, **named)
        interrupt_main_thread()
        return reservation

    con = site.connect()
    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "reserve", interrupted_reserve)
        with pytest.raises(KeyboardInterrupt):
            con.sql(question(11), epsilon=1)
    assert unsettled(site) == [] and con.sql(question(11), epsilon=1).info["repeated"]


def test_an_interrupt_before_the_charge_is_free(
    site: Clinic, monkeypatch: pytest.MonkeyPatch
) -> None:
    con = site.connect()
    before = site.ledger().pot("total").spent
    monkeypatch.setattr(Measurer, "prepare", lambda *_: interrupt_main_thread())
    with pytest.raises(KeyboardInterrupt):
        con.sql(question(12), epsilon=1)
    assert site.ledger().pot("total").spent == before


def test_an_interrupt_while_statements_are_compiled_closes_the_copy(
    site: Clinic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DuckDB tells Ctrl-C in the main thread as a RuntimeError of its own."""
    con = site.connect()
    opened: list[Measurer] = []
    closed: list[Measurer] = []
    connect = con._kernel.connect

    class Interrupted:
        def execute(self, _: str) -> None:
            raise RuntimeError("Query interrupted")

    def connect_interrupted(version: Version) -> Measurer:
        measurer = connect(version)
        opened.append(measurer)
        monkeypatch.setattr(measurer, "close", lambda: closed.append(measurer))
        monkeypatch.setattr(measurer.engine, "connection", Interrupted())
        return measurer

    monkeypatch.setattr(con._kernel, "connect", connect_interrupted)
    with pytest.raises(KeyboardInterrupt):
        con.sql(question(16), epsilon=1)
    assert opened and closed == opened and unsettled(site) == []


def test_the_frames_of_an_interrupt_hold_no_exact_values(site: Clinic) -> None:
    con = site.connect()
    with engine_that(interrupt_main_thread), pytest.raises(KeyboardInterrupt) as caught:
        con.sql(question(13), epsilon=1)
    here = Path(__file__).name
    frames = [frame for frame, _ in traceback.walk_tb(caught.value.__traceback__)]
    inner = [frame for frame in frames if Path(frame.f_code.co_filename).name != here]
    held = [value for frame in inner for value in frame.f_locals.values()]
    assert inner and not any(isinstance(value, list | np.ndarray) for value in held)


@pytest.mark.parametrize("error", [asyncio.CancelledError, TimeoutError, SystemExit])
def test_whatever_is_raised_in_the_thread_that_asks_waits_for_the_answer(
    site: Clinic, error: type[BaseException]
) -> None:
    """Tools cancel a thread by an exception of any type; none reaches the engine, none is lost."""
    con = site.connect()
    asked = question(20 + len(error.__name__))
    caught: list[type[BaseException]] = []

    def ask() -> None:
        try:
            con.sql(asked, epsilon=1)
        except BaseException as raised:
            caught.append(type(raised))

    def cancel() -> None:
        raise_in_thread(asking.ident or 0, error)
        time.sleep(0.02)

    asking = threading.Thread(target=ask)
    with engine_that(cancel):
        asking.start()
        asking.join(60)
    assert caught == [error] and unsettled(site) == []
    assert con.sql(asked, epsilon=1).info["repeated"]


def test_a_cancelled_task_leaves_a_stored_answer(site: Clinic) -> None:
    con = site.connect()
    begun, end = threading.Event(), threading.Event()

    def wait() -> None:
        begun.set()
        assert end.wait(60)

    async def ask() -> None:
        task = asyncio.create_task(asyncio.to_thread(con.sql, question(14), epsilon=1))
        await asyncio.to_thread(begun.wait, 60)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        end.set()

    with engine_that(wait):
        asyncio.run(ask())
    assert unsettled(site) == [] and con.sql(question(14), epsilon=1).info["repeated"]


def test_a_refusal_is_raised_where_the_question_was_asked(site: Clinic) -> None:
    with pytest.raises(BudgetError, match="budget 'total' cannot pay") as caught:
        site.connect().sql(question(15), epsilon=5000)
    assert caught.value.__context__ is None and unsettled(site) == []


# -- leases
# --------------------------------------------------------------------------------------------------


def lease_of(site: Clinic, kernel: Kernel, steps: int, number: int) -> tuple[Lease, Any]:
    request = site.connect().request(question(number), epsilon=1)
    return Lease(kernel, kernel.price(request).loss * steps, "total"), request


def test_a_lease_ends_cleanly_after_the_step_that_was_interrupted(site: Clinic) -> None:
    kernel = site.kernel()
    lease, request = lease_of(site, kernel, 5, 30)
    first = lease.release(request)
    with engine_that(interrupt_main_thread), pytest.raises(KeyboardInterrupt):
        lease.release(request)
    with pytest.raises(RefusedError, match="over"):
        lease.release(request)
    assert unsettled(site) == []
    stored = site.ledger().release(lease.reservation.seq)
    assert stored is not None
    steps = read_steps(stored.arrow_bytes)
    assert len(steps) == 2 and steps[0] == [[str(cell) for cell in cells] for cells in first]


def read_steps(stream: bytes) -> list[Any]:
    steps: list[Any] = pa.ipc.open_stream(stream).read_all().column("steps").to_pylist()
    return steps


def test_a_lease_interrupted_while_it_opens_is_closed(
    site: Clinic, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = site.kernel()
    honest = Ledger.reserve

    def interrupted_reserve(self: Ledger, *given: Any, **named: Any) -> Any:
        reservation = honest(self, *given, **named)
        interrupt_main_thread()
        return reservation

    before = len(site.ledger().history())
    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "reserve", interrupted_reserve)
        with pytest.raises(KeyboardInterrupt):
            lease_of(site, kernel, 5, 31)
    assert len(site.ledger().history()) == before + 1 and unsettled(site) == []


def test_an_interrupt_between_two_steps_stores_what_was_served(site: Clinic) -> None:
    kernel = site.kernel()
    lease, request = lease_of(site, kernel, 5, 32)
    with pytest.raises(KeyboardInterrupt), lease:
        lease.release(request)
        raise KeyboardInterrupt
    assert site.ledger().release(lease.reservation.seq) is not None and unsettled(site) == []


@pytest.mark.parametrize("presses", [1, 3])
def test_an_interrupt_before_the_block_of_a_lease_closes_it(
    site: Clinic, monkeypatch: pytest.MonkeyPatch, presses: int
) -> None:
    """Between the charge and the block nobody held it: it stayed open until Python's exit, and a
    kill before that was an incident."""
    con = site.connect()
    before = len(site.ledger().history())
    honest = leased.OpenLease.__init__
    close = Lease.close
    left = [KeyboardInterrupt() for _ in range(presses - 1)]

    def interrupted_init(self: leased.OpenLease, *given: Any) -> None:
        honest(self, *given)
        raise KeyboardInterrupt

    def interrupted_close(self: Lease) -> None:
        if left:
            raise left.pop()
        close(self)

    monkeypatch.setattr(leased.OpenLease, "__init__", interrupted_init)
    monkeypatch.setattr(Lease, "close", interrupted_close)
    with pytest.raises(KeyboardInterrupt):
        con.lease(epsilon=1)
    assert len(site.ledger().history()) == before + 1 and unsettled(site) == []


# -- the end of a program
# ------------------------------------------------------------------------------------------

ENDING = """
import sys, threading, time
import dither
from dither.data.measure import Measurer
from dither.privacy.kernel.lease import Lease

begun = threading.Event()
honest = Measurer.measure

def slow(self, *given):
    begun.set()
    time.sleep(0.3)
    return honest(self, *given)

con = dither.connect(sys.argv[1])
kernel = con._kernel

def train():
    request = con.request("SELECT COUNT(*) FROM visits WHERE age >= 41", epsilon=1)
    lease = Lease(kernel, kernel.price(request).loss * 3, "total")
    lease.release(request)

train()  # forgets to close its lease
Measurer.measure = slow
asked = ("SELECT COUNT(*) FROM visits WHERE age >= 40",)
threading.Thread(target=con.sql, args=asked, kwargs={"epsilon": 1}, daemon=True).start()
assert begun.wait(60)
"""


def test_a_program_that_ends_stores_what_it_was_asked(site: Clinic) -> None:
    """Python's exit waits for the question of a daemon thread, and stores the outputs of a
    forgotten lease."""
    before = len(site.ledger().history())
    ran = subprocess.run(
        [sys.executable, "-c", ENDING, str(site.file)], capture_output=True, text=True, timeout=120
    )
    assert ran.returncode == 0, ran.stderr
    site.connect().sql(question(42), epsilon=1)  # counts what dead processes left behind
    assert len(site.ledger().history()) == before + 3 and unsettled(site) == []


def test_the_ledger_of_all_this_verifies(site: Clinic) -> None:
    site.connect().sql(question(43), epsilon=1)
    report = steward.verify_ledger(site.place)
    assert report.ok and report.notes == (), report
