"""Gaussian noise rounded to integers, drawn exactly: mostly one word and one look-up for each.

A real X of law N(0, sigma^2) is drawn bit by bit and never written down whole. Its size is
(cell + offset) / 2**fine cells wide: the cell from the integer table of exp(-cell**2 / 2 near**2)
with near = sigma * 2**fine in [64, 128), the offset a uniform real, accepted with probability
exp(-y), y the growth of the exponent from the start of the cell to the offset. Rounding reads only
the bits of the offset above 1/2. Of a 64-bit word the first 15 bits nearly always decide the cell,
then come the sign, 40 bits of the offset, and 8 bits that nearly always accept. Only the bits that
are nearly always needed are drawn for every number; the rest of its word where they do not settle
it. What a whole word leaves open is decided with more words: by floats (+ and * alone) within
2**-23, then exactly.
docs/proofs/rounded-gaussian.md#sampler.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import factorial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dither.errors import ParameterError
from dither.privacy.noise.enclosure import exp_minus
from dither.privacy.noise.samplers import (
    SMALLEST,
    Parameter,
    Size,
    count_draws,
    give_shape,
    read_number,
)
from dither.privacy.noise.source import Words, check_source
from dither.privacy.noise.table import RESIDUAL, DrawTable, Law, build

LARGEST_ROUNDED = Fraction(2**38)
"""The largest sigma: more would need further bits of the offset."""
_NEAR = 64
_COLUMN_BITS = 15
_SLICE_BITS = 64 - _COLUMN_BITS
_OFFSET_BITS = 40
_COIN_BITS = 8
_UNIFORM_BITS = 53
_MARGIN = 2.0**-23
_DRAWN_BITS = (16, 32, 64)
_BLOCK = 1 << 16
_CHUNK = 1 << 19
_UNDECIDED = 0


@dataclass(frozen=True, eq=False)
class RoundedPlan:
    """How noise of one sigma is drawn.

    As many words mean a cell as its table counts. They are laid out in slices of equal first 15
    bits: first `decided` of one cell alone, then what is left of all cells, up to their `ends`.
    `cells` and `sure` are for every value of a word's first 16 bits: the signed cell, and how many
    values of the 8 bits accept whatever the offset; 0 where these 16 bits do not decide the cell,
    and where no coin is sure.
    `guide` has both in one number, for one look-up: see `_pack_guide`.
    """

    table: DrawTable
    fine: int
    cells: NDArray[np.int64]
    sure: NDArray[np.uint8]
    guide: NDArray[np.signedinteger[Any]]
    decided: int
    ends: NDArray[np.uint64]
    coefficients: tuple[float, ...]

    def find_cells(self, words: NDArray[np.uint64]) -> NDArray[np.int64]:
        """The cells, without sign, of whole words beyond the slices of one cell alone; RESIDUAL
        where the table's residual must be asked."""
        places = words - np.uint64(self.decided << _SLICE_BITS)
        cells = self.table.first + np.searchsorted(self.ends, places, side="right")
        return np.where(cells > self.table.largest, RESIDUAL, cells)

    @property
    def offset_bits(self) -> int:
        """How many bits of the offset decide the rounded value."""
        return max(0, 1 - self.fine)

    @property
    def drawn_bits(self) -> int:
        """How many bits of the offset are drawn for every number: those that decide it, or more."""
        return next(bits for bits in _DRAWN_BITS if bits >= self.offset_bits)

    def round_cells(self, cells: NDArray[np.int64], offsets: NDArray[Any]) -> NDArray[np.int64]:
        """The integers nearest to signed cells with 40 bits of offset."""
        starts = _list_starts(cells, self.fine)
        if self.fine > 0:
            return starts
        halves = offsets >> np.uint64(_OFFSET_BITS - self.offset_bits)
        return starts + ((halves.astype(np.int64) + 1) >> 1)

    def exponent(self, cell: int, offset: Fraction) -> Fraction:
        """y: how much the exponent grows from the start of a cell to an offset."""
        return offset * (2 * cell + offset) * self.table.law.rate


@lru_cache(maxsize=128)
def plan_rounded(sigma: Fraction, cells: int | None = None) -> RoundedPlan:
    """The plan of one sigma, which is between `cells` (64) and twice as many cells wide."""
    fewest = _NEAR if cells is None else cells
    fine = 0
    while sigma * Fraction(2) ** fine < fewest:
        fine += 1
    while sigma * Fraction(2) ** fine >= 2 * fewest:
        fine -= 1
    near = sigma * Fraction(2) ** fine
    table = build(Law("gaussian", 1 / (2 * near * near), two_sided=False))
    guided, sure = _guide(table)
    slices = [count >> _SLICE_BITS for count in table.counts]
    left = [count % (1 << _SLICE_BITS) for count in table.counts]
    largest = (2 * table.largest + 1) * table.law.rate
    return RoundedPlan(
        table,
        fine,
        guided,
        sure,
        _pack_guide(_list_starts(guided, fine), sure),
        sum(slices),
        np.cumsum(np.array(left, np.uint64)),
        _taylor(largest),
    )


def _pack_guide(
    starts: NDArray[np.int64], sure: NDArray[np.uint8]
) -> NDArray[np.signedinteger[Any]]:
    """The start of every value of a word's first 16 bits above the 8 bits of its sure coins, in 32
    bits where they fit: a smaller table is read faster."""
    packed = starts << _COIN_BITS | sure
    return packed.astype(np.int32) if np.abs(packed).max() < 1 << 31 else packed


def _list_starts(cells: NDArray[np.int64], fine: int) -> NDArray[np.int64]:
    """What the cells are rounded to at the smallest offset: their start, if that is an integer."""
    if fine > 0:
        return (cells + (1 << (fine - 1))) >> fine
    return cells << -fine


def _guide(table: DrawTable) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """The signed cell and the sure coins of every value of the first 16 bits, the last of which is
    the sign."""
    slices = [count >> _SLICE_BITS for count in table.counts]
    cell_sizes = range(table.first, table.first + len(slices))
    sizes = np.repeat(np.array(cell_sizes, np.int64), slices)
    coins = np.repeat([_count_sure(size, table.law.rate) for size in cell_sizes], slices)
    coins = np.repeat(coins, 2)
    both = np.stack([sizes, ~sizes], axis=1).ravel()
    cells = np.zeros(1 << (_COLUMN_BITS + 1), np.int64)
    sure = np.full(len(cells), _UNDECIDED, np.uint8)
    cells[: len(both)] = both
    sure[: len(both)] = coins
    return cells, sure


def _count_sure(cell: int, rate: Fraction) -> int:
    """How many coins accept whatever the offset: (coin + 1) / 256 <= 1 - largest y <= exp(-y)."""
    return max(_UNDECIDED, int((1 - (2 * cell + 1) * rate) * (1 << _COIN_BITS)))


def _taylor(largest: Fraction) -> tuple[float, ...]:
    """Coefficients of the polynomial of exp(-y), highest first, with a remainder below 2**-30."""
    degree = 1
    while largest ** (degree + 1) / factorial(degree + 1) > Fraction(1, 2**30):
        degree += 1
    return tuple((-1) ** k / factorial(k) for k in range(degree, -1, -1))


def rounded_gaussian(sigma: Parameter, size: Size = None, *, source: Words | None = None) -> Any:
    """round(N(0, sigma^2)), exactly: P(k) = Phi((k + 1/2) / sigma) - Phi((k - 1/2) / sigma).

    >>> len(rounded_gaussian(1000, 5)), abs(rounded_gaussian(Fraction(1, 1000)))
    (5, 0)
    """
    exact_sigma = read_number(sigma, "sigma")
    if not SMALLEST <= exact_sigma <= LARGEST_ROUNDED:
        raise ParameterError(
            "sigma of rounded noise must lie between 1/1000 and 2**38: choose another resolution"
        )
    draws = draw_rounded(plan_rounded(exact_sigma), count_draws(size), check_source(source))
    return give_shape(draws, size)


def draw_rounded(plan: RoundedPlan, count: int, source: Words) -> NDArray[np.int64]:
    """`count` independent draws."""
    values = np.empty(count, np.int64)
    for start in range(0, count, _CHUNK):
        _fill(plan, values[start : start + _CHUNK], source)
    return values


class Proposals(NamedTuple):
    """The bits that nearly always settle a number: of the words of several, in three arrays."""

    heads: NDArray[np.uint16]
    offsets: NDArray[np.unsignedinteger[Any]]
    coins: NDArray[np.uint8]

    def choose(self, chosen: NDArray[np.int64]) -> Proposals:
        """The proposals at some positions."""
        return Proposals(
            self.heads.take(chosen), self.offsets.take(chosen), self.coins.take(chosen)
        )

    def complete_words(self, source: Words) -> NDArray[np.uint64]:
        """The whole words: bits of the offset that were not drawn yet are drawn now."""
        drawn = 8 * self.offsets.itemsize
        words = source.words(len(self.heads)) & np.uint64((1 << (64 - drawn)) - 1)
        words |= self.offsets.astype(np.uint64) << np.uint64(64 - drawn)
        words >>= np.uint64(64 - _OFFSET_BITS)
        words <<= np.uint64(_COIN_BITS)
        words |= self.heads.astype(np.uint64) << np.uint64(_SLICE_BITS - 1)
        words |= self.coins
        return words


def draw_proposals(plan: RoundedPlan, count: int, source: Words) -> Proposals:
    """Proposals for `count` numbers, from one piece of the stream cut in three."""
    padded = -(-count // 8) * 8
    width = plan.drawn_bits // 8
    drawn = source.words((3 + width) * padded // 8).view(np.uint8)
    heads = drawn[: 2 * padded].view(np.uint16)
    offsets = drawn[2 * padded : (2 + width) * padded].view(f"u{width}")
    coins = drawn[(2 + width) * padded :]
    return Proposals(heads[:count], offsets[:count], coins[:count])


def _fill(plan: RoundedPlan, values: NDArray[np.int64], source: Words) -> None:
    """Fill an array with draws; a position whose proposal is rejected gets another one.

    Proposals that their first bits do not settle are decided for all blocks together.
    """
    positions: list[NDArray[np.int64]] = []
    unsettled: list[Proposals] = []
    for start in range(0, len(values), _BLOCK):
        block = values[start : start + _BLOCK]
        proposals = draw_proposals(plan, len(block), source)
        unsure = propose_rounded(plan, proposals, block)
        positions.append(unsure + start)
        unsettled.append(proposals.choose(unsure))
    open_positions = np.concatenate(positions) if positions else np.zeros(0, np.int64)
    if not len(open_positions):
        return
    words = Proposals(*map(np.concatenate, zip(*unsettled, strict=True))).complete_words(source)
    decided, is_accepted = _decide(plan, words, source)
    values[open_positions] = decided
    rejected = open_positions[~is_accepted]
    if len(rejected):
        again = np.empty(len(rejected), np.int64)
        _fill(plan, again, source)
        values[rejected] = again


def propose_rounded(
    plan: RoundedPlan, proposals: Proposals, values: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Write the rounded values of proposals; return the positions of those that their bits do not
    settle."""
    wide = plan.guide.dtype == values.dtype
    packed = plan.guide.take(proposals.heads, mode="wrap", out=values if wide else None)
    is_unsure = proposals.coins >= packed.astype(np.uint8)
    packed >>= _COIN_BITS
    if plan.offset_bits:
        halves = proposals.offsets >> (plan.drawn_bits - plan.offset_bits)
        halves -= halves >> 1
        packed += halves.astype(packed.dtype)
    if not wide:
        values[:] = packed
    return is_unsure.nonzero()[0]


def _decide(
    plan: RoundedPlan, words: NDArray[np.uint64], source: Words
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Values and acceptance of proposals that their word alone does not settle.

    Where the first 16 bits decide the cell, sign, offset and coin are those of the word. Elsewhere
    the whole word decides the cell, and all else comes from a further word.
    """
    more = source.words(len(words))
    heads = (words >> np.uint64(_SLICE_BITS - 1)).view(np.int64)
    signed = plan.cells.take(heads)
    cells = signed ^ (signed >> 63)
    open_words = np.flatnonzero(heads >= 2 * plan.decided)
    tails = words.copy()
    tails[open_words] = source.words(len(open_words))
    cells[open_words] = plan.find_cells(words[open_words])
    uniforms = (tails & np.uint64((1 << _COIN_BITS) - 1)) << np.uint64(_UNIFORM_BITS - _COIN_BITS)
    uniforms |= more >> np.uint64(64 - _UNIFORM_BITS + _COIN_BITS)
    offsets = (tails >> np.uint64(_COIN_BITS)) & np.uint64((1 << _OFFSET_BITS) - 1)
    signs = (tails << np.uint64(63 - _OFFSET_BITS - _COIN_BITS)).view(np.int64) >> 63
    for index in np.flatnonzero(cells == RESIDUAL):
        cells[index] = plan.table.residual(source)
    away = offsets ^ (signs & ((1 << _OFFSET_BITS) - 1)).view(np.uint64)
    is_accepted = _accept(plan, cells, away, uniforms, source)
    return plan.round_cells(cells ^ signs, offsets), is_accepted


def _accept(
    plan: RoundedPlan,
    cells: NDArray[np.int64],
    away: NDArray[np.uint64],
    uniforms: NDArray[np.uint64],
    source: Words,
) -> NDArray[np.bool_]:
    """Whether each uniform lies below exp(-y) at its offset `away` from the start of the cell."""
    offset = (away.astype(np.float64) + 0.5) * 2.0**-_OFFSET_BITS
    y = offset * (2.0 * cells + offset) * float(plan.table.law.rate)
    bound = np.full(len(y), plan.coefficients[0])
    for coefficient in plan.coefficients[1:]:
        bound *= y
        bound += coefficient
    gap = bound - uniforms.astype(np.float64) * 2.0**-_UNIFORM_BITS
    is_accepted = gap > 0
    # a cell from the far tail, past what the polynomial is for, is decided exactly as well
    is_near = cells <= plan.table.largest
    for index in np.flatnonzero((np.abs(gap) < _MARGIN) | ~is_near):
        is_accepted[index] = accept_exactly(
            plan, int(cells[index]), int(away[index]), int(uniforms[index]), source
        )
    return is_accepted


def accept_exactly(
    plan: RoundedPlan, cell: int, away: int, uniform: int, source: Words, width: int = 64
) -> bool:
    """Whether a uniform lies below exp(-y), with as many more bits of both as it takes."""
    offset_bits = _OFFSET_BITS
    uniform_bits = _UNIFORM_BITS
    while True:
        whole = 1 << offset_bits
        nearest = plan.exponent(cell, Fraction(away, whole))
        farthest = plan.exponent(cell, Fraction(away + 1, whole))
        if uniform + 1 <= exp_minus(farthest, uniform_bits).low:
            return True
        if uniform >= exp_minus(nearest, uniform_bits).high:
            return False
        first, second = (int(word) for word in source.words(2, width))
        away = away << width | first
        uniform = uniform << width | second
        offset_bits += width
        uniform_bits += width
