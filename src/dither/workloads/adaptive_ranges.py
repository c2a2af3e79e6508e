"""Ranges over one or two columns, by what is best for the data: a choice that is paid for.

Fixed strategies err alike on every table; blocks that follow the data err far less on flat and
sparse tables, and more on rough ones. Which is better cannot be known without looking:

* One column: 9/40 of the price decide the blocks (`BlockCounts`, splits by deviation). The rest
  measures them by the strategy that errs least over so many blocks: every block, or a weighted tree
  of blocks. One block of all values, blocks of any lengths and every single value are all possible.
* Two columns: a fiftieth of the price counts all rows. Few rows are counted by an adaptive grid
  (`adaptive_grid.py`), many by the product of the best strategies of both columns, which errs by a
  known amount.

All steps are ordinary requests, stored and free when asked again. Each follows from what those
before it released. How far that is from the best choice is measured in bench/workloads.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import product
from math import prod
from typing import Any

import numpy as np

from dither.answer.curator_access import CuratorAccess
from dither.answer.intervals import read_level
from dither.canonical import Number
from dither.errors import ParameterError, RefusedError
from dither.plan.algebra import BlockCounts, Linear, Query
from dither.plan.blocks import CellBlock
from dither.plan.operators import Identity, Kronecker, LinearOperator, Ranges, Stack, Total
from dither.privacy.charges.rules import Charge
from dither.privacy.kernel.kernel import Priced, Release
from dither.privacy.kernel.request import Price
from dither.privacy.ledger import LedgerView
from dither.question.recipe import Recipe
from dither.rules import PrivacyRule
from dither.workloads.adaptive_grid import TOTAL_SHARE, AskedGrid, ChosenHistogram
from dither.workloads.adaptive_histogram import find_threshold, read_blocks
from dither.workloads.ask_steps import (
    StepAsker,
    StepBuyer,
    StepCertifier,
    find_variance,
    write_price,
)
from dither.workloads.asked_workload import AskedWorkload
from dither.workloads.bind import BoundWorkload
from dither.workloads.intervals import find_multiplier, find_rounding_share, find_spread
from dither.workloads.language import identity
from dither.workloads.line_strategies import MOST_VALUES, list_block_strategies
from dither.workloads.lines import Floats
from dither.workloads.preview import find_deviations, find_interval_factor

BLOCK_SHARE = Fraction(9, 40)
"""Of the price along one column, for the blocks: what is left errs 1.29 times as much as all."""
SPLITS = Fraction(99, 100)
"""Of the price of the blocks: their own counts are not needed."""
GRID_ERROR = 1.0
"""An adaptive grid errs by about so much times (rows epsilon)^(1/3) / epsilon, over generated
planes of 256 x 256 cells (bench/generated_shapes.py)."""


@dataclass(frozen=True)
class RangesPreview:
    """Price of ranges that follow the data, and what they err by at most where data is rough."""

    charge: Charge
    pot: str
    first_step: str
    fixed_error: float
    """The root mean squared error of the best fixed strategy at the whole price."""
    rough_error: float
    """The same strategy's error at what the first step leaves; it is used where no block helps."""
    confidence: Fraction

    def __str__(self) -> str:
        return "\n".join(
            (
                write_price(self.charge, self.pot),
                f"first: {self.first_step}",
                f"root mean squared error {self.rough_error:,.4g} where data is rough, "
                "less where it is flat or sparse",
                f"the best fixed strategy errs by {self.fixed_error:,.4g} on all data",
            )
        )

    __repr__ = __str__


@dataclass(frozen=True)
class AskedRanges:
    """Ranges over one or two columns at a price. Nothing is read or spent before `answer`."""

    fixed: AskedWorkload
    """The same ranges by the best fixed strategy at the whole price."""
    epsilon: Fraction
    confidence: Number
    _curator: CuratorAccess
    _view: LedgerView
    _describe: Callable[[Release, Recipe], dict[str, Any]]

    @property
    def bound(self) -> BoundWorkload:
        """The columns and rows."""
        return self.fixed.bound

    @property
    def _is_line(self) -> bool:
        return len(self.bound.columns) == 1

    @property
    def _first_share(self) -> Fraction:
        return BLOCK_SHARE if self._is_line else TOTAL_SHARE

    @property
    def _left(self) -> Fraction:
        return self.epsilon * (1 - self._first_share)

    @cached_property
    def first(self) -> Priced:
        """The request that looks at the data to choose, priced."""
        if self._is_line:
            cells = self.bound.make_cells(self.bound.columns)
            threshold = find_threshold(self._curator.kernel, cells, self._left)
            query: Query = BlockCounts(cells, "deviation", threshold, SPLITS)
            return self._price(query, "adaptive_blocks", self.epsilon * BLOCK_SHARE)
        return self._grid.total

    @cached_property
    def _grid(self) -> AskedGrid:
        return AskedGrid(
            self.bound,
            self.epsilon,
            self.fixed.pot,
            self.confidence,
            self._curator,
            self._view,
            self._describe,
        )

    def _price(self, query: Query, family: str, epsilon: Fraction) -> Priced:
        return self._asker.price(query, family, Price(epsilon))

    @cached_property
    def _asker(self) -> StepAsker:
        return StepAsker(self.fixed.pot, self._curator, self._view, self._describe)

    def preview(self) -> RangesPreview:
        """Price and errors. Reads no data and spends nothing."""
        fixed = self.fixed.preview()
        (step,) = self.first.steps
        return RangesPreview(
            self._quote(),
            self.fixed.pot,
            step.mechanism.describe(),
            fixed.root_mean_squared_error,
            fixed.root_mean_squared_error / float(1 - self._first_share),
            read_level(self.confidence),
        )

    def _quote(self) -> Charge:
        """What both steps cost."""
        return self._asker.quote(self._list_steps())

    def _list_steps(self) -> list[Priced]:
        """The first step, and sums of cells at what is left: any of them cost the same."""
        cells = self.bound.make_cells(self.bound.columns)
        size = prod(self.bound.sizes[column] for column in self.bound.columns)
        second = self._price(Linear(cells, Total(size)), "linear_laplace", self._left)
        return [self.first, second]

    def answer(self) -> ChosenHistogram:
        """Charge the pot for both steps and release. Asked again it is free, and the same."""
        first = StepBuyer(self._asker, self._list_steps()).release(self.first)
        return self._answer_line(first) if self._is_line else self._answer_plane(first)

    def _answer_line(self, first: Release) -> ChosenHistogram:
        (size,) = self.bound.sizes.values()
        blocks, _ = read_blocks(first.values[0], (size,))
        (kind,) = [kind for _, kind in self.bound.workload.products[0].factors]
        strategy = min(
            list_block_strategies({kind: 1.0}, len(blocks)),
            key=lambda listed: listed.score({kind: 1.0}, "laplace"),
        )
        operator = write_over_blocks(strategy.operator, blocks, size)
        query = Linear(self.bound.make_cells(self.bound.columns), operator)
        priced = self._price(query, "linear_laplace", self._left)
        release = self._asker.release(priced)
        counts = strategy.solve(np.array(release.values[0], float))
        variance = np.array([find_variance(priced)])
        deviations = np.sqrt(strategy.find_variances("identity") * variance)
        level = float(read_level(self.confidence))
        rounding = find_rounding_share([len(release.values[0])], variance, "laplace")
        times = find_multiplier(level, "laplace") * find_spread(variance, "laplace") + rounding
        choice = f"{strategy.name} over {len(blocks):,} blocks of {size:,} values"
        return self._make_result((first, release), blocks, counts, times * deviations, choice)

    def _answer_plane(self, first: Release) -> ChosenHistogram:
        ((rows,),) = first.values
        grid = self._grid
        scale = float(grid.grid_epsilon / grid.moved)
        by_grid = GRID_ERROR * (max(rows, 0) * scale) ** (1 / 3) / scale
        fixed = replace(self.fixed, price=Price(self._left))
        if by_grid >= fixed.preview().root_mean_squared_error:
            return self._take_fixed(first, fixed)
        return grid.answer_after(first)

    def _take_fixed(self, first: Release, fixed: AskedWorkload) -> ChosenHistogram:
        """Every cell as a block, from the fixed strategy; its sums are unbiased."""
        result = fixed.answer()
        every = identity(*self.bound.columns).products[0]
        axes = [range(self.bound.sizes[column]) for column in self.bound.columns]
        blocks = tuple(
            CellBlock(corner, tuple(start + 1 for start in corner), 1, 0)
            for corner in product(*axes)
        )
        times = find_interval_factor(fixed.offer, read_level(self.confidence))
        widths = np.asarray(times * find_deviations(fixed.offer, every))
        choice = f"{fixed.offer.plan.name}, for many rows"
        releases = (first, *result.releases)
        chosen = self._make_result(releases, blocks, result.answer(every), widths, choice)
        return replace(chosen, biased=False, notes=())

    def _make_result(
        self,
        releases: tuple[Release, ...],
        blocks: tuple[CellBlock, ...],
        counts: Floats,
        widths: Floats,
        choice: str,
    ) -> ChosenHistogram:
        return ChosenHistogram(
            self._asker.describe_releases(releases, self.bound.recipe) | {"strategy": choice},
            self.bound,
            blocks,
            tuple(counts.tolist()),
            float(widths.max()),
            choice=choice,
            widths=widths,
            _certifier=StepCertifier(self._asker, releases, self.bound.recipe, choice),
        )


def write_over_blocks(
    operator: LinearOperator, blocks: Sequence[CellBlock], size: int
) -> LinearOperator:
    """An operator over the counts of blocks of a line, as one over the line's cells."""
    if isinstance(operator, Identity):
        return Ranges(size, tuple((block.starts[0], block.stops[0] - 1) for block in blocks))
    if isinstance(operator, Ranges):
        spans = [
            (blocks[first].starts[0], blocks[last].stops[0] - 1) for first, last in operator.ranges
        ]
        return Ranges(size, tuple(spans))
    if isinstance(operator, Stack):
        return Stack(tuple(write_over_blocks(part, blocks, size) for part in operator.operators))
    assert isinstance(operator, Kronecker)  # a level of a tree times its weight
    weight, level = operator.factors
    return Kronecker((weight, write_over_blocks(level, blocks, size)))


def check_axes(bound: BoundWorkload) -> None:
    """Refuse ranges over no column or more than two, or over more values than strategies take."""
    if not 1 <= len(bound.columns) <= 2:
        raise ParameterError("ranges that follow the data are over one or two columns")
    if max(bound.sizes.values()) > MOST_VALUES:
        raise RefusedError(
            f"at most {MOST_VALUES:,} values along a column: declare coarser bins",
            rule=PrivacyRule.BOUNDED_WORK,
        )
