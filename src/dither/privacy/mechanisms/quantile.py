"""A quantile on a public grid: the exponential mechanism over integer rank distances.

With q = a/b in lowest terms, L rows below cell g, E in it and R above, n = L + E + R, the score of
g is -max(0, b L - a n, b R - (b - a) n): zero exactly if g is a q-quantile, else minus b times the
rows by which it misses. One row moves it by max(a, b - a) under add/remove and by b under replace,
so with k rows per unit scale = 2 k max(a, b - a) / epsilon (or 2 k b / epsilon). The scores are not
monotone. `by_rows` counts rows that leave and rows that come one by one: scale = k row_range(q) /
epsilon. Runs of cells with equal score enter the race once, weighted by their length, and the
winner's cell is uniform in its run: empty data gives a uniform cell, duplicates are one cell. Only
runs near the quantile race; all others together win with probability below 2**-64, for which a coin
is thrown first, exactly. Guarantee: BoundedRange(epsilon). `FlippedQuantile` draws by permute-and-
flip instead: Pure(epsilon), and a smaller error. Proof: docs/proofs/quantiles.md#one-quantile.

>>> median = Quantile(Fraction(1, 2), epsilon=1)
>>> median.release([0, 0, 10_000, 0]), median.loss()
(2, BoundedRange(epsilon=1, neighbours='add_remove', unit='unit'))
>>> median.release_sparse([3, 10**15], [5000, 9000], cells=10**16)
1000000000000000
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from math import ceil, floor
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dither.canonical import Number, exact, number_text, positive, quote
from dither.error_terms import ErrorTerms
from dither.errors import ParameterError
from dither.privacy.losses import BoundedRange, Loss, Neighbours, Pure
from dither.privacy.mechanisms.protocol import (
    SparseHistogram,
    check_filled_cells,
    sparse_histogram,
)
from dither.privacy.mechanisms.quantile_runs import SAFE, GridRows, list_outside, list_runs
from dither.privacy.noise import Words, argmax_exponential, argmax_gumbel, uniform_below
from dither.privacy.noise.enclosed import decide
from dither.privacy.noise.enclosure import Enclosure, exp_minus
from dither.privacy.noise.source import check_source

_LARGEST_PART = 1 << 20
_FAR_BITS = 46  # e^-46 < 2^-66
_LAST_REST = np.uint64(2**56 - 1)


def check_share(q: Number, name: str = "q") -> Fraction:
    """Read a share in [0, 1] with a denominator of at most 2**20; ParameterError for others."""
    share = exact(q, name)
    if not 0 <= share <= 1 or share.denominator > _LARGEST_PART:
        raise ParameterError(
            f"{name} must lie in [0, 1] with a denominator of at most 2**20, got {q}"
        )
    return share


def check_rows(rows_per_unit: int) -> None:
    """Refuses a number of rows that is no positive integer."""
    if isinstance(rows_per_unit, bool) or not isinstance(rows_per_unit, int) or rows_per_unit < 1:
        raise ParameterError(
            f"rows_per_unit must be a positive integer, got {quote(rows_per_unit)}"
        )


def rank_sensitivity(q: Fraction, neighbours: Neighbours) -> int:
    """How far one row moves the score of any cell: max(a, b - a), or b if it is replaced."""
    a, b = q.as_integer_ratio()
    return b if neighbours == "replace" else max(a, b - a)


def row_range(q: Fraction) -> int:
    """How far one row moves the difference of two scores (docs/proofs/quantiles.md)."""
    return 1 if q in (0, 1) else 2 * rank_sensitivity(q, "add_remove")


class RowsOfUnits(ABC):
    """A mechanism that chooses quantiles; one unit moves at most `rows_per_unit` rows."""

    @property
    @abstractmethod
    def rows_per_unit(self) -> int:
        """How many rows one unit moves."""

    def column_sensitivity(self, column: int = 0) -> None:
        """A quantile has none: its rank moves, not its value."""
        return None

    def describe_sensitivity(self) -> str:
        """How many rows one unit moves, in words."""
        return f"{self.rows_per_unit:,} rows"

    def sensitivity_document(self) -> Mapping[str, Any]:
        """Nothing: the loss says it."""
        return {}


@dataclass(frozen=True)
class Quantile(RowsOfUnits):
    """One q-quantile for one price."""

    stored_name: ClassVar[str] = "Quantile"  # in digests of stored releases: never changes
    _chosen_by: ClassVar[str] = "exponential mechanism"

    q: Fraction
    epsilon: Fraction
    rows_per_unit: int = 1
    neighbours: Neighbours = "add_remove"
    unit: str = "unit"
    by_rows: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "q", check_share(self.q))
        object.__setattr__(self, "epsilon", positive(self.epsilon, "epsilon"))
        check_rows(self.rows_per_unit)
        self.loss()

    @property
    def scale(self) -> Fraction:
        """Scores are divided by this before noise is added."""
        if self.by_rows:
            return self.rows_per_unit * row_range(self.q) / self.epsilon
        return 2 * self.rows_per_unit * rank_sensitivity(self.q, self.neighbours) / self.epsilon

    def loss(self) -> Loss:
        """What one quantile costs."""
        return BoundedRange(self.epsilon, neighbours=self.neighbours, unit=self.unit)

    def error_terms(self, column: int = 0) -> ErrorTerms:
        """How far the rank of the answer may be off."""
        return ErrorTerms(
            "quantile_error", {"scale": self.scale, "denominator": self.q.denominator}
        )

    @property
    def shares(self) -> tuple[Fraction, ...]:
        """The share, as the only one."""
        return (self.q,)

    @property
    def parameters(self) -> Mapping[str, Fraction]:
        """The scale of the choice."""
        return {"scale": self.scale}

    def describe(self) -> str:
        """Describe the choice and its scale in words."""
        return (
            f"{self._chosen_by} of scale {number_text(self.scale)} over ranks, for the "
            f"{self.q} quantile"
        )

    def release_exact(self, exact: SparseHistogram, source: Words) -> list[int]:
        """The chosen cell, as the only one."""
        return [self.release_sparse(exact.filled, exact.counts, cells=exact.cells, source=source)]

    def release(self, counts: Any, *, source: Words | None = None) -> int:
        """The chosen cell; `counts` are the rows in every cell of the public grid."""
        return self.release_exact(sparse_histogram(counts), check_source(source))[0]

    def release_sparse(
        self, filled_cells: Any, counts: Any, *, cells: int, source: Words | None = None
    ) -> int:
        """Choose a cell as `release` does, given the cells that hold rows, in order."""
        filled, rows = check_filled_cells(filled_cells, counts, cells)
        return choose(
            filled, rows, 0, cells - 1, self.q, self.scale, check_source(source), race=self._race
        )

    @property
    def _race(self) -> Race:
        return by_gumbel


@dataclass(frozen=True)
class FlippedQuantile(Quantile):
    """One q-quantile by permute-and-flip, which has no bounded range.

    For one epsilon its expected miss is never larger than that of `Quantile`.

    >>> median = FlippedQuantile(Fraction(1, 2), epsilon=1)
    >>> median.release([0, 0, 10_000, 0]), median.loss()
    (2, Pure(epsilon=1, neighbours='add_remove', unit='unit'))
    """

    stored_name: ClassVar[str] = "FlippedQuantile"  # in digests of stored releases: never changes
    _chosen_by: ClassVar[str] = "permute-and-flip"

    def loss(self) -> Loss:
        """What one quantile costs, and nothing tighter."""
        return Pure(self.epsilon, neighbours=self.neighbours, unit=self.unit)

    @property
    def _race(self) -> Race:
        return by_exponential


Race: TypeAlias = Callable[[GridRows, Fraction, int, int, Words], tuple[int, int]]
"""First cell and length of the run that wins; those around filled[first:last] are near."""


def choose(
    filled: NDArray[Any],
    rows: NDArray[Any],
    low: int,
    high: int,
    q: Fraction,
    scale: Fraction,
    source: Words,
    shift: int = 0,
    race: Race | None = None,
) -> int:
    """Choose a cell of low..high by the rank scores of the rows there.

    `shift` aims so many rows below (or above) the share: as many rows that nobody has stand in the
    lowest (or highest) cell, so that some cell always is right. The number is public.
    """
    filled, rows = _with_nobodys(filled, rows, low if shift < 0 else high, abs(shift), shift < 0)
    upto = _running(rows)
    total = int(upto[-1]) if len(upto) else 0
    goal = q.numerator * (total - abs(shift)) + q.denominator * max(0, shift)
    grid = GridRows(filled, upto, low, high, q, goal)
    first, last = _near(
        upto, Fraction(goal, q.denominator), scale * _reach(grid.size) / q.denominator
    )
    start, length = (race or by_gumbel)(grid, scale, first, last, source)
    return start + int(uniform_below(length, source=source))


def by_gumbel(
    grid: GridRows, scale: Fraction, first: int, last: int, source: Words
) -> tuple[int, int]:
    """Choose a run (start, length) by the exponential mechanism; first a coin for the far runs."""
    starts, lengths, scores = list_runs(grid, first, last)
    if first > 0 or last < len(grid.filled):
        far = partial(_far, grid, scale, first, last)
        if decide(far, int(source.words(1)[0]), source):
            starts, lengths, scores = list_outside(grid, first, last)
    winner = argmax_gumbel(scores, scale, weights=lengths, source=source)
    return int(starts[winner]), int(lengths[winner])


def by_exponential(
    grid: GridRows, scale: Fraction, first: int, last: int, source: Words
) -> tuple[int, int]:
    """Choose a run of cells by permute-and-flip; return its start and length.

    A far run certainly loses, unless its word is the last of all words. So of its word eight bits
    are drawn, and the others where all eight are set, or where some run has the last word.
    """
    far = 2 * (first + len(grid.filled) - last)
    tops = source.words(-(-far // 8)).view(np.uint8)[:far]
    tall = np.flatnonzero(tops == 255)
    rest = source.words(len(tall), 56)
    words = None
    if (rest == _LAST_REST).any():
        low = source.words(far, 56)
        low[tall] = rest
        drawn = tops.astype(np.uint64) << np.uint64(56) | low
        near = source.words(2 * (last - first) + 1)
        words = np.concatenate([drawn[: 2 * first], near, drawn[2 * first :]])
        first = 0
        last = len(grid.filled)
    starts, lengths, scores = list_runs(grid, first, last)
    winner = argmax_exponential(scores, scale, weights=lengths, words=words, source=source)
    return int(starts[winner]), int(lengths[winner])


def _reach(cells: int) -> int:
    """Compute so many scales below the best that all cells have a chance below one word."""
    return _FAR_BITS + cells.bit_length()


def _with_nobodys(
    filled: NDArray[Any], rows: NDArray[Any], cell: int, count: int, is_first: bool
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Add `count` rows that belong to nobody to the first or last cell of the grid."""
    if not count:
        return filled, rows
    rows = rows.astype(object) if count >= 1 << 40 else rows.copy()
    end = 0 if is_first else len(filled) - 1
    if len(filled) and filled[end] == cell:
        rows[end] += count
        return filled, rows
    where = 0 if is_first else len(filled)
    return np.insert(filled, where, cell), np.insert(rows, where, count)


def _near(upto: NDArray[Any], target: Fraction, width: Fraction) -> tuple[int, int]:
    """Find the filled cells first:last outside of which ranks miss the target by over `width`."""
    last = int(np.searchsorted(upto, floor(target + width), "right")) + 1
    return int(np.searchsorted(upto, ceil(target - width), "left")), min(len(upto), last)


def _far(grid: GridRows, scale: Fraction, first: int, last: int, bits: int) -> Enclosure:
    """Enclose the chance of all runs outside first:last: roughly at 64 bits, tightly beyond."""
    if bits <= 64:
        weight = exp_minus(Fraction(_reach(grid.size)), 192).high * grid.size
        return Enclosure(0, -(-weight >> 128))
    near = _weight(*list_runs(grid, first, last)[1:], scale, bits + 64)
    far = _weight(*list_outside(grid, first, last)[1:], scale, bits + 64)
    return Enclosure(
        (far.low << bits) // (far.low + near.high), -(-(far.high << bits) // (far.high + near.low))
    )


def _weight(lengths: NDArray[Any], scores: NDArray[Any], scale: Fraction, bits: int) -> Enclosure:
    """Enclose the sum of length * exp(score / scale)."""
    low = high = 0
    for length, score in zip(lengths.tolist(), scores.tolist(), strict=True):
        share = exp_minus(-score / scale, bits)
        low += length * share.low
        high += length * share.high
    return Enclosure(low, high)


def _running(rows: NDArray[Any]) -> NDArray[Any]:
    """Running sums that cannot wrap round: Python integers once 64 bits might not do."""
    if rows.dtype != object and len(rows) and float(rows.max()) * len(rows) >= SAFE:
        rows = rows.astype(object)
    return np.asarray(np.cumsum(rows))
