"""The schedule of a dataset: questions start and answers leave at public times.

A question is admitted at a tick of the clock, holds the dataset for its slots, and its answer
leaves at their end, whatever it was: an answer, a refusal or a failure. Until then the release
exists for nobody: who reads balances, history or stored answers waits for the slots to end. Every
visible time is the end of a slot. How many slots a question holds follows from its plan and the
declared sizes (`work_bounds.py`), never from past runs. The length of slots is public, and changes
by *misses* alone: a question that takes longer than its slots doubles the slots of the dataset, for
everybody and for ever, and tells one bit. Misses are counted in the ledger and are unprotected;
past the last one every slot has its greatest length.

A random delay is added to the time of the work before its slots are counted: exponential, with a
mean of a fiftieth of what the question holds. Work that ends within its bound is a miss with
probability e^-20. Where a question is tuned to end near its slots' end, one person who moves the
work by w seconds changes the probability p of a miss by at most (e^(w/b) - 1) p, b the mean delay:
over a whole session by at most the sum over ten misses (docs/proofs/schedule.md). The answer is not
late by the delay, since it leaves at the end of its slots anyway.

Without a schedule (slots of 0 seconds) answers leave when they are ready, and certificates say so.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from threading import Condition
from typing import Protocol

from dither.privacy.noise.source import fresh_bytes
from dither.protocol.errors import BusyError

MOST_WAITING = 56
MOST_WAITING_OF_ONE = 8
"""Questions that wait or run: of all principals, and of one of them."""
MOST_MISSES = 10
DELAY_SHARE = 0.02
"""The mean of the random delay, as a share of the slots that a question holds."""
FIXED_SHARE = 0.4
"""What every question may need beside its data (pricing, charging, storing), in first slots."""
WORK_SHARE = 0.6
"""Work ends within this share of its slots; the rest is twenty mean delays. The engine is stopped
after this share of the longest slots."""
READING_GRID_S = 0.05
ADMISSION_GRID_S = 0.01
"""Questions start on this grid: at once, where the dataset is free."""


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


@dataclass
class ReleasedReading:
    """A reading of what was released. One that a slot follows leaves at the slot's end."""

    is_followed_by_slot: bool = False


def find_slot_length(first_slot_s: float, misses: int) -> float:
    """The length of a slot after so many misses: it doubles with each, ten times at most.

    >>> find_slot_length(0.5, 0), find_slot_length(0.5, 3), find_slot_length(0.5, 99)
    (0.5, 4.0, 512.0)
    """
    return float(first_slot_s * 2 ** min(misses, MOST_MISSES))


def count_slots(first_slot_s: float, work_s: float) -> int:
    """The slots of a question whose data and noise may work for so long, by public facts.

    >>> count_slots(0.5, 0.1), count_slots(0.5, 0.11), count_slots(0.5, 3.0)
    (1, 2, 11)
    """
    return max(1, math.ceil((FIXED_SHARE + work_s / first_slot_s) / WORK_SHARE - 1e-9))


def draw_delay() -> float:
    """A random delay: exponential with mean 1."""
    return -math.log((int.from_bytes(fresh_bytes(8), "big") + 1) / 2**64)


def find_end(
    first_slot_s: float, misses: int, slots: int, worked_s: float, delay: float
) -> tuple[int, float]:
    """The misses after a question, and how long after its start its answer leaves.

    All that leaves is decided here, by public numbers (`first_slot_s`, `misses` before it, `slots`
    that it holds), the seconds of its work, and a random `delay`, exponential with mean 1. A
    question whose work and delay outlast its slots is a miss, once for each time that they must
    double.

    >>> find_end(0.5, 0, 1, 0.3, 0.9), find_end(0.5, 0, 1, 0.495, 0.9)
    ((0, 0.5), (1, 1.0))
    """
    length = find_slot_length(first_slot_s, misses)
    ready = worked_s + delay * DELAY_SHARE * slots * length
    while ready > slots * length and misses < MOST_MISSES:
        misses += 1
        length = find_slot_length(first_slot_s, misses)
    return misses, max(slots, math.ceil(ready / length)) * length


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
        self._delay = 0.0

    @property
    def is_kept(self) -> bool:
        """Whether answers leave at slots."""
        return self._first_slot_s > 0

    @property
    def slot_s(self) -> float:
        """The length of a slot now."""
        return find_slot_length(self._first_slot_s, self.misses)

    def recount_misses(self) -> None:
        """Take the misses that another curator counted, before it was taken over from."""
        self.misses = max(self.misses, self._log.count_misses())

    def await_slots(self, release_times: Iterable[str]) -> None:
        """Wait until all these releases of an earlier curator have come to the ends of their slots.

        Until then nobody may see them. Times are rounded down, so one second is added.
        """
        if self.is_kept and (newest := max(release_times, default=None)) is not None:
            _sleep_until(datetime.fromisoformat(newest).timestamp() + 1)

    def read_clock(self) -> str:
        """The time of a release: the end of the slot that holds the dataset, to the second.

        It is rounded down: nobody is shown a time that is still to come.
        """
        if not self.is_kept:
            return _write_time(math.floor(time.time()))
        _, end = self._find_end(time.time())
        return _write_time(math.floor(end))

    @property
    def engine_limit_s(self) -> float | None:
        """How long the engine may work on the question that holds the dataset, at most.

        None where no schedule is kept.
        """
        longest_s = self._slots * find_slot_length(self._first_slot_s, MOST_MISSES)
        return WORK_SHARE * longest_s if self.is_kept else None

    def _find_end(self, now: float) -> tuple[int, float]:
        """The misses and the end of the slot, for a question that is not done before `now`."""
        worked_s = max(0.0, now - self._start)
        misses, after_s = find_end(
            self._first_slot_s, self.misses, self._slots, worked_s, self._delay
        )
        return misses, self._start + after_s

    @contextmanager
    def hold_slot(self, asker: str, seconds: float = 0) -> Iterator[None]:
        """Hold the dataset for one question; BusyError, for free, where too many wait.

        It takes as many first slots as `seconds` need, a public number, and leaves at the end of
        the last one. Misses make all of them longer.
        """
        with self._changed:
            self._check_waiting(asker)
            ticket = self._draw_ticket(asker)
        try:
            self._await_turn(ticket)
            self._slots = self._count_held(seconds)
            self._delay = draw_delay()
            self._await_tick()
            try:
                yield
            finally:
                self._leave()
        finally:
            self._give_back(ticket)

    def count_seconds(self, work_s: float) -> float:
        """What `hold_slot` takes for a question whose data and noise may work for so long."""
        return count_slots(self._first_slot_s, work_s) * self._first_slot_s if self.is_kept else 0

    def _count_held(self, seconds: float) -> int:
        return max(1, math.ceil(seconds / self._first_slot_s - 1e-9)) if self.is_kept else 1

    @contextmanager
    def read_released(self) -> Iterator[ReleasedReading]:
        """Read the ledger while no question holds the dataset; replies leave on a fine grid."""
        reading = ReleasedReading()
        if not self.is_kept:
            yield reading
            return
        with self._changed:
            ticket = self._draw_ticket(None)
        try:
            self._await_turn(ticket)
            yield reading
        finally:
            self._give_back(ticket)
            if not reading.is_followed_by_slot:
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
            self._start = _next_tick(ADMISSION_GRID_S)
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
