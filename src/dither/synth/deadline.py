"""When the work of a served job ends at the latest, whatever was measured.

Fitting a model takes as long as the noisy numbers ask for. A curator that answers on a schedule
sets the end of a job, and every loop here that may run long checks it. Elsewhere there is no end.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_end: ContextVar[float | None] = ContextVar("end of the work", default=None)


class DeadlineError(Exception):
    """The work of a job took longer than it may."""


@contextmanager
def end_within(seconds: float | None) -> Iterator[None]:
    """Let the work of this block take so many seconds; None is no limit."""
    token = _end.set(None if seconds is None else time.monotonic() + seconds)
    try:
        yield
    finally:
        _end.reset(token)


def count_seconds_left() -> float | None:
    """The seconds until the end, None where there is none; DeadlineError past it.

    >>> with end_within(60):
    ...     59 < count_seconds_left() <= 60
    True
    """
    end = _end.get()
    if end is None:
        return None
    left = end - time.monotonic()
    if left <= 0:
        raise DeadlineError
    return left


def check_deadline() -> None:
    """Raise DeadlineError past the end of the work; next to nothing where there is none.

    >>> check_deadline()
    """
    count_seconds_left()
