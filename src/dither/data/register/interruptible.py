"""Long work that an interrupt ends at once.

The engine does not look at signals while it runs a statement, so Ctrl-C would wait for its end. The
work therefore runs in a thread of its own; the caller waits, and stops it when it is interrupted.

>>> run_interruptibly(lambda: 6 * 7, lambda: None)
42
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from threading import Event, Lock, Thread
from typing import Generic, TypeVar

T = TypeVar("T")
_SECONDS_BETWEEN_LOOKS = 0.05
_SECONDS_BETWEEN_STOPS = 0.02


class _Work(Generic[T]):
    """Work in a thread, and what it returned or raised.

    Its end is an event of its own: a `Thread.join` that an interrupt ends can take the thread for
    ended (CPython issue 90882).
    """

    def __init__(self, work: Callable[[], T]) -> None:
        self._work = work
        self._claim = Lock()
        self.has_ended = Event()
        self.error: BaseException | None = None
        self.value: T

    def run(self) -> None:
        """Run the work, unless it was cancelled, and keep its result or its error."""
        if not self._claim.acquire(blocking=False):
            return
        try:
            self.value = self._work()
        except BaseException as error:
            self.error = error
        finally:
            self.has_ended.set()

    def cancel(self) -> bool:
        """Cancel the work unless it began; return whether it is cancelled."""
        return self._claim.acquire(blocking=False)


def run_interruptibly(work: Callable[[], T], stop: Callable[[], None]) -> T:
    """Run `work` in a thread; return what it returns, or raise its error.

    An interrupt calls `stop` until the work has ended, and is raised then; what the work returned
    or raised meanwhile is dropped.
    """
    running = _Work(work)
    thread = Thread(target=running.run, name="dither-register", daemon=True)
    try:
        thread.start()
        # the system may hand a signal to any thread, and only one that wakes up looks for it
        while not running.has_ended.wait(_SECONDS_BETWEEN_LOOKS):
            pass
    except BaseException:
        is_cancelled = running.cancel()  # it may have been interrupted while the thread started
        while not is_cancelled and not running.has_ended.is_set():
            with suppress(KeyboardInterrupt):  # a second Ctrl-C changes nothing
                stop()
                running.has_ended.wait(_SECONDS_BETWEEN_STOPS)
        raise
    if running.error is not None:
        raise running.error
    return running.value
