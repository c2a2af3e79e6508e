"""Adaptive grids over two columns: a coarse grid of counts, then a finer one where rows are many.

The grids of Qardaji, Yang and Li (2013), in three ordinary requests. A fiftieth of the price counts
all rows, which says how coarse the first grid is; half of the rest counts its blocks; the other
half counts the smaller blocks into which each of them is cut, by what the coarse count says. Both
counts of a block are joined by least squares. What is asked next follows from what was released
before, and every request is priced, stored and free when asked again.

>>> list_spans(0, 10, 3)
[(0, 2), (3, 6), (7, 9)]
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import pairwise, product
from math import ceil, prod, sqrt
from typing import Any

import numpy as np

from dither.answer.curator_access import CuratorAccess
from dither.answer.intervals import read_level
from dither.canonical import Number
from dither.errors import ParameterError
from dither.plan.algebra import Linear, Query
from dither.plan.blocks import CellBlock
from dither.plan.operators import MOST_ENTRIES, Boxes
from dither.privacy.charges.rules import Charge
from dither.privacy.kernel.kernel import Priced, Release
from dither.privacy.kernel.request import Price
from dither.privacy.ledger import LedgerView
from dither.question.recipe import Recipe
from dither.workloads.adaptive_histogram import AdaptiveHistogram
from dither.workloads.ask_steps import (
    StepAsker,
    StepBuyer,
    StepCertifier,
    find_variance,
    write_price,
)
from dither.workloads.bind import BoundWorkload
from dither.workloads.intervals import find_multiplier, find_rounding_share, find_spread
from dither.workloads.lines import Floats

TOTAL_SHARE = Fraction(1, 50)
"""Of the price, for the number of rows."""
COARSE_SHARE = Fraction(1, 2)
"""Of the rest, for the coarse grid."""
ROWS_OF_COARSE = 80
"""Rows times epsilon for each coarse block, on average: sixteen times 5, where the paper has 10."""
LEAST_SIDE = 10
ROWS_OF_FINE = 3
"""Rows times epsilon for each fine block, where the paper has 5. Both constants are the best of 17
settings on generated planes (bench/generated_shapes.py), after a look at nine on public ones."""
_MOST_BOXES = MOST_ENTRIES // 2
Span = tuple[int, int]
Box = tuple[Span, Span]


@dataclass(frozen=True)
class GridPreview:
    """Price and noise of an adaptive grid. How many blocks there will be is not known."""

    charge: Charge
    pot: str
    noise: str
    block_half_width: float
    """Half the width of the interval of a block's fine count, at most."""
    confidence: Fraction

    def __str__(self) -> str:
        return "\n".join(
            (
                write_price(self.charge, self.pot),
                self.noise,
                f"every fine block +- {self.block_half_width:,.4g} at most",
            )
        )

    __repr__ = __str__


@dataclass(frozen=True)
class ChosenHistogram(AdaptiveHistogram):
    """The blocks that were chosen, with their fitted counts; `choice` says what was measured."""

    choice: str = ""
    widths: Floats | None = None

    @property
    def half_widths(self) -> Floats:
        """Half the width of the interval of every block's count."""
        return np.zeros(0) if self.widths is None else self.widths


@dataclass(frozen=True)
class AskedGrid:
    """An adaptive grid at a price. Nothing is read or spent before `answer`."""

    bound: BoundWorkload
    epsilon: Fraction
    pot: str
    confidence: Number
    _curator: CuratorAccess
    _view: LedgerView
    _describe: Callable[[Release, Recipe], dict[str, Any]]

    @property
    def axes(self) -> tuple[int, ...]:
        """How many values each column has."""
        return tuple(self.bound.sizes[column] for column in self.bound.columns)

    @property
    def grid_epsilon(self) -> Fraction:
        """What the count of all rows leaves of the price."""
        return self.epsilon * (1 - TOTAL_SHARE)

    @property
    def _fine_epsilon(self) -> Fraction:
        return self.grid_epsilon * (1 - COARSE_SHARE)

    @cached_property
    def moved(self) -> int:
        """By how much one unit moves all cells together."""
        return self._asker.find_move(self.bound.make_cells(self.bound.columns))

    @cached_property
    def _asker(self) -> StepAsker:
        return StepAsker(self.pot, self._curator, self._view, self._describe)

    @cached_property
    def total(self) -> Priced:
        """The request that counts all rows, priced."""
        return self._price(self.bound.make_cells(()), "laplace", self.epsilon * TOTAL_SHARE)

    def _price(self, query: Query, family: str, epsilon: Fraction) -> Priced:
        return self._asker.price(query, family, Price(epsilon))

    def _price_boxes(self, boxes: Sequence[Box], epsilon: Fraction) -> Priced:
        """Price the request that counts these boxes."""
        ends = tuple(end for box in boxes for span in box for end in span)
        query = Linear(self.bound.make_cells(self.bound.columns), Boxes(self.axes, ends))
        return self._price(query, "linear_laplace", epsilon)

    def preview(self) -> GridPreview:
        """Price and noise. Reads no data and spends nothing."""
        fine = self._price_single_block(self._fine_epsilon)
        variance = np.array([find_variance(fine)])
        half = self._find_times([1], variance) * sqrt(variance[0])
        return GridPreview(
            self._quote(),
            self.pot,
            f"a coarse grid, then a fine one: {fine.steps[0].mechanism.describe()}",
            float(half),
            read_level(self.confidence),
        )

    def _quote(self) -> Charge:
        return self._asker.quote([self.total, *self._list_grids()])

    def _list_grids(self) -> list[Priced]:
        """Requests that cost what the coarse grid and the fine one do."""
        coarse = self._price_single_block(self.grid_epsilon * COARSE_SHARE)
        return [coarse, self._price_single_block(self._fine_epsilon)]

    def _price_single_block(self, epsilon: Fraction) -> Priced:
        """Price a grid of one block. Every grid has this price and this noise."""
        return self._price_boxes([tuple((0, size - 1) for size in self.axes)], epsilon)  # type: ignore[list-item]

    def answer(self) -> ChosenHistogram:
        """Charge the pot for all steps and release. Asked again it is free, and the same."""
        buyer = StepBuyer(self._asker, [self.total, *self._list_grids()])
        return self.answer_after(buyer.release(self.total))

    def answer_after(self, total: Release) -> ChosenHistogram:
        """Release both grids, whose block sizes follow from the noisy count of all rows."""
        ((rows,),) = total.values
        scale = self.grid_epsilon / self.moved
        coarse = list_coarse_boxes(self.axes, find_coarse_side(rows, scale))
        first = self._price_boxes(coarse, self.grid_epsilon * COARSE_SHARE)
        buyer = StepBuyer(self._asker, self._list_grids())
        coarse_release = buyer.release(first)
        counts = coarse_release.values[0]
        fine = cut_boxes(coarse, counts, self._fine_epsilon / self.moved)
        second = self._price_boxes([box for cut in fine for box in cut], self._fine_epsilon)
        release = buyer.release(second)
        variances = np.array([find_variance(first), find_variance(second)])
        fitted, deviations = join_counts(counts, release.values[0], fine, variances)
        times = self._find_times([len(coarse), len(fitted)], variances)
        choice = f"{len(fitted):,} blocks of an adaptive grid, for about {max(rows, 0):,} rows"
        widths = times * deviations
        releases = (total, coarse_release, release)
        return ChosenHistogram(
            self._asker.describe_releases(releases, self.bound.recipe) | {"strategy": choice},
            self.bound,
            tuple(_make_block(box) for cut in fine for box in cut),
            tuple(fitted.tolist()),
            float(widths.max()),
            choice=choice,
            widths=widths,
            _certifier=StepCertifier(self._asker, releases, self.bound.recipe, choice),
        )

    def _find_times(self, rows: list[int], variances: Floats) -> float:
        level = float(read_level(self.confidence))
        rounding = find_rounding_share(rows, variances, "laplace")
        return find_multiplier(level, "laplace") * find_spread(variances, "laplace") + rounding


def _make_block(box: Box) -> CellBlock:
    starts = tuple(first for first, _ in box)
    stops = tuple(last + 1 for _, last in box)
    return CellBlock(starts, stops, 1, 0)


def find_coarse_side(rows: int, scale: Fraction) -> int:
    """Into how many pieces each column is cut first; `scale` is the epsilon for one row."""
    return max(LEAST_SIDE, ceil(sqrt(max(rows, 0) * float(scale) / ROWS_OF_COARSE)))


def list_spans(first: int, stop: int, pieces: int) -> list[Span]:
    """So many spans of nearly equal length from `first` up to, and without, `stop`; at most one
    for each value."""
    width = stop - first
    pieces = min(pieces, width)
    ends = [first + (2 * piece * width + pieces) // (2 * pieces) for piece in range(pieces + 1)]
    return [(start, end - 1) for start, end in pairwise(ends)]


def cut_span(first: int, stop: int, pieces: int) -> list[Span]:
    """Cut a span into `pieces`, or into single values where pieces would hold fewer than two.

    A span of two values spreads its rows evenly. If one value holds all of them, half of the rows
    are in the wrong one. Single values avoid that, for at most twice as many counts.

    >>> cut_span(0, 6, 3), cut_span(0, 5, 3)
    ([(0, 1), (2, 3), (4, 5)], [(0, 0), (1, 1), (2, 2), (3, 3), (4, 4)])
    """
    width = stop - first
    return list_spans(first, stop, width if width < 2 * pieces else pieces)


def list_coarse_boxes(axes: tuple[int, ...], pieces: int) -> list[Box]:
    """All blocks of the first grid; `pieces` along each column."""
    first, second = (list_spans(0, size, pieces) for size in axes)
    return list(product(first, second))


def cut_boxes(coarse: Sequence[Box], counts: Sequence[int], scale: Fraction) -> list[list[Box]]:
    """The fine blocks of every coarse block: the more, the more rows it seems to hold.

    All together are at most as many as one operator takes; where they would be more, each has more
    rows.
    """
    rows_of_fine = ROWS_OF_FINE / float(scale)
    while True:
        fine = [
            list(product(*(cut_span(first, last + 1, pieces) for first, last in box)))
            for box, pieces in zip(coarse, _count_parts(counts, rows_of_fine), strict=True)
        ]
        if sum(map(len, fine)) <= _MOST_BOXES:
            return fine  # type: ignore[return-value]
        rows_of_fine *= 2


def _count_parts(counts: Sequence[int], rows_of_fine: float) -> list[int]:
    return [max(1, ceil(sqrt(max(count, 0) / rows_of_fine))) for count in counts]


def join_counts(
    coarse: Sequence[int], fine: Sequence[int], cuts: Sequence[Sequence[Box]], variances: Floats
) -> tuple[Floats, Floats]:
    """Least squares of both counts of every coarse block: fitted fine counts and their deviations.

    A sum of k numbers of variance w that is also measured with variance v moves each by
    w / (v + k w) times the difference, which leaves it a variance of w - w^2 / (v + k w).
    """
    of_coarse, of_fine = variances
    numbers = np.array(fine, float)
    fitted: list[Floats] = []
    deviations: list[Floats] = []
    start = 0
    for count, cut in zip(coarse, cuts, strict=True):
        inside = numbers[start : start + len(cut)]
        start += len(cut)
        gain = of_fine / (of_coarse + len(cut) * of_fine)
        fitted.append(inside + gain * (count - inside.sum()))
        deviations.append(np.full(len(cut), sqrt(of_fine - gain * of_fine)))
    return np.concatenate(fitted), np.concatenate(deviations)


def check_plane(bound: BoundWorkload) -> None:
    """Refuse anything but two columns whose cells one operator takes."""
    from dither.plan.keys import MAX_CELLS

    if len(bound.columns) != 2:
        raise ParameterError("an adaptive grid is over two columns: name two, e.g. ['x', 'y']")
    cells = prod(bound.sizes.values())
    if cells > MAX_CELLS:
        raise ParameterError(
            f"an adaptive grid over {cells:,} cells: at most {MAX_CELLS:,}. Declare coarser bins"
        )
