"""Rigorous fixed-point enclosures of real numbers.

Each is a pair of integers (low, high) with low <= 2**bits * value <= high.

Only integer arithmetic, floor on the low side and ceiling on the high side of every step, so no
rounding ever has to be trusted. Proof: docs/proofs/exact-sampling.md, lemma 1.
"""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple


class Enclosure(NamedTuple):
    """Integers around a real number in units of 2**-bits."""

    low: int
    high: int


def ceil_shift(value: int, bits: int) -> int:
    """Return the smallest integer that is at least value / 2**bits."""
    return -(-value >> bits)


def fixed(x: Fraction, bits: int) -> Enclosure:
    """Enclose 2**bits * x between two integers, for a rational x.

    >>> fixed(Fraction(1, 3), 4)
    Enclosure(low=5, high=6)
    """
    scaled = x.numerator << bits
    return Enclosure(scaled // x.denominator, -(-scaled // x.denominator))


def times(a: Enclosure, b: Enclosure, bits: int) -> Enclosure:
    """Enclose the product of two non-negative numbers."""
    return Enclosure(a.low * b.low >> bits, ceil_shift(a.high * b.high, bits))


def exp_minus(x: Fraction, bits: int) -> Enclosure:
    """Enclose e**-x for rational x >= 0.

    e**(x/2**r) by its Taylor series (all terms positive, remainder below twice the first term left
    out because x/2**r <= 1/2), then the reciprocal, then r squarings.

    >>> exp_minus(Fraction(1), 20)
    Enclosure(low=385749, high=385750)
    """
    if x < 0:
        raise ValueError("exp_minus needs x >= 0")
    if x == 0:
        return Enclosure(1 << bits, 1 << bits)
    if x > bits:  # e**-x < 2**-x < 2**-bits
        return Enclosure(0, 1)
    halvings = max(0, (x.numerator // x.denominator).bit_length() + 6)
    work = bits + 2 * halvings + 16
    y = fixed(x / (1 << halvings), work)
    whole = 1 << work
    total_low = total_high = term_low = term_high = whole
    count = 0
    while term_high > 1:
        count += 1
        term_low = (term_low * y.low >> work) // count
        term_high = -(-ceil_shift(term_high * y.high, work) // count)
        total_low += term_low
        total_high += term_high
    power = Enclosure(
        (whole * whole) // (total_high + 2 * term_high), -(-(whole * whole) // total_low)
    )
    for _ in range(halvings):
        power = times(power, power, work)
    return Enclosure(power.low >> (work - bits), ceil_shift(power.high, work - bits))
