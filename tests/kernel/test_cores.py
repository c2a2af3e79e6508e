"""Rules exact-values-stay and release-times-only: no core dump, no locals in a traceback, no start
time."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import threading
import time
import traceback
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dither.data.measure import Measurer
from dither.errors import UnavailableError
from dither.privacy.kernel.kernel import Kernel
from dither.privacy.kernel.lease import Lease
from tests.datasets.regional_clinic import COUNT, TRUE_COUNT, Clinic


def test_a_process_with_data_leaves_no_core_dump(clinic: Clinic) -> None:
    clinic.open()
    child = os.fork()
    if not child:
        try:
            _, most = resource.getrlimit(resource.RLIMIT_CORE)
            resource.setrlimit(resource.RLIMIT_CORE, (most, most))
            clinic.kernel()
            stopped = resource.getrlimit(resource.RLIMIT_CORE)[0] in ((0,) if most == 0 else (1,))
            if sys.platform == "linux":
                stopped = stopped and int(Path("/proc/self/coredump_filter").read_text(), 16) == 0
            if stopped:
                signal.signal(signal.SIGABRT, signal.SIG_DFL)
                os.abort()
        finally:
            os._exit(1)
    status = os.waitpid(child, 0)[1]
    assert (
        os.WIFSIGNALED(status)
        and os.WTERMSIG(status) == signal.SIGABRT
        and not os.WCOREDUMP(status)
    )


CRASH = """
import sys
from dither import steward
from dither.cli.main import app

def crash(*_):
    exact_count = int("31337") + 10000
    raise RuntimeError("a bug of ours")

steward.verify_ledger = crash
app(["ledger", "verify", sys.argv[1]])
"""


def test_a_bug_of_ours_prints_no_locals(clinic: Clinic) -> None:
    """rich would print every local of every frame, true counts among them."""
    script = clinic.file.parent / "crash.py"
    script.write_text(CRASH)
    ran = subprocess.run(
        [sys.executable, script, clinic.file], capture_output=True, text=True, timeout=120
    )
    assert ran.returncode and "RuntimeError" in ran.stderr  # it crashed, and says where
    assert "41337" not in ran.stderr + ran.stdout


@pytest.mark.parametrize("is_leased", [False, True])
def test_a_failure_of_any_type_carries_no_exact_values(
    clinic: Clinic, is_leased: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The frames of what fails after MEASURE hold exact values, also where it is no ordinary
    exception."""
    clinic.open()
    kernel, request = clinic.kernel(), clinic.connect().request(COUNT, epsilon=1)
    counts: list[int] = []

    def exit_from_engine(self: Kernel, priced: Any, exact: Any) -> Any:
        counts.append(int(exact[0][()][0, 0]))
        raise SystemExit

    ask = (
        Lease(kernel, kernel.price(request).loss, "total").release if is_leased else kernel.release
    )
    monkeypatch.setattr(Kernel, "randomise", exit_from_engine)
    here = sys._getframe().f_code
    with pytest.raises(UnavailableError) as caught:
        ask(request)
    assert caught.value.__context__ is None and caught.value.__cause__ is None
    frames = [
        frame for frame, _ in traceback.walk_tb(caught.value.__traceback__) if frame.f_code != here
    ]
    held = [value for frame in frames for value in frame.f_locals.values()]
    assert frames and not any(isinstance(value, list | np.ndarray) for value in held)
    assert counts == [TRUE_COUNT]
    assert (
        len(clinic.ledger().incidents_open()) == 1
        and clinic.spent() == {"total": 1}
        and clinic.verify().ok
    )


def test_the_time_of_a_release_is_when_it_left_not_when_it_was_charged(
    clinic: Clinic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else who polls the history subtracts the two and has the run time of somebody's query."""
    clinic.open()
    con = clinic.connect()
    clock = [datetime.fromisoformat("2026-03-01T12:00:00+00:00")]
    true = Measurer.measure

    def slow(self: Measurer, *given: Any) -> Any:
        clock[0] = datetime.fromisoformat("2026-03-01T12:34:56+00:00")
        return true(self, *given)

    monkeypatch.setattr(Measurer, "measure", slow)
    monkeypatch.setattr(con._kernel, "clock", lambda: clock[0].isoformat())
    result = con.sql(COUNT, epsilon=1)
    (record,) = clinic.ledger().history()
    assert record.released_at == result.info["released_at"] == "2026-03-01T12:34:56+00:00"


def test_what_is_under_way_shows_in_no_reading_but_the_stewards(
    clinic: Clinic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Polling a budget would tell when a query was charged, and so how long it runs (rule
    release-times-only)."""
    clinic.open()
    con, other = clinic.connect(), clinic.connect()
    other.sql(COUNT + " WHERE age >= 18", epsilon="0.5")
    begun, end = threading.Event(), threading.Event()
    true = Measurer.measure

    def slow(self: Measurer, *given: Any) -> Any:
        begun.set()
        assert end.wait(60)
        return true(self, *given)

    monkeypatch.setattr(Measurer, "measure", slow)
    asking = threading.Thread(target=con.sql, args=(COUNT,), kwargs={"epsilon": 1})
    asking.start()
    assert begun.wait(60)
    before = str(other.budget())
    assert float(other.budget().pots[0].spent) == 0.5 and clinic.spent()["total"] == 1.5
    assert str(other.preview(COUNT, epsilon="0.25")) == str(
        clinic.connect().preview(COUNT, epsilon="0.25")
    )
    repeated = other.sql(COUNT + " WHERE age >= 18", epsilon="0.5")
    assert repeated.info["repeated"] and repeated.info["pot_spent_after"] == "1/2"
    time.sleep(0.01)
    assert str(other.budget()) == before
    end.set()
    asking.join(60)
    assert float(other.budget().pots[0].spent) == 1.5


def test_what_a_dead_process_took_shows(clinic: Clinic) -> None:
    clinic.open()
    request = clinic.connect().request(COUNT, epsilon=1)
    child = os.fork()
    if not child:
        try:
            kernel = clinic.kernel()
            kernel.reserve(kernel.price(request))
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert clinic.connect().budget().pots[0].spent == 1
