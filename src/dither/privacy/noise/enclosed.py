"""Coins whose probability is a real number known by enclosures.

A random word decides, and more words where it does not.

A `Chance` gives, for any number of bits, integers (low, high) with low <= 2**bits * p <= high, the
gap shrinking relative to 2**bits. Of the 2**64 words exactly floor(2**64 p) mean yes; the one word
at that place is decided with further words. Proof: docs/proofs/selection.md#coins-by-enclosure.
"""

from __future__ import annotations

from collections.abc import Callable

from dither.privacy.noise.enclosure import Enclosure
from dither.privacy.noise.source import Words

Chance = Callable[[int], Enclosure]
_MOST_BITS = 1 << 14


def words_for_yes(chance: Chance) -> int:
    """Compute floor(2**64 p), certified.

    A p that is exactly 0 or 1 must be enclosed exactly.

    >>> words_for_yes(lambda bits: Enclosure(1 << bits - 1, 1 << bits - 1)) == 2**63
    True
    """
    bits = 128
    while bits <= _MOST_BITS:
        bound = chance(bits)
        if bound.low >> (bits - 64) == bound.high >> (bits - 64):
            return bound.low >> (bits - 64)
        bits *= 2
    raise AssertionError("the enclosure of a probability does not shrink")


def decide(chance: Chance, drawn: int, source: Words) -> bool:
    """Whether a uniform whose first 64 bits are `drawn` lies below p."""
    bits = 64
    while True:
        bound = chance(bits)
        if drawn + 1 <= bound.low:
            return True
        if drawn >= bound.high:
            return False
        drawn = drawn << 64 | int(source.words(1)[0])
        bits += 64
