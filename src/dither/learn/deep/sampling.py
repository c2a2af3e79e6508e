"""Which units are in a step, and in which slot of the padded batch: secret, fresh for every step.

Guarantee: every unit is in the sample with probability `rate` exactly, independently; given how
many there are, the units lie in uniformly random distinct slots. So the slots of all other units
have the same law whether or not one unit is there. Proof: docs/proofs/deep-learning.md#slots.
"""

from __future__ import annotations

import os
from concurrent.futures import Future, ThreadPoolExecutor
from fractions import Fraction
from typing import Any, NoReturn, Protocol

import numpy as np
from numpy.typing import NDArray

from dither.errors import ParameterError
from dither.privacy.noise import Words

RATE_BITS = 32


class SampleTerms(Protocol):
    """What of a plan a sample needs."""

    @property
    def rate(self) -> Fraction: ...

    @property
    def capacity(self) -> int: ...


EMPTY = -1
Integers = NDArray[np.int64]


def round_rate(batch: int, n: int) -> Fraction:
    """The largest multiple of 2**-32 that is at most batch / n, so that coins are exact.

    >>> round_rate(1, 4), float(round_rate(256, 60_000)) <= 256 / 60_000
    (Fraction(1, 4), True)
    """
    return Fraction((batch << RATE_BITS) // n, 1 << RATE_BITS)


def draw_sample(units: int, rate: Fraction, source: Words) -> Integers:
    """The units of a step, each by a coin of its own."""
    threshold = int(rate * (1 << RATE_BITS))
    words = source.words(-(-units // 2)).view(np.uint32)[:units]
    return np.flatnonzero(words.astype(np.int64) < threshold)


def draw_order(count: int, source: Words) -> Integers:
    """A uniformly random order of 0 .. count - 1: words are drawn again where two are equal."""
    while True:
        words = source.words(count)
        order = np.argsort(words)
        ranked = words[order]
        if not np.any(ranked[1:] == ranked[:-1]):
            return order


def fill_slots(sample: Integers, limit: int, slots: int, source: Words) -> Integers:
    """The unit in each of `slots` slots, or EMPTY. Of more than `limit` units a random subset is
    kept: no error tells of it.

    >>> from dither.privacy.noise import SystemSource
    >>> sorted(fill_slots(np.array([5, 7]), 4, 4, SystemSource()).tolist())
    [-1, -1, 5, 7]
    """
    kept = sample
    if len(sample) > limit:
        kept = sample[draw_order(len(sample), source)[:limit]]
    filled = np.full(slots, EMPTY, np.int64)
    filled[draw_order(slots, source)[: len(kept)]] = kept
    return filled


class SlotDrawer:
    """Draws the slots of each step; the next step's on a second thread, where a device computes.

    Every sample is used once. What was drawn ahead is thrown away after a fork.
    """

    def __init__(
        self, units: int, plan: SampleTerms, slots: int, source: Words, *, ahead: bool
    ) -> None:
        self._units = units
        self._plan = plan
        self._slots = slots
        self._source = source
        self._process = os.getpid()
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="slots") if ahead else None
        self._next: Future[Integers] | None = None

    def draw(self, *, is_last: bool) -> Integers:
        """The unit in each slot of one step, or EMPTY."""
        waiting = self._next
        self._next = None
        if self._pool is None or self._process != os.getpid():
            return self._fill()
        filled = self._fill() if waiting is None else waiting.result()
        if not is_last:
            self._next = self._pool.submit(self._fill)
        return filled

    def _fill(self) -> Integers:
        sample = draw_sample(self._units, self._plan.rate, self._source)
        return fill_slots(sample, self._plan.capacity, self._slots, self._source)

    def close(self) -> None:
        """End the thread."""
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
            self._pool = None
        self._next = None

    def _never(self, *_: Any) -> NoReturn:
        raise TypeError("samples drawn ahead cannot be copied or pickled: they would be used twice")

    __copy__ = __deepcopy__ = __reduce__ = __reduce_ex__ = __getstate__ = _never


def group_rows(owners: Any, rows: int, rows_per_unit: int, source: Words) -> Integers:
    """A table of the rows of every owner, at most `rows_per_unit` of them, chosen at random.

    >>> from dither.privacy.noise import SystemSource
    >>> group_rows(["a", "b", "a"], 3, 2, SystemSource()).shape
    (2, 2)
    """
    labels = np.asarray(owners)
    if labels.shape != (rows,):
        raise ParameterError("owners has one label for each row")
    _, codes = np.unique(labels, return_inverse=True)
    order = draw_order(rows, source)
    order = order[np.argsort(codes[order], kind="stable")]
    sorted_codes = codes[order]
    starts = np.flatnonzero(np.r_[True, sorted_codes[1:] != sorted_codes[:-1]])
    rank = np.arange(rows) - np.repeat(starts, np.diff(np.r_[starts, rows]))
    table = np.full((len(starts), rows_per_unit), EMPTY, np.int64)
    is_kept = rank < rows_per_unit
    table[sorted_codes[is_kept], rank[is_kept]] = order[is_kept]
    return table
