"""Packed random bits with an exact rational probability, 64 at a time.

Each of 64 lanes compares a uniform number, drawn bit by bit, with the binary digits of p. The first
digit in which the two differ decides the lane, so a lane needs two bits on average and no lane is
ever rounded. docs/proofs/local.md, lemma 2. Bit v of a packed row is bit v % 8 (least significant
first) of byte v // 8.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dither.privacy.noise import Words

_BLOCK = 1 << 15
_TOGETHER = 8  # rounds before the few words that are not decided yet are drawn apart


def random_words(p: Fraction, count: int, source: Words) -> NDArray[np.uint64]:
    """`count` words of 64 independent bits, each 1 with probability exactly p."""
    out = np.empty(count, np.uint64)
    for start in range(0, count, _BLOCK):
        out[start : start + _BLOCK] = _draw_block(p, min(_BLOCK, count - start), source)
    return out


def _draw_block(p: Fraction, count: int, source: Words) -> NDArray[np.uint64]:
    """Draw `count` words of 64 bits, each bit 1 with probability p exactly.

    A bit is 1 if a uniform number lies below p. Uniform numbers are compared with p digit by
    digit, 64 at a time; `open_lanes` marks those that agree with p so far. After `_TOGETHER`
    digits only the words that still have such a bit are drawn.
    """
    if p >= 1:
        return np.full(count, ~np.uint64(0))
    result = np.zeros(count, np.uint64)
    open_lanes = np.full(count, ~np.uint64(0))
    rest = None
    numerator = p.numerator
    denominator = p.denominator
    rounds = 0
    while numerator:  # digits left: a uniform that agrees with a finished expansion is not below p
        numerator *= 2
        digit, numerator = divmod(numerator, denominator)
        if rest is None:
            drawn = source.words(count)
            if digit:
                result |= open_lanes & ~drawn
                open_lanes &= drawn
            else:
                open_lanes &= ~drawn
            rounds += 1
            if rounds >= _TOGETHER:
                rest = np.flatnonzero(open_lanes)
        else:
            if not len(rest):
                break
            drawn = source.words(len(rest))
            lanes = open_lanes[rest]
            if digit:
                result[rest] |= lanes & ~drawn
            lanes = lanes & (drawn if digit else ~drawn)
            open_lanes[rest] = lanes
            rest = rest[lanes != 0]
    return result


def random_rows(p: Fraction, rows: int, width: int, source: Words) -> NDArray[np.uint8]:
    """Draw `rows` rows of `width` packed bits, each 1 with probability p.

    The spare bits of the last byte are 0.
    """
    row_bytes = -(-width // 8)
    words = random_words(p, -(-rows * row_bytes // 8), source)
    packed = words.view(np.uint8)[: rows * row_bytes].reshape(rows, row_bytes)
    if width % 8:
        packed[:, -1] &= np.uint8((1 << width % 8) - 1)
    return packed


def write_bit(packed: NDArray[np.uint8], position: NDArray[Any], bit: NDArray[np.bool_]) -> None:
    """Set bit `position[i]` of row i to `bit[i]`."""
    rows = np.arange(len(packed))
    column = position >> 3
    mask = (np.uint8(1) << (position & 7).astype(np.uint8)).astype(np.uint8)
    cells = packed[rows, column]
    packed[rows, column] = np.where(bit, cells | mask, cells & ~mask)


def count_ones(packed: NDArray[np.uint8], width: int) -> NDArray[np.int64]:
    """Count how many rows have each bit set.

    31 rows at a time are added bit by bit by full adders (64 bits in parallel) into the five binary
    digits of their sum, so that only five rows of every 31 have to be unpacked.
    """
    total = np.zeros(width, np.int64)
    row_bytes = packed.shape[1]
    group = max(8, (1 << 15) // row_bytes // 8 * 8)
    whole = len(packed) // (31 * group) * (31 * group)
    for start in range(0, whole, 31 * group):
        block = np.ascontiguousarray(packed[start : start + 31 * group])
        digits = _add_bits(list(block.reshape(31, group * row_bytes).view(np.uint64)))
        for power, digit in enumerate(digits):
            total += _sum_unpacked(digit.view(np.uint8).reshape(group, row_bytes), width) << power
    return total + _sum_unpacked(packed[whole:], width)


def _add_bits(rows: list[NDArray[np.uint64]]) -> list[NDArray[np.uint64]]:
    """Compute the binary digits of the lane-wise sum of 2**k - 1 rows, lowest first."""
    digits = []
    while rows:
        carries = []
        while len(rows) > 1:
            a = rows.pop()
            b = rows.pop()
            c = rows.pop()
            either = a ^ b
            rows.append(either ^ c)
            carries.append((a & b) | (either & c))
        digits.append(rows[0])
        rows = carries
    return digits


def _sum_unpacked(packed: NDArray[np.uint8], width: int) -> NDArray[np.int64]:
    """Count the ones in each of `width` bit columns, 255 rows at a time so that uint8 suffices."""
    total = np.zeros(width, np.int64)
    for start in range(0, len(packed), 255):
        unpacked = np.unpackbits(
            packed[start : start + 255], axis=1, bitorder="little", count=width
        )
        total += np.add.reduce(unpacked, axis=0, dtype=np.uint8)
    return total
