"""Sparse vectors and item ratings: which entries a user has is as private as their values.

A user holds at most `most` entries {item: value in [low, high]} out of `items`. It draws one of
`most` slots; an empty slot is the item "nothing", a full one is rounded to low or high at random
and becomes one of 2 * items + 1 symbols, which Hadamard response protects at full epsilon. Sum and
number of ratings of every item come from the same reports, unbiased as long as nobody holds more
than `most` (more: a uniform choice of `most`, a stated bias). Second moment of an item's sum:
most**2 * 2 c**2, against d c**2 for sampling one of all d coordinates: better when d > 2 most**2
(`better_than_dense`). docs/proofs/local.md, theorem 12. Payload: as Hadamard response with one
block over 2 * items + 1 values: 2 * item (low), 2 * item + 1 (high), 2 * items (nothing).

>>> SparseMean(2, 1, 5, items=1000, most=5).better_than_dense
True
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dither.errors import ParameterError
from dither.local.estimate import (
    BracketedValues,
    Estimate,
    bernstein_half_width,
    normal_quantile,
)
from dither.local.hadamard import Hadamard
from dither.local.mean import Mean, round_at_random
from dither.local.values import read_number, read_value
from dither.local.wire import Payloads
from dither.privacy.noise import Words, uniform_below
from dither.stored import stored

Floats = NDArray[np.float64]


@stored(items="items", most="most")
@dataclass(frozen=True)
class SparseMean(Mean):
    """Sums (of r, in [-1, 1]) and counts of every item of a sparse vector."""

    type = "sparse_mean"
    items: int = 2
    most: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1 <= self.most <= 1 << 22 or not 1 <= self.items <= 1 << 22:
            raise ParameterError("need 1 <= most <= 2**22 and 1 <= items <= 2**22")

    @property
    def symbols(self) -> Hadamard:
        return Hadamard(self.epsilon, 2 * self.items + 1, 1)

    @property
    def payload_bytes(self) -> int:
        return self.symbols.payload_bytes

    def derived(self) -> dict[str, Any]:
        return self.symbols.derived() | {"grid_bits": 32}

    @property
    def better_than_dense(self) -> bool:
        """Whether this beats sampling one of all coordinates, by second moments."""
        return self.items > 2 * self.most**2

    def memo_key(self, value: Any, device: int) -> str:
        return repr(
            sorted((item, self.grid_one(n)) for item, n in _read_entries(value, self.items).items())
        )

    def _draw_symbols(self, values: Any, source: Words) -> NDArray[np.int64]:
        """Draw one entry of each sparse vector and code it as a symbol.

        Each user has at least `most` slots, filled or empty, and draws one of them. A
        number is rounded at random to low (symbol 2 * item) or high (2 * item + 1); an
        empty slot is the symbol 2 * items.
        """
        held = [_read_entries(value, self.items) for value in values]
        sizes = np.array([len(value) for value in held], np.int64)
        # more than `most` entries: one of all of them, each with probability 1 / size
        slots = np.maximum(sizes, self.most)
        drawn = np.array([uniform_below(int(s), source=source) for s in slots], np.int64)
        # an empty slot is rounded too, for nothing: the work must not tell whether a slot was full
        nothing = (self.items, float(self.low))
        picked = [
            [*entries.items(), nothing][min(slot, len(entries))]
            for entries, slot in zip(held, drawn, strict=True)
        ]
        up = round_at_random(self.grid([number for _, number in picked]), 1, source)
        items = np.array([item for item, _ in picked], np.int64)
        return np.where(items < self.items, 2 * items + up, 2 * self.items)

    def permanent(
        self, values: Any, source: Words, devices: NDArray[np.int64] | None = None
    ) -> Payloads:
        return self.symbols.permanent(self._draw_symbols(values, source), source)

    def chances(self, value: Mapping[int, float]) -> dict[int, Fraction]:
        """Compute the law of the symbol, before Hadamard response."""
        held = _read_entries(value, self.items)
        law = {}
        slots = max(len(held), self.most)
        for item, number in held.items():
            share = self.share(number)
            law[2 * item] = (1 - share) / slots
            law[2 * item + 1] = share / slots
        law[2 * self.items] = Fraction(slots - len(held), slots)
        return law

    def inputs(self) -> list[Any]:
        low, high = float(self.low), float(self.high)
        return [{}, {0: low}, {0: high}, {self.items - 1: (low + high) / 2}]

    def law(self, value: Any) -> dict[bytes, Fraction]:
        """Compute the exact probability of every payload that a device holding `value` may send.

        It is the law of Hadamard response, averaged over the symbols that the value may
        draw.
        """
        law: dict[bytes, Fraction] = {}
        for symbol, chance in self.chances(value).items():
            for answer, weight in self.symbols.law(symbol).items():
                law[answer] = law.get(answer, Fraction(0)) + chance * weight
        return law

    @property
    def tally_size(self) -> int:
        return self.symbols.tally_size

    def valid(self, payloads: Payloads) -> NDArray[np.bool_]:
        return self.symbols.valid(payloads)

    def tally(self, payloads: Payloads) -> NDArray[np.int64]:
        return self.symbols.tally(payloads)

    def debias(self, tally: NDArray[Any], reports: int) -> NDArray[Any]:
        """Sums of r for every item."""
        counts = self.symbols.debias(tally, reports)[: 2 * self.items].reshape(self.items, 2)
        sums: NDArray[Any] = self.most * (counts[:, 1] - counts[:, 0])
        return sums

    def target(self, value: Any) -> NDArray[Any]:
        """Compute what one report estimates for each item: its centred rating, 0 where it has none.

        A vector of more than `most` entries counts with weight `most` / entries.
        """
        chances = self.chances(value)
        return np.array(
            [
                self.most * (chances.get(2 * i + 1, Fraction(0)) - chances.get(2 * i, Fraction(0)))
                for i in range(self.items)
            ],
            object,
        )

    def user_variance(self, value: Any) -> NDArray[Any]:
        """Compute most**2 (2 c**2 - 2 c**2 E[H_a H_b]) - mean**2 for each item.

        The product of two rows is a row, whose mean is 1/c.
        """
        gain = self.symbols.step
        chances = self.chances(value)
        mean = self.target(value)
        variances = []
        for i in range(self.items):
            product = (1 + 2 * i) ^ (
                2 + 2 * i
            )  # the row of H that is the product of the item's two rows
            aligned = chances.get(product - 1, Fraction(0)) / gain
            variances.append(self.most**2 * 2 * gain**2 * (1 - aligned) - mean[i] ** 2)
        return np.array(variances, object)

    def second_moment(self, share: Fraction) -> Fraction:
        return 2 * self.most**2 * self.symbols.step**2

    @property
    def largest_move(self) -> Fraction:
        return 2 * self.most * self.symbols.step

    def estimate(self, tally: NDArray[np.int64], reports: int) -> Estimate:
        """Sums of r over the users who have the item."""
        values = self.debias(tally, reports).astype(np.float64)
        spread = np.full(self.items, reports * float(self.second_moment(Fraction(1))))
        move = float(self.largest_move)
        return Estimate(values, spread, reports, move, what="sum", variance_bounds=spread)

    def _split_counts(self, tally: NDArray[np.int64], reports: int) -> Floats:
        """Users who rated each item, rounded to low and to high: items x 2, unbiased."""
        counts = self.symbols.debias(tally, reports)[: 2 * self.items]
        return self.most * counts.reshape(self.items, 2).astype(np.float64)

    def ratings(
        self, tally: NDArray[np.int64], reports: int, *, level: float = 0.95, certain: bool = False
    ) -> tuple[Estimate, BracketedValues]:
        """Estimate (number of raters, mean rating) of every item, both with intervals.

        The interval of a mean holds every mean that the reports do not refute, and all of [low,
        high] where there may be no rater (docs/proofs/local-intervals.md, theorem 6). Where the
        estimates name no rater at all the mean is the middle of [low, high].

        >>> ratings = SparseMean(2, 1, 5, items=3, most=1)
        >>> raters, means = ratings.ratings(np.zeros(ratings.tally_size, np.int64), 0)
        >>> means.low.tolist(), means.values.tolist(), means.high.tolist()
        ([1.0, 1.0, 1.0], [3.0, 3.0, 3.0], [5.0, 5.0, 5.0])
        """
        counts = self._split_counts(tally, reports)
        variance = reports * float(self.second_moment(Fraction(1)))
        spread = np.full(self.items, variance)
        raters = Estimate(
            counts.sum(axis=1),
            spread,
            reports,
            float(self.largest_move),
            what="raters",
            variance_bounds=spread,
        )
        sums = counts[:, 1] - counts[:, 0]
        width = _half_width(variance, float(self.largest_move), level, certain)
        low, high = bracket_ratios(sums, raters.values, width)
        may_be_nobody = raters.values <= width
        low = np.where(may_be_nobody, -1.0, low)
        high = np.where(may_be_nobody, 1.0, high)
        plausible = np.maximum(counts, 0.0)
        total = plausible.sum(axis=1)
        shares = np.divide(plausible[:, 1], total, out=np.full(self.items, 0.5), where=total > 0)
        ratios = np.clip(2 * shares - 1, low, high)
        middle = float(self.low + self.high) / 2
        half = float(self.high - self.low) / 2
        means = BracketedValues(
            middle + half * ratios, middle + half * low, middle + half * high, level
        )
        return raters, means

    def raters_needed(self, reports: int, level: float = 0.95) -> float:
        """How many users must rate an item so that its mean nearly always gets an interval of its
        own: twice the reach of the interval of a number of raters.

        >>> round(SparseMean(2, 1, 5, items=50, most=3).raters_needed(20_000))
        3088
        """
        variance = reports * float(self.second_moment(Fraction(1)))
        return 2 * normal_quantile(level) * sqrt(variance)


def _half_width(variance: float, move: float, level: float, certain: bool) -> float:
    """Half the width of the interval of a sum whose variance is `variance`."""
    if certain:
        return float(bernstein_half_width(np.array([variance]), move, level)[0])
    return normal_quantile(level) * sqrt(variance)


def bracket_ratios(sums: Floats, totals: Floats, half_width: float) -> tuple[Floats, Floats]:
    """Find all ratios m in [-1, 1] with |sum - m * total| <= half_width * sqrt(1 + m**2) (Fieller).

    Where no m qualifies, the one that is nearest to it.

    >>> bracket_ratios(np.array([50.0]), np.array([100.0]), 0.0)
    (array([0.5]), array([0.5]))
    """
    lowest = np.ones(len(sums))
    highest = -np.ones(len(sums))
    for ratio in _candidate_ratios(sums, totals, half_width):
        gap = np.abs(sums - ratio * totals)
        allowed = half_width * np.sqrt(1 + ratio**2)
        is_kept = gap <= allowed * (1 + 1e-9) + 1e-9 * np.abs(totals)
        lowest = np.where(is_kept, np.minimum(lowest, ratio), lowest)
        highest = np.where(is_kept, np.maximum(highest, ratio), highest)
    nearest = np.sign(sums) * np.sign(totals)
    is_empty = lowest > highest
    return np.where(is_empty, nearest, lowest), np.where(is_empty, nearest, highest)


def _candidate_ratios(sums: Floats, totals: Floats, half_width: float) -> list[Floats]:
    """List where the set of ratios can begin or end: -1, 1 and the roots of its quadratic
    equation."""
    square = half_width**2
    lead = totals**2 - square
    middle = sums * totals
    root = np.sqrt(np.maximum(middle**2 - lead * (sums**2 - square), 0.0))
    with np.errstate(divide="ignore", invalid="ignore"):
        roots = [(middle - root) / lead, (middle + root) / lead]
    ends = [np.full(len(sums), -1.0), np.full(len(sums), 1.0)]
    return [*ends, *(np.where(np.abs(r) <= 1, r, 1.0) for r in roots)]


def _read_entries(value: Any, items: int) -> dict[int, float]:
    """Read {item: number}; an item may be written as a decimal text, as JSON must.

    Raises ParameterError for anything else.
    """
    if not isinstance(value, Mapping):
        raise ParameterError("a value is a mapping of items to numbers")
    entries = dict(value)
    held = {_read_item(item, items): read_number(number) for item, number in entries.items()}
    if len(held) != len(entries):
        raise ParameterError("an item is given twice: give each item one number")
    return held


def _read_item(item: Any, items: int) -> int:
    if isinstance(item, str) and re.fullmatch("0|[1-9][0-9]{0,8}", item):
        return read_value(int(item), items)
    return read_value(item, items)
