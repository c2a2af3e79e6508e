"""A limit on the time of the engine, for curators that answer on a schedule.

It strikes after the charge, so it is a failure like any other: the charge stays, the response is
the constant one, and an incident is counted.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

_SECONDS_BETWEEN_STRIKES = 0.05


class TimeLimitError(Exception):
    """The engine was stopped."""


@contextmanager
def limit_time(
    seconds: float | None, interrupt: Callable[[], None]
) -> Iterator[Callable[[], bool]]:
    """Call `interrupt` once the block has run for so many seconds, and again until the block ends.

    It may be between two statements the first time. Raises TimeLimitError at the end of the block.
    Yields a function that tells whether the limit has struck.
    """
    struck, ended = threading.Event(), threading.Event()

    def strike() -> None:
        while not ended.wait(seconds if not struck.is_set() else _SECONDS_BETWEEN_STRIKES):
            struck.set()
            with suppress(Exception):
                interrupt()

    if seconds is not None:
        threading.Thread(target=strike, name="dither-limit", daemon=True).start()
    try:
        yield struck.is_set
    except Exception:
        if not struck.is_set():
            raise
    finally:
        ended.set()
    if struck.is_set():
        raise TimeLimitError from None
