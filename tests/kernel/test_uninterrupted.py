"""Work that no interrupt reaches: run to its end, or never begun."""

from __future__ import annotations

import ctypes
import operator
import os
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections import deque
from contextvars import ContextVar
from functools import partial
from typing import Any

import numpy as np
import pytest

from dither import RefusedError
from dither.privacy.kernel.uninterrupted import Uninterrupted

SETTING: ContextVar[str] = ContextVar("SETTING", default="of nobody")


def test_a_burst_of_interrupts_neither_ends_the_work_nor_the_wait() -> None:
    ended: list[float] = []

    def press() -> None:
        for _ in range(10):
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
            time.sleep(0.003)

    def work() -> None:
        press()
        time.sleep(0.02)
        ended.append(time.monotonic())

    with pytest.raises(KeyboardInterrupt):
        Uninterrupted().run(work)
    assert len(ended) == 1


def test_what_is_done_on_an_interrupt_comes_after_the_work() -> None:
    order: list[str] = []

    def work() -> None:
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        time.sleep(0.02)
        order.append("work")

    with pytest.raises(KeyboardInterrupt):
        Uninterrupted().run(work, on_interrupt=lambda: order.append("interrupt"))
    assert order == ["work", "interrupt"]
    Uninterrupted().run(
        lambda: order.append("more work"), on_interrupt=lambda: order.append("never")
    )
    assert order == ["work", "interrupt", "more work"]


def test_an_interrupt_before_any_thread_began_the_work_cancels_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else a charge could be made after its caller was told of the interrupt."""
    threads = Uninterrupted()
    begun: list[int] = []
    late: list[threading.Timer] = []

    def start(job: Any) -> None:
        late.append(threading.Timer(0.01, job.run))
        late[0].start()
        raise KeyboardInterrupt

    monkeypatch.setattr(threads, "_start", start)
    with pytest.raises(KeyboardInterrupt):
        threads.run(lambda: begun.append(1))
    late[0].join(60)
    assert begun == []


def test_an_error_of_the_work_is_raised_without_its_frames() -> None:
    def work() -> None:
        exact = np.array([50])
        raise ValueError(f"something about {len(exact)} cell")

    with pytest.raises(ValueError, match="1 cell") as caught:
        Uninterrupted().run(work)
    names = [frame.f_code.co_name for frame, _ in traceback.walk_tb(caught.value.__traceback__)]
    assert "work" not in names and "run" in names


def test_settings_of_the_caller_do_not_reach_the_work() -> None:
    """A caller who makes NumPy raise would else turn a charged question into a failure."""
    SETTING.set("of the caller")
    with np.errstate(all="raise"):
        setting, errors = Uninterrupted().run(lambda: (SETTING.get(), np.geterr()["divide"]))
    assert (setting, errors) == ("of nobody", "warn")


def test_without_a_thread_nothing_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    threads = Uninterrupted()
    begun: list[int] = []
    monkeypatch.setattr(threading.Thread, "start", refuse)
    with pytest.raises(RefusedError, match="Nothing was spent"):
        threads.run(lambda: begun.append(1))
    assert begun == []


def test_threads_are_kept_for_the_next_work_and_end_with_their_owner() -> None:
    threads = Uninterrupted()
    ran = [threads.run(threading.current_thread) for _ in range(5)]
    assert len(set(ran)) == 1 and ran[0].is_alive()
    del threads
    ran[0].join(60)
    assert not ran[0].is_alive()


def test_an_interrupt_while_their_owner_ends_leaves_no_thread() -> None:
    """It ended the owner's `__del__` once, and the threads waited for ever."""
    owners = [Uninterrupted()]
    thread = owners[0].run(threading.current_thread)
    interrupt = partial(
        ctypes.pythonapi.PyThreadState_SetAsyncExc,
        ctypes.c_ulong(threading.get_ident()),
        ctypes.py_object(KeyboardInterrupt),
    )
    with pytest.raises(KeyboardInterrupt):
        # both in one call of C: the interrupt is due before the owner ends, not before this line
        deque(map(operator.call, [interrupt, owners.clear]), maxlen=0)
    thread.join(10)
    assert not thread.is_alive()


STORM = """
import signal, threading, time
from dither.privacy.kernel.uninterrupted import Uninterrupted

threads = Uninterrupted()
ended = threading.Event()

def work():
    for _ in range(200):
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
        time.sleep(0.0001)
    ended.set()

def ask():
    while not ended.is_set():
        try:
            threads.run(work)  # its first work: the thread is being started when the storm begins
        except KeyboardInterrupt:
            pass

while not ended.is_set():
    try:
        ask()
    except KeyboardInterrupt:
        pass
"""


def test_python_ends_after_a_storm_of_interrupts() -> None:
    ran = subprocess.run([sys.executable, "-c", STORM], capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, ran.stderr


def test_a_forked_process_is_told_to_connect_again() -> None:
    threads = Uninterrupted()
    threads.run(lambda: None)
    child = os.fork()
    if child == 0:
        try:
            signal.alarm(30)
            threads.run(lambda: None)
        except RefusedError:
            os._exit(7)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
