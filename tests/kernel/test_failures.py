"""What fails before the charge is free; what fails after it is one constant response, and
counted."""

from __future__ import annotations

import os
import signal
import threading
import time
import traceback
from collections.abc import Callable
from types import TracebackType
from typing import Any

import numpy as np
import pytest

from dither import steward
from dither.data.measure import Measurer
from dither.errors import BudgetError, DitherError, RefusedError, UnavailableError
from dither.privacy.kernel.kernel import Kernel
from dither.privacy.ledger import Ledger
from dither.privacy.ledger.head import Head
from tests.datasets.regional_clinic import COUNT, HEAD, PATIENTS, TRUE_COUNT, Clinic

SECRET = "Jane Doe, 47, oncology"


def boom(*_: Any, **__: Any) -> Any:
    raise RuntimeError(f"Conversion Error: {SECRET}")


def everything(error: BaseException) -> list[object]:
    """Every exception and local that hangs on an error."""
    found: list[object] = [error, *error.args]
    trace: TracebackType | None = error.__traceback__
    while trace is not None:
        if (
            "site-packages" not in trace.tb_frame.f_code.co_filename
            and "test_" not in trace.tb_frame.f_code.co_filename
        ):
            found += trace.tb_frame.f_locals.values()
        trace = trace.tb_next
    for linked in (error.__cause__, error.__context__):
        if linked is not None:
            found += everything(linked)
    return found


def break_measure(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Measurer, "measure", boom)


def break_randomise(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Kernel, "randomise", boom)


def break_commit(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Ledger, "commit", boom)


def break_send_after_commit(patch: pytest.MonkeyPatch) -> None:
    true = Ledger.commit

    def late(self: Ledger, *given: Any, **named: Any) -> Any:
        true(self, *given, **named)
        boom()

    patch.setattr(Ledger, "commit", late)


def wrong_shape(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Measurer, "measure", lambda *_: np.array([1.5]))


AFTER = [break_measure, break_randomise, break_commit, break_send_after_commit, wrong_shape]


@pytest.mark.parametrize("fault", AFTER)
def test_every_failure_after_the_charge_is_the_same(
    clinic: Clinic, fault: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    clinic.open(max_incidents=2)
    for name in ("ann", "bob"):  # a failure suspends the pot that asked
        clinic.open(name, inside="total", kind="analyst")
    con = clinic.connect()
    with monkeypatch.context() as patch:
        fault(patch)
        for name in ("ann", "bob"):
            asking = clinic.connect(name)
            with pytest.raises(UnavailableError) as caught:
                asking.sql(COUNT, epsilon=1, fresh=True)
            assert str(caught.value) == UnavailableError.TEXT
            assert caught.value.__cause__ is None and caught.value.__context__ is None
            told = everything(caught.value)
            assert not any(
                SECRET in str(thing) for thing in told if isinstance(thing, (str, BaseException))
            )
            assert not any(
                isinstance(thing, np.ndarray) or thing == TRUE_COUNT
                for thing in told
                if not isinstance(thing, dict)
            )
    assert (
        clinic.spent() == {"total": 2, "ann": 1, "bob": 1}
        and len(clinic.ledger().incidents_open()) == 2
    )
    with pytest.raises(RefusedError, match="suspended until the data steward clears"):
        con.sql(COUNT, epsilon=1, fresh=True)
    assert clinic.spent()["total"] == 2
    steward.clear_incidents(clinic.place, "the engine has more memory now")
    con.sql(COUNT, epsilon=1, fresh=True)
    assert clinic.verify().ok


def test_a_statement_is_tried_three_times_and_never_another(
    clinic: Clinic, monkeypatch: pytest.MonkeyPatch
) -> None:
    clinic.open()
    asked: list[object] = []
    true = Measurer.measure

    def twice_bad(self: Measurer, query: Any, key: Any = None) -> Any:
        asked.append(query)
        return boom() if len(asked) < 3 else true(self, query, key)

    monkeypatch.setattr(Measurer, "measure", twice_bad)
    result = clinic.connect().sql(COUNT, epsilon=5)
    assert len(asked) == 3 and len(set(asked)) == 1
    assert (
        abs(result.to_dict()["n"][0] - TRUE_COUNT) < 20 and clinic.ledger().incidents_open() == ()
    )


def test_closing_the_engine_may_fail(clinic: Clinic, monkeypatch: pytest.MonkeyPatch) -> None:
    clinic.open()
    monkeypatch.setattr(Measurer, "close", boom)
    assert clinic.connect().sql(COUNT, epsilon=1).info["charged"] == "1/1"


def test_what_fails_before_the_charge_is_free(
    clinic: Clinic, monkeypatch: pytest.MonkeyPatch
) -> None:
    clinic.open()
    con = clinic.connect()
    data = clinic.place.version(1) / "data.duckdb"
    kept = data.read_bytes()
    data.write_bytes(b"")
    with pytest.raises(DitherError):
        con.sql(COUNT, epsilon=1)
    data.unlink()
    with pytest.raises(DitherError):
        con.sql(COUNT, epsilon=1)
    data.write_bytes(kept)
    assert clinic.spent() == {"total": 0} and clinic.ledger().incidents_open() == ()
    con.sql(COUNT, epsilon=1)


def test_two_failures_at_once_cannot_both_slip_under_the_limit(
    clinic: Clinic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The check in PREPARE alone would let both through; RESERVE decides, in its transaction."""
    clinic.open(max_incidents=1)
    con = clinic.connect()
    request = con.request(COUNT, epsilon=1)
    kernel = clinic.kernel()
    priced = kernel.price(request)
    measurer = kernel.prepare(priced)  # passes: no incident yet
    other = clinic.kernel()
    other.record_incident(other.reserve(other.price(request)))
    with pytest.raises(RefusedError, match="suspended"):
        kernel.reserve(priced)
    measurer.close()
    assert clinic.spent() == {"total": 1}


def test_a_version_registered_between_the_steps_changes_nothing(clinic: Clinic) -> None:
    """Priced by one catalog and measured on another's copy, a request would be noised for the wrong
    sensitivity."""
    clinic.open()
    kernel = clinic.kernel()
    request = clinic.connect().request("SELECT SUM(age) AS years FROM patients", epsilon=1)
    priced = kernel.price(request)
    clinic.file.write_text((HEAD + PATIENTS).replace("bounds: [0, 110]", "bounds: [0, 11000]"))
    steward.register(clinic.file)
    kernel.view("total")  # as another thread's release would
    assert kernel.version.number == 2 and priced.version.number == 1
    measurer = kernel.prepare(priced)
    assert measurer._analyses.catalog == priced.version.catalog
    (exact,) = kernel.measure(priced, measurer)
    assert exact[()][0, 0] <= 110 * TRUE_COUNT
    reservation = kernel.reserve(priced)
    assert clinic.ledger().history(unreleased=True)[0].public["version"] == 1
    kernel.record_incident(reservation)
    measurer.close()


def test_many_threads_one_kernel_never_overspend(clinic: Clinic) -> None:
    clinic.open(epsilon=1, ceiling=1)
    kernel, request = clinic.kernel(), clinic.connect().request(COUNT, epsilon="0.25")
    answers: list[object] = []

    def ask() -> None:
        for _ in range(1000):
            try:
                answers.append(kernel.release(request))
            except BudgetError:
                return
            except DitherError:  # the engine opens a copy once per process: free, before the charge
                time.sleep(0.01)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(answers) == 4 and clinic.spent() == {"total": 1} and clinic.verify().ok


def test_once_suspended_what_is_under_way_fails_alike(clinic: Clinic) -> None:
    """Eight failing queries reserved at once would else tell eight noiseless bits where one
    incident is allowed."""
    clinic.open(max_incidents=1)
    request = clinic.connect().request(COUNT, epsilon=1)
    kernels = [clinic.kernel() for _ in range(3)]
    reservations = [kernel.reserve(kernel.price(request)) for kernel in kernels]
    kernels[0].record_incident(reservations[0])
    priced = kernels[1].price(request)
    with pytest.raises(RefusedError, match="suspended"):
        kernels[1].commit(priced, reservations[1], ((400,),), "2026-03-01T12:00:00+00:00")
    steward.clear_incidents(clinic.place, "the engine has more memory now")
    kernels[2].commit(priced, reservations[2], ((400,),), "2026-03-01T12:00:00+00:00")
    assert len(clinic.ledger().history()) == 1 and clinic.verify().ok


def test_a_killed_process_counts_as_an_incident(clinic: Clinic) -> None:
    """A row that makes the engine exhaust the memory kills the process: a failure that nobody is
    left to record."""
    clinic.open(max_incidents=1)
    request = clinic.connect().request(COUNT, epsilon=1)
    child = os.fork()
    if not child:
        try:
            kernel = clinic.kernel()
            kernel.reserve(kernel.price(request))
            os.kill(os.getpid(), signal.SIGKILL)
        except BaseException:
            traceback.print_exc()  # shown where the parent fails
        finally:
            os._exit(1)
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL and clinic.spent() == {"total": 1}
    with pytest.raises(RefusedError, match="suspended"):
        clinic.connect().sql(COUNT, epsilon=1)
    (incident,) = clinic.ledger().incidents_open()
    assert incident.code == "abandoned" and clinic.spent() == {"total": 1} and clinic.verify().ok
    steward.clear_incidents(clinic.place, "the engine has more memory now")
    clinic.connect().sql(COUNT, epsilon=1)


def test_a_process_at_work_is_not_taken_for_dead(clinic: Clinic) -> None:
    clinic.open(max_incidents=1)
    kernel, request = clinic.kernel(), clinic.connect().request(COUNT, epsilon=1)
    pending = kernel.reserve(kernel.price(request))
    child = os.fork()
    if not child:
        try:
            clinic.kernel().release(request)
        except BaseException:
            os._exit(1)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert clinic.ledger().incidents_open() == () and pending.seq == 3


def test_an_incident_that_could_not_be_written_down_is_before_the_next_answer(
    clinic: Clinic, monkeypatch: pytest.MonkeyPatch
) -> None:
    clinic.open(max_incidents=1)
    kernel, request = clinic.kernel(), clinic.connect().request(COUNT, epsilon=1)
    with monkeypatch.context() as patch:
        patch.setattr(Measurer, "measure", boom)
        patch.setattr(Ledger, "record_incident", boom)
        with pytest.raises(UnavailableError):
            kernel.release(request)
    assert clinic.ledger().incidents_open() == ()
    with pytest.raises(RefusedError, match="suspended"):
        kernel.release(request)
    assert len(clinic.ledger().incidents_open()) == 1 and clinic.spent() == {"total": 1}


def test_a_head_that_cannot_be_moved_stops_answers_until_it_can(
    clinic: Clinic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commit is on the disk, the head is not: nothing is sent, and the incident is neither lost
    nor doubled."""
    clinic.open(max_incidents=2)
    kernel, request = clinic.kernel(), clinic.connect().request(COUNT, epsilon=1)
    with monkeypatch.context() as patch:
        patch.setattr(Head, "advance", boom)
        with pytest.raises(UnavailableError):
            kernel.release(request)
    with pytest.raises(RefusedError, match="suspended"):
        kernel.release(request)
    assert len(clinic.ledger().incidents_open()) == 1 and clinic.spent() == {"total": 1}
    steward.clear_incidents(clinic.place, "the disk of the head has room again")
    kernel.release(request)
    assert clinic.spent() == {"total": 2} and clinic.verify().ok
