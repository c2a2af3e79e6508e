"""Histograms with blocks that follow the data: what is asked, and what comes back.

`con.adaptive_histogram(["age"], table="visits", epsilon=0.1)` counts rows in blocks of neighbouring
values. Blocks are split by noisy scores, where the counts of their values differ or are large; one
mechanism of the kernel releases blocks and counts (docs/proofs/adaptive-blocks.md). Where the data
is flat or sparse, a few blocks need far less noise than all values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from math import ceil, prod
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from dither.answer.curator_access import CuratorAccess, Pricer
from dither.answer.earlier_rules import price_apart
from dither.answer.intervals import read_level
from dither.answer.quote import quote_charge
from dither.canonical import Number, exact
from dither.errors import ParameterError
from dither.laws import AdditiveErrorLaw, find_error_law
from dither.plan.algebra import BlockCounts, Cells
from dither.plan.blocks import SCORES, CellBlock, find_whole_block, split_block
from dither.plan.linear import move_of_cells
from dither.privacy.charges.rules import Charge
from dither.privacy.kernel.kernel import Priced, Release
from dither.privacy.kernel.request import Price, Request, Step
from dither.privacy.ledger import LedgerView
from dither.question.recipe import Recipe
from dither.workloads.ask_steps import StepAsker, StepCertifier, sign_tables, write_price
from dither.workloads.bind import BoundWorkload
from dither.workloads.lines import Floats

TREE_SHARE = Fraction(1, 4)
"""Of the price, for the splits: best on public one-dimensional data at 1,000 to 100,000 rows."""


@dataclass(frozen=True)
class HistogramPreview:
    """Price and noise of an adaptive histogram. How many blocks there will be is not known."""

    charge: Charge
    pot: str
    noise: str
    block_half_width: float
    """Half the width of the interval of every block's count."""
    cell_half_width: float
    """The same if every cell were counted by itself at this price."""
    stored: bool
    confidence: Fraction

    def __str__(self) -> str:
        return "\n".join(
            (
                write_price(self.charge, self.pot) + (", stored: free" if self.stored else ""),
                self.noise,
                f"every block +- {self.block_half_width:,.4g}; every cell by itself would have "
                f"{self.cell_half_width:,.4g}",
            )
        )

    __repr__ = __str__


@dataclass(frozen=True)
class AskedHistogram:
    """An adaptive histogram at a price. Nothing is read or spent before `answer`."""

    bound: BoundWorkload
    price: Price
    pot: str
    score: str
    tree_share: Fraction
    confidence: Number
    _curator: CuratorAccess
    _view: LedgerView
    _describe: Callable[[Release, Recipe], dict[str, Any]]

    @cached_property
    def priced(self) -> Priced:
        """The request, priced; the same for every database."""
        if self.price.epsilon is None:
            raise ParameterError("an adaptive histogram is priced in epsilon: ask with epsilon=")
        cells = self.bound.make_cells(self.bound.columns)
        epsilon = (1 - self.tree_share) * self.price.epsilon
        threshold = find_threshold(self._curator.kernel, cells, epsilon)
        query = BlockCounts(cells, self.score, threshold, self.tree_share)
        request = Request((Step(query, "adaptive_blocks", Fraction(1)),), self.price, self.pot)
        return price_apart(self._curator.kernel, request, self._view)

    def preview(self) -> HistogramPreview:
        """Price and noise. Reads no data and spends nothing."""
        pots = self._curator.list_pots()
        pot = next((listed for listed in pots if listed.name == self.pot), None)
        (step,) = self.priced.steps
        half = self._find_half_width()
        return HistogramPreview(
            quote_charge(pot, self.priced),
            self.pot,
            step.mechanism.describe(),
            half,
            half * float(1 - self.tree_share),
            pot is not None and self._curator.has_answer(self.priced),
            read_level(self.confidence),
        )

    def answer(self, *, fresh: bool = False) -> AdaptiveHistogram:
        """Charge the pot and release blocks with counts. Asked again it is free, and the same."""
        release = self._curator.release(self.priced, fresh=fresh, sql=None)
        asker = StepAsker(self.pot, self._curator, self._view, self._describe)
        strategy = f"blocks by {self.score}"
        certifier = StepCertifier(asker, (release,), self.bound.recipe, strategy)
        return self._make_result(release, certifier)

    def rehearse(self) -> AdaptiveHistogram:
        """The same on a table generated from the catalog alone: free, and about nobody."""
        return self._make_result(self._curator.rehearse(self.priced.request))

    def _find_half_width(self) -> float:
        (step,) = self.priced.steps
        law = find_error_law(step.mechanism)
        assert isinstance(law, AdditiveErrorLaw)
        return float(law.interval(read_level(self.confidence)))

    def _make_result(
        self, release: Release, certifier: StepCertifier | None = None
    ) -> AdaptiveHistogram:
        axes = tuple(self.bound.sizes[column] for column in self.bound.columns)
        blocks, counts = read_blocks(release.values[0], axes)
        return AdaptiveHistogram(
            self._describe(release, self.bound.recipe) | {"strategy": f"blocks by {self.score}"},
            self.bound,
            blocks,
            counts,
            self._find_half_width(),
            _certifier=certifier,
        )


@dataclass(frozen=True)
class AdaptiveHistogram:
    """Blocks of neighbouring values with their noisy counts.

    Intervals of blocks hold as often as they say. Inside a block rows are spread evenly, and how
    far that is from the truth is not known.
    """

    info: dict[str, Any]
    bound: BoundWorkload = field(repr=False)
    blocks: tuple[CellBlock, ...] = field(repr=False)
    counts: tuple[float, ...] = field(repr=False)
    half_width: float = 0.0
    biased: bool = True
    notes: tuple[str, ...] = (
        "rows are spread evenly inside a block: cells and parts of blocks have no interval",
    )
    _certifier: StepCertifier | None = field(default=None, repr=False, compare=False)

    @property
    def axes(self) -> tuple[int, ...]:
        """How many values each column has."""
        return tuple(self.bound.sizes[column] for column in self.bound.columns)

    @property
    def half_widths(self) -> Floats:
        """Half the width of the interval of every block's count."""
        return np.full(len(self.counts), self.half_width)

    def to_arrow(self) -> pa.Table:
        """One row for each block: its first and last value of every column, count and interval."""
        table: dict[str, Any] = {}
        for axis, column in enumerate(self.bound.columns):
            labels = self.bound.list_labels(column)
            table[f"{column}_from"] = [labels[block.starts[axis]] for block in self.blocks]
            table[f"{column}_to"] = [labels[block.stops[axis] - 1] for block in self.blocks]
        counts = np.array(self.counts, float)
        name = self.bound.value_name
        table[name] = counts
        table[f"{name}_low"] = counts - self.half_widths
        table[f"{name}_high"] = counts + self.half_widths
        return pa.table({key: _to_column(values) for key, values in table.items()})

    def to_dict(self) -> dict[str, list[Any]]:
        """The same as lists."""
        return dict(self.to_arrow().to_pydict())

    def to_pandas(self) -> Any:
        """The same as a data frame of pandas."""
        return self.to_arrow().to_pandas()

    def certificate(self, file: str | Path | None = None) -> dict[str, Any]:
        """The signed certificate: it names all releases, and what they cost together."""
        return sign_tables(self._certifier, self.to_dict(), self.notes, file)

    def expand(self) -> Floats:
        """The estimate of every cell, one axis for each column: a block's count, spread evenly."""
        cells = np.zeros(self.axes)
        for block, count in zip(self.blocks, self.counts, strict=True):
            cells[tuple(map(slice, block.starts, block.stops))] = count / block.cell_count
        return cells

    def count_between(self, **ranges: tuple[Any, Any]) -> float:
        """The estimated rows with values in these ranges, ends included, by column."""
        return sum_cells_between(self.bound, self.expand(), ranges)


def sum_cells_between(
    bound: BoundWorkload, cells: Floats, ranges: Mapping[str, tuple[Any, Any]]
) -> float:
    """Add up the cells whose values lie in these ranges, given by column, ends included."""
    if unknown := sorted(set(ranges) - set(bound.columns)):
        raise ParameterError(
            f"no column {', '.join(unknown)}: there are {', '.join(bound.columns)}"
        )
    slices = [_find_slice(bound, column, ranges) for column in bound.columns]
    return float(cells[tuple(slices)].sum())


def _find_slice(bound: BoundWorkload, column: str, ranges: Mapping[str, tuple[Any, Any]]) -> slice:
    """Find the slice of a column's range; a column without a range is taken whole."""
    if column not in ranges:
        return slice(None)
    labels = bound.list_labels(column)
    first, last = ranges[column]
    if first not in labels or last not in labels:
        raise ParameterError(f"{column} goes from {labels[0]!r} to {labels[-1]!r}")
    if labels.index(first) > labels.index(last):
        raise ParameterError(f"the range of {column} ends before it begins")
    return slice(labels.index(first), labels.index(last) + 1)


def find_threshold(kernel: Pricer, cells: Cells, epsilon: Fraction) -> int:
    """The noise scale of one more count at the epsilon of the counts: a block is split only where
    its score is above it. One unit moves all counts by V, and the scale is V / epsilon."""
    version = kernel.version
    rows = version.analyses.analyse_rows(cells.plan)
    return ceil(move_of_cells(cells, rows, version.catalog.neighbours).l1 / epsilon)


def _to_column(values: Any) -> pa.Array:
    try:
        return pa.array(values)
    except pa.ArrowInvalid:
        return pa.array([None if value is None else str(value) for value in values])


def read_blocks(
    released: tuple[int, ...], axes: tuple[int, ...]
) -> tuple[tuple[CellBlock, ...], tuple[int, ...]]:
    """The unsplit blocks and their counts, from what the mechanism released.

    It walks the public tree in the order in which the mechanism did.
    """
    values = iter(released)
    leaves: list[CellBlock] = []
    level = [find_whole_block(axes)]
    while level:
        leaves += [block for block in level if block.cell_count == 1]
        reached = [block for block in level if block.cell_count > 1]
        level = []
        for block in reached:
            if next(values):
                level += split_block(block, axes)
            else:
                leaves.append(block)
    counts = tuple(values)
    assert len(counts) == len(leaves) <= prod(axes)
    order = sorted(range(len(leaves)), key=lambda position: leaves[position].starts)
    return (
        tuple(leaves[position] for position in order),
        tuple(counts[position] for position in order),
    )


def read_tree_share(tree_share: Number) -> Fraction:
    """The share of the price that goes to the splits."""
    share = exact(tree_share, "tree_share")
    if not 0 < share < 1:
        raise ParameterError(f"tree_share must lie between 0 and 1, got {tree_share}: try 0.25")
    return share


def read_score(score: str) -> str:
    """What blocks are split by."""
    if score not in SCORES:
        raise ParameterError(f"score is {' or '.join(map(repr, SCORES))}, got {score!r}")
    return score
