"""A backstop for tests of what must return: an alarm long after the work should be done."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class NeverReturns(BaseException):
    """The work was still going on when the alarm rang; no handler of errors may take it for one."""


@contextmanager
def time_guard(seconds: int = 20) -> Iterator[None]:
    """Raises NeverReturns in what runs inside for longer."""

    def ring(*_: Any) -> None:
        raise NeverReturns(f"still running after {seconds} seconds")

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
