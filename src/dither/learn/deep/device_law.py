"""The rounded Gaussian from words of a cipher, with operations that a device has: one table of
thresholds, one polynomial, and a flag where they do not decide.

The law and its sampler are those of `dither.privacy.noise.rounded`, with more and narrower cells,
so that nearly every proposal is accepted. Guarantee: what is not flagged is what the exact sampler
makes of the same bits; what is flagged is settled exactly on the host (`settle`).
Proof: docs/proofs/device-noise.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dither.learn.deep.cipher import chacha_blocks
from dither.privacy.noise import Words
from dither.privacy.noise.rounded import (
    RoundedPlan,
    accept_exactly,
    plan_rounded,
    rounded_gaussian,
)

CELLS = 512
"""At least so many cells in one sigma: at most one proposal in 1,000 is rejected."""
LANES = 256
STREAMS = 3
WORDS_PER_DRAW = 5
OFFSET_BITS = 40
COIN_BITS = 53
MARGIN = 2.0**-40
FLAG = -(1 << 62)
"""A position that is flagged holds this number plus the attempt that did not decide."""
_BIAS = 1 << 31
_REMAINDER_BITS = 52
Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class DeviceLaw:
    """Noise of one sigma. `thresholds` are the cumulative counts of cells, less 2**63 so that they
    are signed, filled up to a power of two less one; `cells` of them are real."""

    sigma: Fraction
    plan: RoundedPlan
    thresholds: Integers
    cells: int
    coefficients: tuple[float, ...]

    @property
    def fine(self) -> int:
        """A cell is 2**-fine wide."""
        return self.plan.fine

    @property
    def rate(self) -> float:
        return float(self.plan.table.law.rate)

    @property
    def depth(self) -> int:
        """Steps of a binary search of the thresholds."""
        return len(self.thresholds).bit_length()


class ProposalFields(NamedTuple):
    """What the bits of one proposal mean: the word of its cell (less 2**63), the sign (-1 or 0),
    40 bits of offset and 53 bits of coin."""

    word: Any
    sign: Any
    offset: Any
    coin: Any


@lru_cache(maxsize=8)
def plan_device_law(sigma: Fraction) -> DeviceLaw:
    """The tables of one sigma."""
    plan = plan_rounded(sigma, CELLS)
    counts = plan.table.counts
    assert plan.table.first == 0 and plan.table.left_over > 0
    ends = np.array([int(end) - (1 << 63) for end in _accumulate(counts)], np.int64)
    filled = np.full((1 << len(ends).bit_length()) - 1, np.iinfo(np.int64).max)
    filled[: len(ends)] = ends
    largest = (2 * plan.table.largest + 1) * plan.table.law.rate
    return DeviceLaw(sigma, plan, filled, len(ends), _taylor(largest))


def _accumulate(counts: tuple[int, ...]) -> list[int]:
    total = 0
    ends = []
    for count in counts:
        total += count
        ends.append(total)
    return ends


def _taylor(largest: Fraction) -> tuple[float, ...]:
    """Coefficients of exp(-y), highest first, with a remainder below 2**-52 up to `largest`."""
    degree = 1
    while largest ** (degree + 1) / math.factorial(degree + 1) > Fraction(1, 1 << _REMAINDER_BITS):
        degree += 1
    return tuple((-1) ** k / math.factorial(k) for k in range(degree, -1, -1))


def locate(positions: Any) -> tuple[Any, Any]:
    """The counter and the stream (0, 1, 2) of positions: no two positions share both."""
    group = positions // (STREAMS * LANES)
    rest = positions % (STREAMS * LANES)
    return group * LANES + rest % LANES, rest // LANES


def read_fields(words: list[Any]) -> ProposalFields:
    """Cut five words of 32 bits into the fields of a proposal: disjoint bits."""
    high, low, first, second, third = words
    return ProposalFields(
        word=(high - _BIAS) * (1 << 32) + low,
        sign=-((second >> 8) & 1),
        offset=(first << 8) | (second & 0xFF),
        coin=((second >> 11) << 32) | third,
    )


def decide(
    law: DeviceLaw,
    fields: ProposalFields,
    find_cells: Callable[[Any], Any],
    to_double: Callable[[Any], Any],
) -> tuple[Any, Any, Any]:
    """The rounded values of proposals, whether they are accepted, and whether the bits do not
    decide; for arrays of NumPy or PyTorch.

    `find_cells` counts the thresholds that are at most a word.
    """
    cells = find_cells(fields.word)
    away = fields.offset ^ (fields.sign & ((1 << OFFSET_BITS) - 1))
    offset = (to_double(away) + 0.5) * 2.0**-OFFSET_BITS
    y = offset * (to_double(cells) * 2.0 + offset) * law.rate
    bound = y * 0.0 + law.coefficients[0]
    for coefficient in law.coefficients[1:]:
        bound = bound * y + coefficient
    gap = bound - to_double(fields.coin) * 2.0**-COIN_BITS
    is_unsure = (abs(gap) < MARGIN) | (cells >= law.cells)
    return round_signed(law, cells ^ fields.sign, fields.offset), gap > 0, is_unsure


def round_signed(law: DeviceLaw, cells: Any, offsets: Any) -> Any:
    """The integers nearest to signed cells with 40 bits of offset."""
    if law.fine > 0:
        return (cells + (1 << (law.fine - 1))) >> law.fine
    halves = offsets >> (OFFSET_BITS - 1 + law.fine)
    return (cells << -law.fine) + ((halves + 1) >> 1)


def draw_twin(
    law: DeviceLaw, key: list[int], draw: int, positions: Any, arrays: Arrays
) -> tuple[Any, Any]:
    """The first attempts of positions that are accepted or not decided, and the attempt of each:
    what the kernel does, with whole arrays. Flagged positions hold FLAG plus the attempt."""
    values = positions * 0
    is_open = positions == positions
    attempt = 0
    while bool(is_open.any()):
        proposed, is_accepted, is_unsure = _propose(law, key, draw, attempt, positions, arrays)
        values = arrays.where(is_open & is_unsure, values * 0 + (FLAG + attempt), values)
        values = arrays.where(is_open & ~is_unsure & is_accepted, proposed, values)
        is_open = is_open & ~is_unsure & ~is_accepted
        attempt += 1
    return values, attempt


class Arrays(NamedTuple):
    """What NumPy and PyTorch write differently."""

    where: Callable[[Any, Any, Any], Any]
    find_cells: Callable[[Any], Any]
    to_double: Callable[[Any], Any]


def numpy_arrays(law: DeviceLaw) -> Arrays:
    """The operations of NumPy."""
    real = law.thresholds[: law.cells]
    return Arrays(
        np.where,
        lambda words: np.searchsorted(real, words, side="right"),
        lambda values: values.astype(np.float64),
    )


def _propose(
    law: DeviceLaw, key: list[int], draw: int, attempt: int, positions: Any, arrays: Arrays
) -> tuple[Any, Any, Any]:
    fields = read_proposal(key, draw, attempt, positions, arrays.where)
    return decide(law, fields, arrays.find_cells, arrays.to_double)


def read_proposal(
    key: list[int], draw: int, attempt: int, positions: Any, where: Callable[[Any, Any, Any], Any]
) -> ProposalFields:
    """The proposal of an attempt at positions: a block of (draw, attempt, counter), 5 of its
    words."""
    counters, streams = locate(positions)
    blocks = chacha_blocks(key, counters, (draw & 0xFFFFFFFF, draw >> 32, attempt))
    chosen = []
    for word in range(WORDS_PER_DRAW):
        first, second, third = (blocks[word + WORDS_PER_DRAW * s] for s in range(STREAMS))
        chosen.append(where(streams == 0, first, where(streams == 1, second, third)))
    return read_fields(chosen)


def settle(
    law: DeviceLaw, key: list[int], draw: int, position: int, attempt: int, source: Words
) -> int:
    """The number at a flagged position: the same proposal, decided exactly with further bits, and a
    fresh draw where it is rejected."""
    fields = read_proposal(key, draw, attempt, np.array([position], np.int64), np.where)
    sign = int(fields.sign[0])
    offset = int(fields.offset[0])
    cell = int(np.searchsorted(law.thresholds[: law.cells], fields.word, side="right")[0])
    if cell >= law.cells:
        cell = law.plan.table.residual(source)
    away = offset ^ (sign & ((1 << OFFSET_BITS) - 1))
    if accept_exactly(law.plan, cell, away, int(fields.coin[0]), source):
        return int(round_signed(law, cell ^ sign, offset))
    return int(rounded_gaussian(law.sigma, source=source))
