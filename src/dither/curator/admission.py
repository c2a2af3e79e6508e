"""Admission: one question reads data at a time, few wait, and the others are sent away for free."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

from dither.protocol.errors import BusyError

MOST_WAITING = 32


class Admission:
    """The queue before a dataset."""

    def __init__(self, most_waiting: int = MOST_WAITING) -> None:
        self._most_waiting = most_waiting
        self._waiting = 0
        self._count = Lock()
        self._turn = Lock()

    @contextmanager
    def admit(self) -> Iterator[None]:
        """Wait for one's turn; BusyError, before anything is charged, where too many wait."""
        with self._count:
            if self._waiting >= self._most_waiting:
                raise BusyError(
                    "too many questions wait for this dataset: nothing was charged, ask again later"
                )
            self._waiting += 1
        try:
            with self._turn:
                yield
        finally:
            with self._count:
                self._waiting -= 1
