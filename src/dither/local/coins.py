"""Exact draws for *one* report, at the speed of Python integers: what a device needs, where NumPy's
arrays only cost.

Every report reads its bytes from the operating system when it is made. Nothing is kept from one
report to the next: there is no key to set up and no stream that a fork, a copy or a resumed
snapshot of the machine could repeat. Thresholds are integers computed once for a probability; the
one word in 2**64 that meets a threshold is decided with more bits, so a chance n/m has exactly that
probability. docs/proofs/local.md, lemma 4.

>>> fair = chance(Fraction(1, 2))
>>> coins = Coins()
>>> {coins.coin(fair) for _ in range(100)} == {True, False}, coins.below(1)
(True, 0)
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from struct import Struct
from typing import NamedTuple

from dither.privacy.noise.source import SystemSource, Words, fresh_bytes

_WORDS = 8
_UNPACK = Struct(f"<{_WORDS}Q").unpack


class Chance(NamedTuple):
    """A probability and the words that decide for it at once: those below `words`."""

    words: int
    exact: Fraction


@lru_cache(maxsize=1024)
def chance(p: Fraction) -> Chance:
    """The probability, ready to toss."""
    return Chance((p.numerator << 64) // p.denominator, p)


class Coins:
    """Draws of one report. `source` is for tests; a device leaves it out."""

    __slots__ = ("_left", "_source")

    def __init__(self, source: Words | None = None) -> None:
        self._source = source
        self._left: list[int] = []

    def source(self) -> Words:
        """A source of its own for this report, for protocols that draw by arrays."""
        return self._source if self._source is not None else SystemSource()

    def word(self) -> int:
        """A uniform integer below 2**64."""
        if not self._left:
            self._left = list(_UNPACK(self._bytes(8 * _WORDS)))
        return self._left.pop()

    def _bytes(self, count: int) -> bytes:
        if self._source is None:
            return fresh_bytes(count)
        return self._source.words(-(-count // 8)).tobytes()[:count]

    def coin(self, odds: Chance) -> bool:
        """Draw True with exactly the probability."""
        word = self.word()
        if word != odds.words:
            return word < odds.words
        p = odds.exact
        bits = 64
        while word * p.denominator < p.numerator << bits:  # not yet certainly above p
            if (word + 1) * p.denominator <= p.numerator << bits:
                return True
            word = word << 64 | self.word()
            bits += 64
        return False

    def below(self, n: int) -> int:
        """Draw uniformly from 0..n-1, n at most 2**63, by rejection."""
        whole = (1 << 64) // n * n
        while True:
            word = self.word()
            if word < whole:
                return word % n

    def bits(self, p: Fraction, count: int) -> int:
        """Draw `count` independent bits, each 1 with probability exactly p, as one integer.

        It does what `bits.random_words` does.
        """
        if p >= 1:
            return (1 << count) - 1
        result = 0
        undecided = (1 << count) - 1
        size = -(-count // 8)
        drawn_bytes = b""
        numerator = p.numerator
        denominator = p.denominator
        offset = 0
        while numerator and undecided:
            numerator *= 2
            if offset == len(drawn_bytes):
                drawn_bytes = self._bytes(8 * size)
                offset = 0
            drawn = int.from_bytes(drawn_bytes[offset : offset + size], "little")
            offset += size
            if numerator >= denominator:
                numerator -= denominator
                result |= undecided & ~drawn
                undecided &= drawn
            else:
                undecided &= ~drawn
        return result
