"""Many quantiles at one price, chosen together: the middle one first, then those below it on the
rows below, and so on.

m quantiles take levels = m.bit_length() rounds; within a round every row lies in at most one part,
so the round costs one exponential mechanism of epsilon / levels however many quantiles it answers
(Kaplan, Schnapp, Stemmer 2022). Before that every row is given a random place among 64 inside its
cell, independently of all others, so that a value that many rows share can be cut in two. Answers
come out in order, and empty data or one value for all cannot fail. Under `replace` a row leaves one
part and joins another: the scale doubles, unless `by_rows` counts rows that leave and rows that
come one by one. Guarantee: Repeated(BoundedRange(epsilon / levels), levels). Proof:
docs/proofs/quantiles.md#many-quantiles-together.

>>> quartiles = JointQuantiles(["1/4", "1/2", "3/4"], epsilon=4)
>>> quartiles.release([0, 50_000, 0, 0, 90_000, 0])
[1, 4, 4]
>>> quartiles.loss()
Repeated(loss=BoundedRange(epsilon=2), count=2, neighbours='add_remove', unit='unit')
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dither.canonical import positive
from dither.error_terms import ErrorTerms
from dither.errors import ParameterError
from dither.privacy.losses import BoundedRange, Loss, Neighbours
from dither.privacy.mechanisms.protocol import (
    SparseHistogram,
    check_filled_cells,
    sparse_histogram,
)
from dither.privacy.mechanisms.quantile import (
    RowsOfUnits,
    check_rows,
    check_share,
    choose,
    rank_sensitivity,
)
from dither.privacy.mechanisms.quantile_levels import put_on_grid
from dither.privacy.noise import Words
from dither.privacy.noise.source import check_source

_HALVINGS = 6
_FEW = 32  # rows in a cell up to which each row draws its own place


@dataclass(frozen=True)
class JointQuantiles(RowsOfUnits):
    """Several quantiles of one column for one price."""

    stored_name: ClassVar[str] = "JointQuantiles"  # in digests of stored releases: never changes

    shares: tuple[Fraction, ...]
    epsilon: Fraction
    rows_per_unit: int = 1
    neighbours: Neighbours = "add_remove"
    unit: str = "unit"
    by_rows: bool = False

    def __post_init__(self) -> None:
        """Check that the shares increase strictly inside (0, 1), and make the numbers exact."""
        shares = tuple(check_share(share, "shares") for share in self.shares)
        if (
            not shares
            or any(not a < b for a, b in pairwise(shares))
            or shares[0] == 0
            or shares[-1] == 1
        ):
            raise ParameterError(
                "shares must be strictly increasing, inside (0, 1), and at least one"
            )
        object.__setattr__(self, "shares", shares)
        object.__setattr__(self, "epsilon", positive(self.epsilon, "epsilon"))
        check_rows(self.rows_per_unit)
        self.loss()

    @property
    def levels(self) -> int:
        """Rounds: the depth of the halving of m quantiles."""
        return len(self.shares).bit_length()

    def loss(self) -> Loss:
        """What all quantiles cost together."""
        loss = BoundedRange(self.epsilon / self.levels, neighbours=self.neighbours, unit=self.unit)
        return loss if self.levels == 1 else loss * self.levels

    def scale(self, share: Fraction) -> Fraction:
        """The scale of one choice of this (relative) share."""
        is_paired = self.neighbours == "replace" and not self.by_rows
        moved = rank_sensitivity(share, "add_remove") * (2 if is_paired else 1)
        return 2 * self.rows_per_unit * moved * self.levels / self.epsilon

    def error_terms(self, column: int = 0) -> ErrorTerms:
        """State how far the rank of one answer may be off: the choices that lead to it add up."""
        return ErrorTerms(
            "joint_quantile_error",
            {"row_scales": self._scales_to(column), "levels": self.levels},
        )

    def _scales_to(self, column: int) -> tuple[Fraction, ...]:
        """List the scales (in rows) of the choices that lead to a share, as `_split` halves."""
        shares = (Fraction(0), *self.shares, Fraction(1))
        start = 0
        end = len(shares) - 1
        scales: list[Fraction] = []
        while True:
            middle = start + 1 + (end - start - 1) // 2
            within = (shares[middle] - shares[start]) / (shares[end] - shares[start])
            scales.append(self.scale(within) / within.denominator)
            if column == middle - 1:
                return tuple(scales)
            if column < middle - 1:
                end = middle
            else:
                start = middle

    @property
    def parameters(self) -> Mapping[str, Fraction]:
        """None: every choice has a scale of its own."""
        return {}

    def describe(self) -> str:
        """Describe the choices in words."""
        shares = ", ".join(map(str, self.shares))
        return (
            f"exponential mechanism over ranks in {self.levels} rounds, for the "
            f"{shares} quantiles together"
        )

    def release_exact(self, exact: SparseHistogram, source: Words) -> list[int]:
        """The chosen cells in order."""
        return self.release_sparse(exact.filled, exact.counts, cells=exact.cells, source=source)

    def release(self, counts: Any, *, source: Words | None = None) -> list[int]:
        """The chosen cells in order; `counts` are the rows in every cell of the public grid."""
        return self.release_exact(sparse_histogram(counts), check_source(source))

    def release_sparse(
        self, filled_cells: Any, counts: Any, *, cells: int, source: Words | None = None
    ) -> list[int]:
        """Choose cells for all shares on a grid of any size.

        `filled_cells` are the cells that hold rows, in increasing order.
        """
        filled, rows = check_filled_cells(filled_cells, counts, cells)
        supply = check_source(source)
        if len(rows) and not rows.all():
            filled = filled[rows > 0]
            rows = rows[rows > 0]
        fine, spread = spread_rows(filled, rows.astype(np.int64, copy=False), supply)
        chosen: dict[Fraction, int] = {}
        self._split(
            fine,
            spread,
            0,
            (cells << _HALVINGS) - 1,
            Fraction(0),
            Fraction(1),
            self.shares,
            chosen,
            supply,
        )
        return [chosen[share] >> _HALVINGS for share in self.shares]

    def _split(
        self,
        filled: NDArray[np.int64],
        rows: NDArray[np.int64],
        low: int,
        high: int,
        start: Fraction,
        end: Fraction,
        shares: tuple[Fraction, ...],
        chosen: dict[Fraction, int],
        source: Words,
    ) -> None:
        """Answer `shares` from the rows between the answers to `start` and `end`.

        All of them lie between those two shares.
        """
        if not shares:
            return
        middle = len(shares) // 2
        share = shares[middle]
        within = (share - start) / (end - start)
        grid = put_on_grid(filled, rows, low, high)
        cell = choose(grid, within, self.scale(within), source)
        chosen[share] = cell
        first_equal, first_above = np.searchsorted(filled, [cell, cell + 1])
        self._split(
            filled[:first_equal],
            rows[:first_equal],
            low,
            cell,
            start,
            share,
            shares[:middle],
            chosen,
            source,
        )
        self._split(
            filled[first_above:],
            rows[first_above:],
            cell,
            high,
            share,
            end,
            shares[middle + 1 :],
            chosen,
            source,
        )


def spread_rows(
    filled: NDArray[np.int64], rows: NDArray[np.int64], source: Words
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Move each row of a cell to one of 64 places in it, uniformly and independently.

    Cells of few rows draw six bits for every row; cells of many are cut in two six times, by fair
    halvings.
    """
    many = rows > _FEW
    fine, spread = _halved(filled[many], rows[many], source)
    single = np.repeat(filled[~many] << _HALVINGS, rows[~many])
    single |= (source.words(len(single)) & np.uint64((1 << _HALVINGS) - 1)).view(np.int64)
    single.sort()
    last = np.append(np.flatnonzero(single[1:] != single[:-1]), len(single) - 1)[: len(single)]
    light = single[last]
    counts = np.diff(last, prepend=-1)
    if not len(fine):
        return light, counts
    cells = np.concatenate([fine, light])
    order = np.argsort(cells)
    return cells[order], np.concatenate([spread, counts])[order]


def _halved(
    filled: NDArray[np.int64], rows: NDArray[np.int64], source: Words
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Cut each cell into 64 by six halvings; each row goes to either half with probability 1/2.

    Return the cells that have rows, and their numbers of rows.
    """
    for _ in range(_HALVINGS):
        right = fair_half(rows, source)
        both = np.stack([rows - right, right], axis=1).ravel()
        filled = (filled[:, None] * 2 + np.arange(2)).ravel()[both > 0]
        rows = both[both > 0]
    return filled, rows


def fair_half(counts: NDArray[np.int64], source: Words) -> NDArray[np.int64]:
    """Draw Binomial(count, 1/2) for each positive count, exactly: the ones among `count` random
    bits."""
    if not len(counts):
        return counts
    words = (counts + 63) // 64
    drawn = source.words(int(words.sum()))
    last = np.cumsum(words) - 1
    set_bits = np.bitwise_count(drawn).astype(np.int64)
    spare = (64 * words - counts).astype(np.uint64)
    set_bits[last] = np.bitwise_count(drawn[last] >> spare)
    return np.asarray(np.add.reduceat(set_bits, last - words + 1))
