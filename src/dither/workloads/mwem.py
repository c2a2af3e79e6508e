"""MWEM: a model of all cells, fitted again and again to the query that it gets most wrong.

Hardt, Ligett and McSherry (2012). A tenth of the price counts all rows, which are first spread
evenly. Every round costs the same: half of it chooses a query of the workload by noisy scores, how
far the model is from it, and half counts that query. Then the model is fitted to all counts so far
by multiplicative weights. All steps are ordinary requests, each following from what those before it
released: stored, and free when asked again. Proof: docs/proofs/adaptive-steps.md#mwem.
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

from dither.errors import ParameterError, RefusedError
from dither.plan.algebra import Count, Linear, Query, Scores
from dither.plan.operators import Dense, Kronecker, LinearOperator, Ranges
from dither.plan.utilities import DistanceCandidate, Distances
from dither.privacy.charges.rules import Charge
from dither.privacy.kernel.families import Measure, choose_family
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
"""Of the price, for the number of all rows."""
CHOICE_SHARE = Fraction(1, 2)
"""Of every round, for the choice of its query."""
MOST_ROUNDS = 200
MOST_CELLS = 1 << 16
MOST_QUERIES = 10_000
SCALE = 8
"""Scores are distances in eighths of a row: the model's counts are rounded to them."""
_SWEEPS = 20
Span = tuple[int, int]


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
    """That of no fixed strategy with its noise is smaller."""
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
    """One query of a workload: what it is called, its operator, and which cells it adds up."""

    words: str
    operator: LinearOperator
    shape: tuple[int, ...]
    chosen: tuple[slice, ...] | NDArray[np.bool_] = field(repr=False)

    def mark_cells(self) -> NDArray[np.bool_]:
        """Which cells are added up, as a table of all."""
        cells = np.zeros(self.shape, bool)
        cells[self.chosen] = True
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
        """How many queries are counted: at most all."""
        return min(self.most_rounds, len(self._distinct))

    @property
    def bound(self) -> BoundWorkload:
        """The columns and rows."""
        return self.fixed.bound

    @property
    def _round_price(self) -> Fraction:
        return self.fixed.price.value * (1 - TOTAL_SHARE) / self.rounds

    def _price(self, query: Query, amount: Fraction) -> Priced:
        """A request of one step in the measure of the whole price."""
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
        """Positions of the queries, each once: several products may hold the same one."""
        first = {
            query.operator: position for position, query in reversed([*enumerate(self.queries)])
        }
        return tuple(sorted(first.values()))

    def list_choosable(self, counted: Sequence[int]) -> list[int]:
        """Positions of the queries that were not counted yet: the same request again would give
        the same number."""
        return [position for position in self._distinct if position not in counted]

    def price_choice(self, model: FittedProduct, choosable: Sequence[int]) -> Priced:
        """The request that chooses among queries the one that a model gets most wrong, priced."""
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
        """The request that counts one query, priced."""
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
            self._asker.describe_all(releases, self.bound.recipe) | {"strategy": strategy},
            self.bound,
            model,
            tuple(measured),
            _certifier=StepCertifier(self._asker, tuple(releases), self.bound.recipe, strategy),
        )

    def _spread_evenly(self, rows: int) -> FittedProduct:
        columns = self.bound.columns
        shape = [self.bound.sizes[column] for column in columns]
        return FittedProduct(columns, np.full(shape, rows / prod(shape)))


@dataclass(frozen=True)
class MwemResult:
    """Consistent tables from a model, and the queries that were measured on the way.

    Measured queries have intervals. How far the model is off elsewhere is not known: tables have
    none, and are biased towards what was not measured being spread evenly.
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
        """What was asked, in order."""
        return self.bound.workload.products

    @property
    def tables(self) -> dict[str, pa.Table]:
        """All tables, by the words of their products."""
        return {str(product): self.make_table(product) for product in self.products}

    def make_table(self, product: Product) -> pa.Table:
        """Keys and values of one product."""
        values = {self.bound.value_name: pa.array(self.model.answer(product))}
        return pa.table(list_keys_of(self.bound, product) | values)

    def table(self, *columns: str) -> pa.Table:
        """The table over exactly these columns; in a list of counts, that of this question."""
        return self.make_table(find_product(self.products, columns))

    def certificate(self, file: str | Path | None = None) -> dict[str, Any]:
        """The signed certificate: it names all releases, and what they cost together."""
        tables = {name: table.to_pydict() for name, table in self.tables.items()}
        return sign_tables(self._certifier, tables, self.notes, file)


def list_queries(bound: BoundWorkload) -> Iterator[ChoosableQuery]:
    """Every query of a bound workload, in the order of its answers."""
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
    """The counts of one question of a list, over the cells of all columns."""
    order = [bound.columns.index(column) for column in product.columns]
    for number, row in enumerate(product.rows):
        own = np.array(row, bool).reshape([shape[axis] for axis in order])
        cells = own.transpose(np.argsort(order))
        entries = tuple(int(cell) for cell in cells.ravel())
        yield ChoosableQuery(f"{product}: row {number}", Dense((entries,)), shape, cells)


def _list_spans(kind: LineKind, size: int) -> list[Span]:
    """First and last value of every query of a kind along one column."""
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
    every = [spans.get(column, (0, bound.sizes[column] - 1)) for column in bound.columns]
    lines = tuple(
        Ranges(size, ((first, last),)) for size, (first, last) in zip(shape, every, strict=True)
    )
    chosen = tuple(slice(first, last + 1) for first, last in every)
    operator = lines[0] if len(lines) == 1 else Kronecker(lines)
    return ChoosableQuery(_describe_spans(bound, spans), operator, shape, chosen)


def _describe_spans(bound: BoundWorkload, spans: dict[str, Span]) -> str:
    """A query in words: `age 18 to 64, sex f`."""
    words = []
    for column, (first, last) in spans.items():
        labels = bound.list_labels(column)
        words.append(f"{column} {labels[first]}" + ("" if first == last else f" to {labels[last]}"))
    return ", ".join(words) or "all rows"


def read_rounds(rounds: int) -> int:
    """How many queries are chosen and counted."""
    if type(rounds) is not int or not 1 <= rounds <= MOST_ROUNDS:
        raise ParameterError(f"rounds is a number from 1 to {MOST_ROUNDS}, got {rounds!r}: try 10")
    return rounds


def check_workload(bound: BoundWorkload) -> None:
    """Refuse what the model or a choice cannot hold, before anything of its size is made."""
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
