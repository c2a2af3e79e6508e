"""Lists of counts in SQL over one table, each with a condition and keys of its own.

A condition on columns with declared values is a choice of cells, so that every count is a sum of
cells: a row of 0 and 1. Cells that all counts treat alike are one region; what is measured are
weighted sums of regions, by the strategy that errs least for exactly these rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product as combine
from math import prod
from operator import eq, ge, gt, le, lt, ne
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dither.answer.shown_keys import Key, list_shown_keys
from dither.errors import RefusedError
from dither.plan.algebra import And, Cells, Compare, Condition, Filter, Holds, IsNull, Not, Or, Plan
from dither.plan.domain import Columns, Domain
from dither.plan.keys import list_keys
from dither.plan.narrow import simplify_condition
from dither.plan.operators import MOST_ENTRIES, Dense, LinearOperator
from dither.rules import PrivacyRule
from dither.workloads.bind import BoundWorkload
from dither.workloads.language import LineKind, Product
from dither.workloads.lines import Floats, Noise
from dither.workloads.measurement import MeasuredStep
from dither.workloads.p_identity import find_theta, make_start
from dither.workloads.spectral import find_optimum

MOST_CELLS = 4096
"""Cells of all columns that the counts of a list name together."""
MOST_NUMBERS = 1 << 21
"""Counts times cells of a list."""
_ENTRY = 1 << 15
Codes = dict[str, NDArray[np.int64]]
"""For every cell, its code of each column."""
Truths = NDArray[np.bool_]
_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "=": eq,
    "<>": ne,
    "<": lt,
    "<=": le,
    ">": gt,
    ">=": ge,
}


@dataclass(frozen=True)
class ListedProduct(Product):
    """One question of a list: a row of 0 and 1 over the cells of all columns for each answer."""

    text: str = ""
    keys: tuple[str, ...] = ()
    labels: tuple[tuple[Key, ...], ...] = field(default=(), repr=False)
    """The values of its keys, for each answer."""
    rows: tuple[tuple[int, ...], ...] = field(default=(), repr=False)

    def __str__(self) -> str:
        return self.text

    def list_keys(self) -> dict[str, pa.Array]:
        """The key columns of its table."""
        return {
            name: pa.array([labels[position] for labels in self.labels])
            for position, name in enumerate(self.keys)
        }

    @cached_property
    def matrix(self) -> Floats:
        """The rows as floats."""
        return np.array(self.rows, float)

    def answer(self, columns: tuple[str, ...], cells: Floats) -> Floats:
        """The answers from estimated cells over these columns, and others."""
        rest = tuple(axis for axis, name in enumerate(columns) if name not in self.columns)
        named = [name for name in columns if name in self.columns]
        own = cells.sum(axis=rest).transpose([named.index(name) for name in self.columns])
        return np.asarray(self.matrix @ own.ravel())


@dataclass(frozen=True)
class BoundCounts(BoundWorkload):
    """A list of counts with the rows of the table that all of them count."""

    def count_answers(self, product: Product) -> int:
        """How many numbers a question has."""
        assert isinstance(product, ListedProduct)
        return len(product.rows)

    @property
    def plan(self) -> Plan:
        """The rows without any condition of one count."""
        return strip_condition(self.query.plan)[0]


def strip_condition(plan: Plan) -> tuple[Plan, tuple[Condition, ...]]:
    """The rows below the conditions of a count, and these conditions."""
    conditions: list[Condition] = []
    while isinstance(plan, Filter):
        conditions.append(plan.condition)
        plan = plan.source
    return plan, tuple(conditions)


def list_products(
    queries: Sequence[tuple[str, Cells]], domains: Columns
) -> tuple[ListedProduct, ...]:
    """Every count of a list as sums of the cells of all columns that the list names."""
    conditions = [strip_condition(query.plan)[1] for _, query in queries]
    named = {name for query in queries for name in query[1].keys}
    for condition in (listed for several in conditions for listed in several):
        named |= _find_columns(condition, domains)
    columns = sorted(named)
    sizes = [list_keys(name, domains[name]).codes for name in columns]
    if prod(sizes) > MOST_CELLS:
        raise RefusedError(
            f"counts by and of {', '.join(columns)} are sums of {prod(sizes):,} cells: at most "
            f"{MOST_CELLS:,} in one list. Name fewer columns, or write them in words: "
            "ranges('age') * identity('sex')",
            rule=PrivacyRule.BOUNDED_WORK,
        )
    _check_rows([query for _, query in queries], domains, prod(sizes))
    codes = dict(zip(columns, np.indices(sizes).reshape(len(sizes), prod(sizes)), strict=True))
    factors: tuple[tuple[str, LineKind], ...] = tuple((name, "identity") for name in columns)
    return tuple(
        _make_product(text, query, condition, codes, domains, factors)
        for (text, query), condition in zip(queries, conditions, strict=True)
    )


def _check_rows(queries: Sequence[Cells], domains: Columns, cells: int) -> None:
    rows = sum(
        prod(list_keys(name, domains[name]).codes for name in query.keys) for query in queries
    )
    if rows * cells > MOST_NUMBERS:
        raise RefusedError(
            f"{rows:,} counts that are sums of {cells:,} cells: at most {MOST_NUMBERS:,} of both "
            "together in one list. Ask for fewer, or write them in words",
            rule=PrivacyRule.BOUNDED_WORK,
        )


def _make_product(
    text: str,
    query: Cells,
    conditions: tuple[Condition, ...],
    codes: Codes,
    domains: Columns,
    factors: tuple[tuple[str, LineKind], ...],
) -> ListedProduct:
    cells = prod(list_keys(name, domains[name]).codes for name in codes)
    is_chosen = np.ones(cells, bool)
    for condition in conditions:
        is_chosen &= find_truth(condition, codes, domains, cells)[0]
    labels_of_keys = [list_shown_keys(domains[name]) for name in query.keys]
    labels: list[tuple[Key, ...]] = []
    rows: list[tuple[int, ...]] = []
    for key in combine(*(range(len(values)) for values in labels_of_keys)):
        row = is_chosen.copy()
        for name, code in zip(query.keys, key, strict=True):
            row &= codes[name] == code
        if row.any() or not query.keys:
            labels.append(
                tuple(values[code] for values, code in zip(labels_of_keys, key, strict=True))
            )
            rows.append(tuple(row.astype(int).tolist()))
    if not rows or not any(map(any, rows)):
        raise RefusedError(
            f"no declared value fulfils the condition of {text!r}: its count is 0",
            rule=PrivacyRule.NO_RULE,
        )
    return ListedProduct(
        factors, text=text, keys=query.keys, labels=tuple(labels), rows=tuple(rows)
    )


def _find_columns(condition: Condition, domains: Columns) -> set[str]:
    """The columns of a condition; refused where one has no declared values, or is computed with."""
    match condition:
        case Not(inner):
            return _find_columns(inner, domains)
        case And(operands) | Or(operands):
            return {name for operand in operands for name in _find_columns(operand, domains)}
        case Holds(expression):
            simpler = simplify_condition(expression, domains)
            if simpler is None:
                raise RefusedError(
                    "conditions of a list of counts compare columns with constants: declare the "
                    "column, or ask for this count by itself",
                    rule=PrivacyRule.NO_RULE,
                )
            return _find_columns(simpler, domains)
        case Compare(name) | IsNull(name):
            list_keys(name, domains[name])
            return {name}


def find_truth(
    condition: Condition, codes: Codes, domains: Columns, cells: int
) -> tuple[Truths, Truths]:
    """In which cells a condition is true, and in which it is false; unknown in the others."""
    match condition:
        case Not(inner):
            is_true, is_false = find_truth(inner, codes, domains, cells)
            return is_false, is_true
        case And(operands) | Or(operands):
            pairs = [find_truth(operand, codes, domains, cells) for operand in operands]
            every = np.logical_and.reduce
            some = np.logical_or.reduce
            first, second = (every, some) if isinstance(condition, And) else (some, every)
            return first([pair[0] for pair in pairs]), second([pair[1] for pair in pairs])
        case Holds(expression):
            simpler = simplify_condition(expression, domains)
            assert simpler is not None
            return find_truth(simpler, codes, domains, cells)
        case IsNull(name):
            is_null = codes[name] == list_keys(name, domains[name]).size
            return is_null, ~is_null
        case Compare(name, operator, constant):
            truths = _compare_codes(domains[name], name, operator, constant)
            return truths[0][codes[name]], truths[1][codes[name]]


def _compare_codes(
    domain: Domain, name: str, operator: str, constant: object
) -> tuple[Truths, Truths]:
    """For every code of a column whether a comparison is true, and whether it is false."""
    keys = list_keys(name, domain)
    compare = _OPERATORS[operator]
    truths = []
    for code in range(keys.size):
        grid = keys.first + code
        value = domain.labels[grid] if domain.kind == "category" else grid * domain.step
        truths.append(bool(compare(value, constant)))
    padding = [False] if domain.nullable else []
    return np.array(truths + padding), np.array([not truth for truth in truths] + padding)


@dataclass(frozen=True)
class RegionPlan:
    """Weighted sums of regions, measured as one matrix over the cells."""

    columns: tuple[str, ...]
    name: str
    strategy: Floats
    """Integers: a row for each number, a column for each region."""
    regions: Floats
    """The region of each cell; -1 for cells that no count needs."""
    reasons: tuple[str, ...] = ()

    @cached_property
    def _operator(self) -> LinearOperator:
        cells = np.where(self.regions >= 0, self.strategy[:, self.regions], 0).astype(np.int64)
        return Dense(tuple(map(tuple, cells.tolist())))

    @property
    def steps(self) -> tuple[MeasuredStep, ...]:
        """One step."""
        return (MeasuredStep(self.columns, self._operator, 1.0),)

    @cached_property
    def _inverse(self) -> Floats:
        return np.asarray(np.linalg.pinv(self.strategy))

    def write_rows(self, product: Product) -> Floats:
        """The rows of a question over regions."""
        assert isinstance(product, ListedProduct)
        rows = np.zeros((len(product.rows), self.strategy.shape[1]))
        used = self.regions >= 0
        rows[:, self.regions[used]] = product.matrix[:, used]
        return rows

    def predict(self, product: Product, variances: Floats) -> Floats:
        """The variance of every answer of a question."""
        spread = self.write_rows(product) @ self._inverse
        return np.asarray((spread**2).sum(axis=1) * float(variances[0]))

    def find_total(self, product: Product, variances: Floats) -> float:
        """The sum of those variances."""
        return float(self.predict(product, variances).sum())

    def fit(self, values: list[Floats], variances: Floats) -> FittedRegions:
        """Least squares over the regions."""
        return FittedRegions(self, self._inverse @ values[0])


@dataclass(frozen=True)
class FittedRegions:
    """The estimated count of every region."""

    plan: RegionPlan
    counts: Floats

    def answer(self, product: Product) -> Floats:
        """The answers of one question."""
        return np.asarray(self.plan.write_rows(product) @ self.counts)


def find_regions(products: Sequence[Product]) -> tuple[Floats, Floats]:
    """All rows over regions, and the region of each cell: cells with the same column of 0 and 1."""
    listed = [product for product in products if isinstance(product, ListedProduct)]
    rows = np.concatenate([product.matrix for product in listed])
    used = rows.any(axis=0)
    columns, positions = np.unique(rows[:, used], axis=1, return_inverse=True)
    regions = np.full(rows.shape[1], -1)
    regions[used] = positions.ravel()
    return np.asarray(columns), regions


def plan_listed(bound: BoundCounts, noise: Noise) -> list[RegionPlan]:
    """The counts as they are, every region, and what is best for exactly these counts."""
    rows, regions = find_regions(bound.workload.products)
    row_limit = MOST_ENTRIES // len(regions)
    strategies = {"the counts as they are": np.unique(rows, axis=0)}
    if rows.shape[1] <= row_limit:
        strategies |= _list_region_strategies(rows.T @ rows, noise)
    plans = [
        RegionPlan(bound.columns, name, strategy, regions)
        for name, strategy in strategies.items()
        if len(strategy) <= row_limit
    ]
    if not plans:
        raise RefusedError(
            f"{len(rows):,} counts over {len(regions):,} cells: a matrix of at most "
            f"{MOST_ENTRIES:,} entries is measured. Ask for fewer counts, or write them in words",
            rule=PrivacyRule.BOUNDED_WORK,
        )
    return plans


def _list_region_strategies(gram: Floats, noise: Noise) -> dict[str, Floats]:
    """Strategies of full rank over regions, in integers."""
    size = len(gram)
    strategies = {"every region": np.eye(size)}
    if size > 1 and noise == "gaussian":
        root = find_optimum(gram).root
        strategies["optimum by fixed point"] = np.rint(root * (_ENTRY / np.abs(root).max()))
    elif size > 1:
        theta = find_theta(gram, make_start(size, size // 12 + 2))
        scale = _ENTRY / (1 + theta.sum(axis=0))
        stacked = np.concatenate([np.diag(np.maximum(1, np.rint(scale))), np.rint(theta * scale)])
        strategies["p-identity"] = stacked[stacked.any(axis=1)]
    return strategies


def bound_listed(bound: BoundCounts) -> float:
    """The singular value bound of the rows over regions: that of one cell of every region."""
    rows, _ = find_regions(bound.workload.products)
    values = np.linalg.svd(rows, compute_uv=False)
    return float(values.sum() ** 2 / rows.shape[1])
