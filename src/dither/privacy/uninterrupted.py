"""Work that no interrupt reaches: it runs to its end in a thread of its own, while the caller waits.

Python delivers signals to the main thread, and cancellation to the thread that asked. A question
that was charged must end in a stored answer whoever loses patience, so the steps from RESERVE to
COMMIT run here, and an interrupt of the caller is raised after them (privacy-rules 46).

>>> Uninterrupted().run(lambda: 6 * 7)
42
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import Context
from threading import Lock
from typing import Generic, TypeVar

from dither.errors import RefusedError

MOST_AT_ONCE = 64
T = TypeVar("T")


class _Job(Generic[T]):
    """One piece of work: run once by a thread, or cancelled before any thread began it."""

    def __init__(self, work: Callable[[], T]) -> None:
        self._work = work
        self._claim = Lock()
        self._finished = Lock()
        self._finished.acquire()
        self._error: BaseException | None = None
        self._result: T
        self.is_done = False

    def run(self) -> None:
        """In the thread: the work, in a context of its own, so that no setting of the caller applies."""
        if not self._claim.acquire(blocking=False):
            return
        try:
            self._result = Context().run(self._work)
        except BaseException as error:
            self._error = error.with_traceback(None)  # its frames end here
        finally:
            self.is_done = True
            self._finished.release()

    def cancel(self) -> bool:
        """Whether the work never began, and now never will."""
        return self._claim.acquire(blocking=False)

    def wait(self) -> None:
        """Returns when the work is done. An interrupt may end the wait, never the work."""
        while not self.is_done:
            self._finished.acquire()

    def result(self) -> T:
        """What the work returned, or its error."""
        if self._error is not None:
            raise self._error
        return self._result


class Uninterrupted:
    """The threads of one kernel. They are kept for the next question, and Python's exit waits for them."""

    def __init__(self) -> None:
        self._process = os.getpid()
        self._threads = ThreadPoolExecutor(MOST_AT_ONCE, thread_name_prefix="dither")

    def run(self, work: Callable[[], T], on_interrupt: Callable[[], None] = lambda: None) -> T:
        """The result of `work`, which runs to its end; an interrupt of the caller is raised after it.

        `on_interrupt` is called between the two. Should a burst of interrupts end the wait early,
        the work still runs to its end.
        """
        if os.getpid() != self._process:
            raise RefusedError(
                "a connection is not inherited by a forked process: connect again",
                rule="engines do not fork",
            )
        job = _Job(work)
        interrupt = self._submit(job)
        later = _outlast(job)
        interrupt = later if interrupt is None else interrupt
        if interrupt is None:
            return job.result()
        try:
            on_interrupt()
            raise interrupt
        finally:
            del interrupt, later  # else error and frame would keep each other alive

    def _submit(self, job: _Job[T]) -> BaseException | None:
        """Hands the job to a thread; an interrupt that came after a thread began it is returned."""
        has_no_thread = False
        try:
            self._threads.submit(job.run)
        except BaseException as error:
            if not job.cancel():
                return error
            if not isinstance(error, RuntimeError):
                raise
            has_no_thread = True
        if has_no_thread:
            raise RefusedError(
                "no thread can be started, since Python is ending or the system has none left. "
                "Nothing was spent: ask from a running program",
                rule="no interrupt reaches a charged question",
            )
        return None


def _outlast(job: _Job[T]) -> BaseException | None:
    """Waits until a job is done; the first interrupt that came meanwhile.

    The outer loop is for an interrupt that comes while the one before it is being caught.
    """
    first: BaseException | None = None
    while True:
        try:
            while not job.is_done:
                try:
                    job.wait()
                except BaseException as error:
                    if first is None:
                        first = error
            return first
        except BaseException as error:
            if first is None:
                first = error
