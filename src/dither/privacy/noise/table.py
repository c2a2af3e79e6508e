"""Integer tables: exact draws from a law on the integers, with no float anywhere.

A law has weights w(0) >= w(1) >= ... (log-concave, w(0) = 1), on 0, 1, 2, ... or mirrored to all
integers. Of the 2**width possible words exactly floor(2**width * P(k)) are given the meaning k; the
few that are left over (about as many as the table has values) mean that k is drawn from what the
floors cut off, by inversion with as many further bits as it takes. The mixture of the two is P
exactly: docs/proofs/exact-sampling.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dither.privacy.noise.enclosure import Enclosure, exp_minus, times
from dither.privacy.noise.source import Words

Family = Literal["laplace", "gaussian"]
RESIDUAL = -(1 << 63)
_GUARD = 64


@dataclass(frozen=True)
class Law:
    """The weights of a law: w(k) = exp(-k * rate) (laplace) or exp(-k**2 * rate) (gaussian).

    They are for k >= 0 or, `two_sided`, for all integers.

    >>> Law("laplace", Fraction(1, 10), two_sided=False).weights(8)[:3]
    [Enclosure(low=256, high=256), Enclosure(low=231, high=232), Enclosure(low=209, high=210)]
    """

    family: Family
    rate: Fraction
    two_sided: bool

    def weights(self, bits: int, until: int | None = None) -> list[Enclosure]:
        """Enclose 2**bits * w(k) for k = 0, 1, ..., up to the first weight of at most 2**-until.

        Each follows from the one before by w(k+1) = w(k) * ratio(k). The ratio is constant for
        laplace; for gaussian it shrinks by a constant factor. `until` is `bits` where it is None.
        """
        work = bits + _GUARD
        smallest = 1 << (work - (bits if until is None else until))
        ratio = exp_minus(self.rate, work)
        shrinking = times(ratio, ratio, work) if self.family == "gaussian" else None
        low = high = 1 << work
        weights = []
        while True:
            weights.append(Enclosure(low >> _GUARD, -(-high >> _GUARD)))
            if high <= smallest:
                return weights
            low = low * ratio.low >> work
            high = -(-high * ratio.high >> work)
            ratio = ratio if shrinking is None else times(ratio, shrinking, work)

    def cdf(self, bits: int) -> tuple[int, list[Enclosure]]:
        """Compute the distribution function: its first integer, and an enclosure at each from it
        on.

        Entry j of the list encloses 2**bits * P(value <= first + j). What lies outside the list has
        mass below 2**-bits.
        """
        work = bits + _GUARD
        weights = self.weights(work, until=bits)
        total = self.enclose_total(weights, work)
        below = Enclosure(0, _bound_tail(weights) if self.two_sided else 0)
        first = 1 - len(weights) if self.two_sided else 0
        enclosures = []
        for k in range(first - 1, len(weights)):
            if k >= first:
                w = weights[abs(k)]
                below = Enclosure(below.low + w.low, below.high + w.high)
            low = (below.low << bits) // total.high
            high = -(-(below.high << bits) // total.low)
            enclosures.append(Enclosure(low, min(high, 1 << bits)))
        return first - 1, enclosures

    def enclose_total(self, weights: list[Enclosure], work: int) -> Enclosure:
        """Enclose 2**work times the sum of all weights; of both signs of k if the law has them."""
        sides = 2 if self.two_sided else 1
        half_low = sum(low for low, _ in weights[1:])
        half_high = sum(high for _, high in weights[1:]) + _bound_tail(weights)
        return Enclosure((1 << work) + sides * half_low, (1 << work) + sides * half_high)


def _bound_tail(weights: list[Enclosure]) -> int:
    """Bound the sum of the weights after the last one of a list.

    Weights are log-concave: later ratios are no larger than ratio = last / before, so the sum is at
    most last * ratio / (1 - ratio). Both weights have _GUARD bits below the unit, so the ratio has
    a small error.
    """
    before, last = weights[-2:]
    return -(-last.high * last.high // (before.low - last.high))


@dataclass(frozen=True, eq=False)
class DrawTable:
    """A table that says what each random word of `width` bits means.

    Exactly floor(2**width * P(k)) words mean k. The words that remain mean "draw from the
    residual". The words are laid out in 2**columns equal columns of at most two meanings each
    (Walker's alias method, in integers), so that a look-up is two gathers and takes the same time
    whatever comes out.
    """

    law: Law
    width: int
    first: int
    counts: tuple[int, ...]
    columns: int
    cut: NDArray[np.uint64]
    meaning: NDArray[np.int64]

    @property
    def largest(self) -> int:
        """The largest value that some word means."""
        return self.first + len(self.counts) - 1

    @property
    def left_over(self) -> int:
        """How many words mean the residual."""
        return (1 << self.width) - sum(self.counts)

    def look_up(self, words: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Look up the meaning of each word; RESIDUAL where `residual` must be asked."""
        column = (
            words >> np.uint64(self.width - self.columns) if self.columns else np.zeros_like(words)
        )
        within = words & np.uint64((1 << (self.width - self.columns)) - 1)
        second = within >= self.cut.take(column)
        column <<= np.uint64(1)
        column |= second
        return self.meaning.take(column)

    def residual(self, source: Words) -> int:
        """Draw once from P(k) - counts(k) / 2**width, normalised.

        By inversion, with as many bits as it takes.
        """
        drawn = bits = 0
        while True:
            drawn = drawn << self.width | int(source.words(1, self.width)[0])
            bits += self.width
            value = self._locate(drawn, bits)
            if value is not None:
                return value

    def _locate(self, drawn: int, bits: int) -> int | None:
        """Find the k that a uniform certainly means, or None where its bits do not decide.

        Its share of the residual holds [drawn, drawn + 1) / 2**bits.
        """
        fine = bits + self.width + 16
        first, cdf = self.law.cdf(fine)
        scale = fine - self.width
        low = self.left_over * drawn << (scale - bits)
        high = self.left_over * (drawn + 1) << (scale - bits)
        below = cdf[0]
        spent = 0
        for k, above in enumerate(cdf[1:], first + 1):
            index = k - self.first
            before = below.high - (spent << scale)
            spent += self.counts[index] if 0 <= index < len(self.counts) else 0
            if before <= low and high <= above.low - (spent << scale):
                return k
            below = above
        return None


@lru_cache(maxsize=512)
def build(law: Law, width: int = 64) -> DrawTable:
    """Build the table of a law, each count an exact floor certified by its enclosure."""
    extra = 32
    while True:
        fine = width + extra
        weights = law.weights(fine + _GUARD, until=fine)
        low, high = law.enclose_total(weights, fine + _GUARD)
        floors = [(weight.low << width) // high for weight in weights]
        # A k after the last weight has less than 2**-fine of the mass, so its floor is 0. No value
        # has all the mass, so no floor exceeds 2**width - 1, however close to 1 the probability.
        highest = (-(-(weight.high << fine) // low) >> extra for weight in weights)
        if floors == [min(floor, (1 << width) - 1) for floor in highest]:
            break
        extra += 64
    while len(floors) > 1 and not floors[-1]:
        floors.pop()
    counts = tuple([*floors[:0:-1], *floors] if law.two_sided else floors)
    start = 1 - len(floors) if law.two_sided else 0
    return DrawTable(law, width, start, counts, *_lay_out_columns(counts, start, width))


def _lay_out_columns(
    counts: tuple[int, ...], first: int, width: int
) -> tuple[int, NDArray[np.uint64], NDArray[np.int64]]:
    """Lay `counts` words, and those left over, out in equal columns of at most two meanings.

    A column that the words of one value do not fill is filled with words of a value that has more
    than one column of them.
    """
    words = {value: count for value, count in enumerate(counts, first) if count}
    if left_over := (1 << width) - sum(counts):
        words[RESIDUAL] = left_over
    columns = (len(words) - 1).bit_length()
    size = 1 << (width - columns)
    empty = (1 << columns) - len(words)
    values = [*words, *[RESIDUAL] * empty]
    loads = [*words.values(), *[0] * empty]
    cut: list[int] = []
    meaning: list[int] = []
    small = [index for index, load in enumerate(loads) if load <= size]
    large = [index for index, load in enumerate(loads) if load > size]
    while small:
        first_index = second_index = small.pop()
        if loads[first_index] < size and large:
            second_index = large[-1]
            loads[second_index] -= size - loads[first_index]
            if loads[second_index] <= size:
                small.append(large.pop())
        cut.append(loads[first_index])
        meaning += [values[first_index], values[second_index]]
    return columns, np.array(cut, np.uint64), np.array(meaning, np.int64)
