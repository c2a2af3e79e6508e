"""Work that no interrupt reaches.

It runs to its end in a thread of its own, while the caller waits.

Python delivers signals to the main thread, and cancellation to the thread that asked. A question
that was charged must end in a stored answer whoever loses patience, so the steps from RESERVE to
COMMIT run here, and an interrupt of the caller is raised after them (rule interrupts-wait).

The threads are our own: an interrupt inside `ThreadPoolExecutor.submit` can leave it a thread that
nobody ends, for which Python's exit then waits for ever.

>>> Uninterrupted().run(lambda: 6 * 7)
42
"""

from __future__ import annotations

import atexit
import os
from collections import deque
from collections.abc import Callable
from contextvars import Context
from functools import partial
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Any, Generic, TypeVar
from weakref import ref

from dither.errors import RefusedError
from dither.rules import PrivacyRule

GUARDS = 6
MOST_IDLE = 8
T = TypeVar("T")


class _Job(Generic[T]):
    """One piece of work: run once by a thread, or cancelled before any thread began it."""

    def __init__(self, work: Callable[[], T]) -> None:
        """Prepare `work` for another thread; `_finished` stays locked until it is done."""
        self._work = work
        self._claim = Lock()
        self._finished = Lock()
        self._finished.acquire()
        self._error: BaseException | None = None
        self._result: T
        self.is_done = False

    def run(self) -> None:
        """Do the work, in the thread, in a context of its own.

        No setting of the caller applies there.
        """
        if not self._claim.acquire(blocking=False):
            return
        try:
            _running.add(self)
            self._result = Context().run(self._work)
        except BaseException as error:
            self._error = error.with_traceback(None)  # its frames end here
        finally:
            self.is_done = True
            self._finished.release()
            _running.discard(self)

    def cancel(self) -> bool:
        """Cancel the work unless it began; return whether it is cancelled."""
        return self._claim.acquire(blocking=False)

    def wait(self) -> None:
        """Returns when the work is done. An interrupt may end the wait, never the work."""
        with self._finished:  # let go at once: several may wait, also Python's exit
            pass

    def result(self) -> T:
        """Return what the work returned, or raise the error that ended it."""
        if self._error is not None:
            raise self._error
        return self._result


class _Running:
    """The jobs of this process that have begun. Once Python ends none begins any more."""

    def __init__(self) -> None:
        self.start_anew()

    def start_anew(self) -> None:
        """Forget all jobs, also after a fork: the jobs of the parent run in the parent."""
        self._lock = Lock()
        self._jobs: set[_Job[Any]] = set()
        self._is_ending = False

    def add(self, job: _Job[Any]) -> None:
        """Count a job as running. Raises RefusedError once the process is ending."""
        with self._lock:
            if self._is_ending:
                raise RefusedError(_NO_THREAD, rule=PrivacyRule.INTERRUPTS)
            self._jobs.add(job)

    def discard(self, job: _Job[Any]) -> None:
        with self._lock:
            self._jobs.discard(job)

    def outlast(self) -> None:
        """Wait for all jobs when Python exits, so that what was charged is stored."""
        with self._lock:
            self._is_ending = True
            jobs = tuple(self._jobs)
        for job in jobs:
            _outlast(job)


_NO_THREAD = (
    "no thread can be started, since Python is ending or the system has none left. "
    "Nothing was spent: ask from a running program"
)
_running = _Running()
atexit.register(_running.outlast)
os.register_at_fork(after_in_child=_running.start_anew)


class _Worker:
    """A thread that takes one job after the other, until its owner is gone."""

    def __init__(self, owner: Uninterrupted) -> None:
        self.jobs: SimpleQueue[_Job[Any] | None] = SimpleQueue()
        # no `__del__`: an interrupt would end it, but it cannot end a call without Python code
        self._owner = ref(owner, partial(self.jobs.put, None))
        Thread(target=self._serve, name="dither", daemon=True).start()

    def _serve(self) -> None:
        """Run jobs until None comes or the owner has no more use for this worker."""
        while (job := self.jobs.get()) is not None:
            job.run()
            del job  # with all that it holds
            owner = self._owner()
            if owner is None or not owner.take_back(self):
                return
            del owner


class Uninterrupted:
    """The threads of one kernel, kept for its next question."""

    def __init__(self) -> None:
        self._process = os.getpid()
        self._idle: deque[_Worker] = deque()

    def run(self, work: Callable[[], T], on_interrupt: Callable[[], None] = lambda: None) -> T:
        """Do `work` to its end, and raise an interrupt of the caller after it.

        `on_interrupt` is called between the two. Should a burst of interrupts end the wait early,
        the work still runs to its end. An interrupt before any thread began the work cancels it.
        """
        if os.getpid() != self._process:
            raise RefusedError(
                "a connection is not inherited by a forked process: connect again",
                rule=PrivacyRule.NO_FORK,
            )
        job = _Job(work)
        try:
            self._start(job)
            interrupt = _outlast(job)
        except BaseException as error:
            interrupt = error
        if interrupt is None:
            return job.result()
        try:
            if job.cancel():
                _refuse_without_thread(interrupt)
            else:
                _outlast(job)
                on_interrupt()
            raise interrupt
        finally:
            del interrupt  # else error and frame would keep each other alive

    def _start(self, job: _Job[Any]) -> None:
        """Hands a job to a thread that has none."""
        try:
            worker = self._idle.pop()
        except IndexError:
            worker = _Worker(self)
        worker.jobs.put(job)

    def take_back(self, worker: _Worker) -> bool:
        """Whether a thread that did its job is kept."""
        if len(self._idle) >= MOST_IDLE:
            return False
        self._idle.append(worker)
        return True


def _refuse_without_thread(error: BaseException) -> None:
    if isinstance(error, RuntimeError):
        raise RefusedError(_NO_THREAD, rule=PrivacyRule.INTERRUPTS)


def _outlast(job: _Job[T], guards: int = GUARDS) -> BaseException | None:
    """Wait until a job is done, and return the first interrupt that came meanwhile.

    An interrupt that comes while the one before it is being caught is caught by the next guard.
    """
    first: BaseException | None = None
    while not job.is_done:
        interrupt: BaseException | None = None
        try:
            if guards:
                interrupt = _outlast(job, guards - 1)
            else:
                job.wait()
        except BaseException as error:
            interrupt = error
        if first is None:
            first = interrupt
    return first
