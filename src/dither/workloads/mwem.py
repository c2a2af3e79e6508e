"""MWEM: answer a workload from a model that is fitted to the queries that it gets most wrong.

The algorithm is that of Hardt, Ligett and McSherry (2012). A tenth of the price counts all rows,
and the model spreads them evenly over all cells. The rest is for rounds of the same price. Half of
a round chooses a query of the workload by noisy scores: the score of a query is how far the model
is off. The other half counts the chosen query. Then the model is fitted to all counts so far by
multiplicative weights. All steps are ordinary requests: each is stored, and free when asked again.
Proof: docs/proofs/adaptive-steps.md#mwem.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from itertools import product as combine
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dither.answer.offered_families import choose_family
from dither.errors import ParameterError, RefusedError
from dither.plan.algebra import Count, Linear, Query, Scores
from dither.plan.operators import Dense, Kronecker, LinearOperator, Ranges
from dither.plan.utilities import DistanceCandidate, Distances
from dither.privacy.charges.rules import Charge
from dither.privacy.kernel.families import Measure
from dither.privacy.kernel.kernel import Priced
from dither.privacy.kernel.request import Price
from dither.rules import PrivacyRule
from dither.workloads.ask_steps import (
    StepAsker,
    StepBuyer,
    StepCertifier,
    find_noise_law,
    sign_tables,
    write_price,
)
from dither.workloads.asked_workload import AskedWorkload
from dither.workloads.bind import BoundWorkload
from dither.workloads.kronecker import FittedProduct
from dither.workloads.language import LineKind, Product
from dither.workloads.lines import list_ranges
from dither.workloads.listed_counts import ListedProduct
from dither.workloads.multiplicative_weights import CountedCells, fit_weights
from dither.workloads.progress import show_step, track
from dither.workloads.result import find_product, list_keys_of

TOTAL_SHARE = Fraction(1, 10)
"""The share of the price that counts all rows."""
CHOICE_SHARE = Fraction(1, 2)
"""The share of a round's price that chooses its query."""
MOST_ROUNDS = 200
MOST_CELLS = 1 << 16
MOST_QUERIES = 10_000
SCALE = 8
"""Scores are integers: distances in eighths of a row. The model's counts are rounded to eighths."""
_SWEEPS = 20
"""How often a fit goes over all counts."""
Span = tuple[int, int]
"""Positions of the first and the last value of a range of one column."""


@dataclass(frozen=True)
class MwemPreview:
    """Price and noise of MWEM, beside what the best fixed strategy errs by at the same price.

    How far the model will be off depends on the data, and is not known.
    """

    charge: Charge
    pot: str
    queries: int
    rounds: int
    noise: str
    measured_half_width: float
    """Half the width of the interval of every measured query."""
    fixed_error: float
    """The root mean squared error of the best fixed strategy, which is the same on all data."""
    lower_bound: float
    """No fixed strategy with the same noise has a smaller root mean squared error."""
    confidence: Fraction

    def __str__(self) -> str:
        return "\n".join(
            (
                write_price(self.charge, self.pot),
                f"{self.queries:,} queries; {self.noise}",
                f"every measured query +- {self.measured_half_width:,.4g}; "
                "how far the model is off is not known",
                f"the best fixed strategy errs by {self.fixed_error:,.4g}, none by less than "
                f"{self.lower_bound:,.4g}",
            )
        )

    __repr__ = __str__


@dataclass(frozen=True)
class MeasuredQuery:
    """A query that a round chose, its noisy count, and its interval."""

    query: str
    count: float
    low: float
    high: float


@dataclass(frozen=True)
class ChoosableQuery:
    """One query of a workload: its words, its operator, and the index of the cells it adds up."""

    words: str
    operator: LinearOperator
    shape: tuple[int, ...]
    cells_index: tuple[slice, ...] | NDArray[np.bool_] = field(repr=False)

    def mark_cells(self) -> NDArray[np.bool_]:
        """Make a table of all cells that is True where the query adds a cell up."""
        cells = np.zeros(self.shape, bool)
        cells[self.cells_index] = True
        return cells


@dataclass(frozen=True)
class AskedMwem:
    """A workload by MWEM at a price. Nothing is read or spent before `answer`."""

    fixed: AskedWorkload
    """The same workload by the best fixed strategy."""
    most_rounds: int
    _asker: StepAsker

    @cached_property
    def rounds(self) -> int:
        """How many queries are counted: `most_rounds`, or all where there are fewer."""
        return min(self.most_rounds, len(self._distinct))

    @property
    def bound(self) -> BoundWorkload:
        """The workload, bound to its table: columns, sizes and rows."""
        return self.fixed.bound

    @property
    def _round_price(self) -> Fraction:
        """The price of one round, for its choice and its count."""
        return self.fixed.price.value * (1 - TOTAL_SHARE) / self.rounds

    def _price(self, query: Query, amount: Fraction) -> Priced:
        """Price a request of one step, in epsilon or rho as the whole price is."""
        measure: Measure = "epsilon" if self.fixed.price.rho is None else "rho"
        family = choose_family(query, measure, False).name
        price = Price(amount) if measure == "epsilon" else Price(rho=amount)
        return self._asker.price(query, family, price)

    @cached_property
    def total(self) -> Priced:
        """The request that counts all rows, priced."""
        return self._price(self.bound.make_cells(()), self.fixed.price.value * TOTAL_SHARE)

    @cached_property
    def queries(self) -> tuple[ChoosableQuery, ...]:
        """All queries of the workload, in the order of its answers."""
        return tuple(list_queries(self.bound))

    @cached_property
    def _distinct(self) -> tuple[int, ...]:
        """Positions of queries without repeats: several products may hold the same query."""
        first = {
            query.operator: position for position, query in reversed([*enumerate(self.queries)])
        }
        return tuple(sorted(first.values()))

    def list_choosable(self, counted: Sequence[int]) -> list[int]:
        """List the positions of queries that were not counted yet.

        To count a query again would be the same request, with the same stored answer.
        """
        return [position for position in self._distinct if position not in counted]

    def price_choice(self, model: FittedProduct, choosable: Sequence[int]) -> Priced:
        """Price the request that chooses one of some queries that the model gets most wrong."""
        products = self.bound.workload.products
        estimates = np.concatenate([model.answer(product) for product in products])
        candidates = tuple(
            DistanceCandidate(
                1, self.queries[position].operator, (round(SCALE * float(estimates[position])),)
            )
            for position in choosable
        )
        cells = self.bound.make_cells(self.bound.columns)
        query = Scores(cells, Distances(SCALE, candidates))
        return self._price(query, self._round_price * CHOICE_SHARE)

    def price_count(self, query: ChoosableQuery) -> Priced:
        """Price the request that counts one query."""
        linear = Linear(self.bound.make_cells(self.bound.columns), query.operator)
        return self._price(linear, self._round_price * (1 - CHOICE_SHARE))

    def _quote(self) -> Charge:
        """What all steps cost together."""
        return self._asker.quote(self._list_steps())

    def _list_steps(self) -> list[Priced]:
        """Requests that cost what all steps do: rounds cost alike, whatever they choose."""
        choice = self.price_choice(self._spread_evenly(1), self._distinct)
        count = self.price_count(self.queries[0])
        return [self.total, *(choice, count) * self.rounds]

    def preview(self) -> MwemPreview:
        """Price and noise. Reads no data and spends nothing."""
        fixed = self.fixed.preview()
        count = self.price_count(self.queries[0])
        return MwemPreview(
            self._quote(),
            self._asker.pot,
            len(self.queries),
            self.rounds,
            f"{self.rounds} rounds: a choice by noisy scores, then "
            f"{count.steps[0].mechanism.describe()}",
            float(find_noise_law(count).interval(self.fixed.level)),
            fixed.root_mean_squared_error,
            fixed.lower_bound,
            self.fixed.level,
        )

    def answer(self) -> MwemResult:
        """Charge the pot for all steps and release. Asked again it is free, and the same."""
        buyer = StepBuyer(self._asker, self._list_steps())
        total = buyer.release(self.total)
        releases = [total]
        rows = max(1, total.values[0][0])
        model = self._spread_evenly(rows)
        chosen: list[int] = []
        counted: list[CountedCells] = []
        measured: list[MeasuredQuery] = []
        with show_step("choosing, counting and fitting", self.fixed.progress):
            for _ in track(range(self.rounds), self.rounds):
                choosable = self.list_choosable(chosen)
                choice = buyer.release(self.price_choice(model, choosable))
                chosen.append(choosable[choice.values[0][0]])
                query = self.queries[chosen[-1]]
                priced = self.price_count(query)
                release = buyer.release(priced)
                releases += [choice, release]
                noisy = float(release.values[0][0])
                counted.append((query.mark_cells(), noisy))
                half = float(find_noise_law(priced).interval(self.fixed.level))
                measured.append(MeasuredQuery(query.words, noisy, noisy - half, noisy + half))
                fitted = fit_weights(model.cells, rows, counted, sweeps=_SWEEPS)
                model = FittedProduct(model.columns, fitted)
        strategy = f"MWEM, {self.rounds} rounds"
        return MwemResult(
            self._asker.describe_releases(releases, self.bound.recipe) | {"strategy": strategy},
            self.bound,
            model,
            tuple(measured),
            _certifier=StepCertifier(self._asker, tuple(releases), self.bound.recipe, strategy),
        )

    def _spread_evenly(self, rows: int) -> FittedProduct:
        """Make the model that has the same number of rows in every cell."""
        columns = self.bound.columns
        shape = [self.bound.sizes[column] for column in columns]
        return FittedProduct(columns, np.full(shape, rows / prod(shape)))


@dataclass(frozen=True)
class MwemResult:
    """Consistent tables from a model, and the queries that were measured on the way.

    Measured queries have intervals. Tables have none, because how far the model is off elsewhere is
    not known. They are biased: the model keeps rows as evenly spread as the measured queries allow.
    """

    info: dict[str, Any]
    bound: BoundWorkload = field(repr=False)
    model: FittedProduct = field(repr=False)
    measured: tuple[MeasuredQuery, ...] = field(repr=False)
    biased: bool = True
    notes: tuple[str, ...] = (
        "answers of a model: only the measured queries have intervals (result.measured)",
    )
    _certifier: StepCertifier | None = field(default=None, repr=False, compare=False)

    @property
    def products(self) -> tuple[Product, ...]:
        """The products of the workload, in the order they were asked in."""
        return self.bound.workload.products

    @property
    def tables(self) -> dict[str, pa.Table]:
        """The tables of all products, by the words of the product."""
        return {str(product): self.make_table(product) for product in self.products}

    def make_table(self, product: Product) -> pa.Table:
        """Make the table of one product: its keys, and the model's values."""
        values = {self.bound.value_name: pa.array(self.model.answer(product))}
        return pa.table(list_keys_of(self.bound, product) | values)

    def table(self, *columns: str) -> pa.Table:
        """Make the table over exactly these columns, or of one question of a list of counts."""
        return self.make_table(find_product(self.products, columns))

    def certificate(self, file: str | Path | None = None) -> dict[str, Any]:
        """The signed certificate: it names all releases, and what they cost together."""
        tables = {name: table.to_pydict() for name, table in self.tables.items()}
        return sign_tables(self._certifier, tables, self.notes, file)


def list_queries(bound: BoundWorkload) -> Iterator[ChoosableQuery]:
    """List every query of a bound workload, in the order of its answers."""
    shape = tuple(bound.sizes[column] for column in bound.columns)
    for product in bound.workload.products:
        if isinstance(product, ListedProduct):
            yield from _list_rows(bound, product, shape)
            continue
        lines = [_list_spans(kind, bound.sizes[column]) for column, kind in product.factors]
        for spans in combine(*lines):
            yield _make_query(bound, dict(zip(product.columns, spans, strict=True)), shape)


def _list_rows(
    bound: BoundWorkload, product: ListedProduct, shape: tuple[int, ...]
) -> Iterator[ChoosableQuery]:
    """List the queries of one question of a list of counts, over the cells of all columns."""
    order = [bound.columns.index(column) for column in product.columns]
    for number, row in enumerate(product.rows):
        own_cells = np.array(row, bool).reshape([shape[axis] for axis in order])
        cells = own_cells.transpose(np.argsort(order))
        entries = tuple(int(cell) for cell in cells.ravel())
        yield ChoosableQuery(f"{product}: row {number}", Dense((entries,)), shape, cells)


def _list_spans(kind: LineKind, size: int) -> list[Span]:
    """List the first and the last value of every query of a kind along one column."""
    match kind:
        case "identity":
            return [(value, value) for value in range(size)]
        case "prefixes":
            return [(0, value) for value in range(size)]
        case "total":
            return [(0, size - 1)]
    first, last = list_ranges(size)
    return list(zip(first.tolist(), last.tolist(), strict=True))


def _make_query(
    bound: BoundWorkload, spans: dict[str, Span], shape: tuple[int, ...]
) -> ChoosableQuery:
    """Make the query of a box of cells; columns without a span are taken whole."""
    all_spans = [spans.get(column, (0, bound.sizes[column] - 1)) for column in bound.columns]
    lines = tuple(
        Ranges(size, ((first, last),)) for size, (first, last) in zip(shape, all_spans, strict=True)
    )
    cells_index = tuple(slice(first, last + 1) for first, last in all_spans)
    operator = lines[0] if len(lines) == 1 else Kronecker(lines)
    return ChoosableQuery(_describe_spans(bound, spans), operator, shape, cells_index)


def _describe_spans(bound: BoundWorkload, spans: dict[str, Span]) -> str:
    """Describe a query in words, such as `age 18 to 64, sex f`."""
    words = []
    for column, (first, last) in spans.items():
        labels = bound.list_labels(column)
        words.append(f"{column} {labels[first]}" + ("" if first == last else f" to {labels[last]}"))
    return ", ".join(words) or "all rows"


def read_rounds(rounds: int) -> int:
    """Read how many queries are chosen and counted; refuse what is no number in range."""
    if type(rounds) is not int or not 1 <= rounds <= MOST_ROUNDS:
        raise ParameterError(f"rounds is a number from 1 to {MOST_ROUNDS}, got {rounds!r}: try 10")
    return rounds


def check_workload(bound: BoundWorkload) -> None:
    """Refuse a workload that MWEM has no rule for, or that is too large for its model.

    Nothing of the size of the workload is made before that.
    """
    from dither.plan.scores import MOST_WORK

    if not bound.columns:
        raise ParameterError("MWEM is over at least one column: ask for all rows by con.sql")
    if any(product.weight != 1 for product in bound.workload.products):
        raise ParameterError("MWEM weighs all queries alike: leave out the weights")
    cells = prod(bound.sizes[column] for column in bound.columns)
    queries = sum(map(bound.count_answers, bound.workload.products))
    if cells > MOST_CELLS or queries > MOST_QUERIES or cells * queries > MOST_WORK:
        raise RefusedError(
            f"MWEM over {cells:,} cells and {queries:,} queries: it holds every cell of all "
            f"columns together, at most {MOST_CELLS:,}, and compares every query with the data, at "
            f"most {MOST_QUERIES:,} and {MOST_WORK:,} cells in all of them. Ask for fewer columns "
            "or coarser bins, or use con.workload",
            rule=PrivacyRule.BOUNDED_WORK,
        )
    if bound.query.columns != (Count(),):
        raise ParameterError("MWEM counts rows: ask with COUNT(*), or use con.workload")
