"""A limit on the time of the engine, for curators that answer on a schedule.

It strikes after the charge, so it is a failure like any other: the charge stays, the response is
the constant one, and an incident is counted.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class TimeLimitError(Exception):
    """The engine was stopped."""


@contextmanager
def limit_time(seconds: float | None, interrupt: Callable[[], None]) -> Iterator[None]:
    """Call `interrupt` once the block has run for so many seconds; TimeLimitError at its end."""
    if seconds is None:
        yield
        return
    struck = threading.Event()

    def strike() -> None:
        struck.set()
        interrupt()

    timer = threading.Timer(seconds, strike)
    timer.daemon = True
    timer.start()
    try:
        yield
    except Exception:
        if struck.is_set():
            raise TimeLimitError from None
        raise
    finally:
        timer.cancel()
    if struck.is_set():
        raise TimeLimitError
