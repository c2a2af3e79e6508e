"""The deadline of a served job: when its work ends at the latest, whatever was measured.

How long a model takes to fit depends on noisy numbers. A curator that answers on a schedule sets a
deadline, and every loop of `dither.synth` that may run long checks it. Other work has none.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_deadline: ContextVar[float | None] = ContextVar("deadline", default=None)


class DeadlineError(Exception):
    """The work of a job took longer than it may."""


@contextmanager
def end_within(seconds: float | None) -> Iterator[None]:
    """Let the work of this block take so many seconds; None is no limit."""
    token = _deadline.set(None if seconds is None else time.monotonic() + seconds)
    try:
        yield
    finally:
        _deadline.reset(token)


def count_seconds_left() -> float | None:
    """Count the seconds until the deadline; None where there is none. Raises DeadlineError past it.

    >>> with end_within(60):
    ...     59 < count_seconds_left() <= 60
    True
    """
    deadline = _deadline.get()
    if deadline is None:
        return None
    seconds = deadline - time.monotonic()
    if seconds <= 0:
        raise DeadlineError
    return seconds


def check_deadline() -> None:
    """Raise DeadlineError past the deadline.

    >>> check_deadline()
    """
    count_seconds_left()
