"""The schedule of a dataset: questions start and answers leave at public times.

A question is admitted at a tick of the clock, holds the dataset for one slot, and its answer leaves
at the slot's end, whatever it was: an answer, a repeat, a refusal or a failure. Until then the
release exists for nobody: who reads balances, history or stored answers waits for the slot to end.
Every visible time is the end of a slot. The length of slots is public; it never depends on past
runs, but for *misses*: a question that takes longer than its slot doubles the slots of the dataset,
for everybody and for ever, and tells one bit. Misses are counted in the ledger and are unprotected;
past the last one every slot has its greatest length.

Without a schedule (slots of 0 seconds) answers leave when they are ready, and certificates say so.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from threading import Condition
from typing import Protocol

from dither.protocol.errors import BusyError

MOST_WAITING = 32
MOST_WAITING_OF_ONE = 8
"""Questions that wait or run: of all principals, and of one of them."""
MOST_MISSES = 10
READING_GRID_S = 0.05


@dataclass(frozen=True, eq=False)
class Ticket:
    """A turn at the dataset: a question of an asker, or a reading, which has none.

    Two tickets of one asker differ: they are compared by identity.
    """

    asker: str | None

    @property
    def is_question(self) -> bool:
        """Whether it is the turn of a question."""
        return self.asker is not None


class MissLog(Protocol):
    """Where misses are counted, over restarts and machines."""

    def count_misses(self) -> int:
        """How often a question took longer than its slot, ever."""

    def add_miss(self) -> None:
        """Count a question that took longer than its slot."""


class Schedule:
    """Whose turn it is, and when answers leave."""

    def __init__(self, slot_s: float, log: MissLog) -> None:
        self._first_slot_s = slot_s
        self._log = log
        self.misses = log.count_misses()
        self._tickets: list[Ticket] = []
        self._changed = Condition()
        self._start = 0.0
        self._slots = 1

    @property
    def is_kept(self) -> bool:
        """Whether answers leave at slots."""
        return self._first_slot_s > 0

    @property
    def slot_s(self) -> float:
        """The length of a slot now."""
        return self._length(self.misses)

    def read_clock(self) -> str:
        """The time of a release: the end of the slot that holds the dataset, to the second."""
        if not self.is_kept:
            return _write_time(math.floor(time.time()))
        _, end = self._find_end(time.time())
        return _write_time(math.ceil(end))

    def _find_end(self, now: float) -> tuple[int, float]:
        """The misses and the end of the slot, for a question that is not done before `now`."""
        misses = self.misses
        while now > self._start + self._slots * self._length(misses) and misses < MOST_MISSES:
            misses += 1
        slots = math.ceil(max(self._slots, (now - self._start) / self._length(misses)))
        return misses, self._start + slots * self._length(misses)

    def _length(self, misses: int) -> float:
        """The length of a slot after so many misses."""
        return float(self._first_slot_s * 2 ** min(misses, MOST_MISSES))

    @contextmanager
    def hold_slot(self, asker: str, seconds: float = 0) -> Iterator[None]:
        """Hold the dataset for one question; BusyError, for free, where too many wait.

        A job takes as many slots as `seconds` need, a public number, and leaves at the last one.
        """
        with self._changed:
            self._check_waiting(asker)
            ticket = self._draw_ticket(asker)
        try:
            self._await_turn(ticket)
            self._slots = max(1, math.ceil(seconds / self.slot_s)) if self.is_kept else 1
            self._await_tick()
            try:
                yield
            finally:
                self._leave()
        finally:
            self._give_back(ticket)

    @contextmanager
    def read_released(self) -> Iterator[None]:
        """Read the ledger while no question holds the dataset; replies leave on a fine grid."""
        if not self.is_kept:
            yield
            return
        with self._changed:
            ticket = self._draw_ticket(None)
        try:
            self._await_turn(ticket)
            yield
        finally:
            self._give_back(ticket)
            await_tick(READING_GRID_S)

    def _check_waiting(self, asker: str) -> None:
        """Refuse a question too many, of all askers together or of this one."""
        askers = [ticket.asker for ticket in self._tickets if ticket.is_question]
        if len(askers) >= MOST_WAITING:
            raise BusyError(
                "too many questions wait for this dataset: nothing was charged, ask again later"
            )
        if askers.count(asker) >= MOST_WAITING_OF_ONE:
            raise BusyError(
                f"{MOST_WAITING_OF_ONE} of your questions wait for this dataset: nothing was "
                "charged, ask again when one of them is answered"
            )

    def _draw_ticket(self, asker: str | None) -> Ticket:
        ticket = Ticket(asker)
        self._tickets.append(ticket)
        return ticket

    def _await_turn(self, ticket: Ticket) -> None:
        """Wait in order of arrival. A question waits for all before it, a reader for questions."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_next(ticket))

    def _is_next(self, ticket: Ticket) -> bool:
        before = self._tickets[: self._tickets.index(ticket)]
        return not any(earlier.is_question or ticket.is_question for earlier in before)

    def _give_back(self, ticket: Ticket) -> None:
        with self._changed:
            self._tickets.remove(ticket)
            self._changed.notify_all()

    def _await_tick(self) -> None:
        """Wait for the next tick; a question starts at a public time."""
        if self.is_kept:
            self._start = _next_tick(self.slot_s)
            _sleep_until(self._start)

    def _leave(self) -> None:
        """Wait for the end of the slot; one that has ended already is a miss."""
        if not self.is_kept:
            return
        misses, end = self._find_end(time.time())
        new_misses = misses - self.misses
        self.misses = misses
        try:
            for _ in range(new_misses):
                self._log.add_miss()
        finally:
            _sleep_until(end)


def _write_time(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()


def _next_tick(length: float) -> float:
    """The next multiple of a length on the clock."""
    return math.floor(time.time() / length + 1) * length


def await_tick(length: float) -> None:
    """Wait for the next multiple of a length on the clock."""
    _sleep_until(_next_tick(length))


def _sleep_until(moment: float) -> None:
    while (wait := moment - time.time()) > 0:
        time.sleep(wait)
