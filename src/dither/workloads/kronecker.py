"""One strategy for each column, and their Kronecker product over all cells.

Least squares of a product of strategies is the product of their solutions, and the variance of a
product of queries is the product of their variances, so that no matrix over all cells is made.
Several products of queries share one strategy: the columns are optimised in turn, each for the
Gram matrix that the others leave it (McKenna et al. 2018).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from dither.errors import RefusedError
from dither.plan.keys import MAX_CELLS
from dither.plan.operators import Kronecker, LinearOperator
from dither.rules import PrivacyRule
from dither.workloads.certificates import MOST_COLUMNS, OptimalityCertificate, make_certificate
from dither.workloads.language import LineKind, Product
from dither.workloads.line_strategies import LineStrategy, ScoredLine, choose_line, find_svd_bound
from dither.workloads.lines import Floats, Mixture, Noise, answer_line
from dither.workloads.listed_counts import ListedProduct
from dither.workloads.measurement import MeasuredStep
from dither.workloads.progress import track

_ROUNDS = 3


@dataclass(frozen=True)
class KroneckerPlan:
    """A strategy for every column, measured as one linear query."""

    columns: tuple[str, ...]
    lines: tuple[LineStrategy, ...]
    reasons: tuple[str, ...]
    mixtures: tuple[tuple[tuple[LineKind, float], ...], ...] = ()
    """The queries along each column that its strategy was chosen for, with their weights."""

    @property
    def name(self) -> str:
        """The strategies, column by column."""
        names = [f"{line.name} along {column}" for column, line in self._pairs()]
        return " x ".join(names) or "the total"

    def _pairs(self) -> list[tuple[str, LineStrategy]]:
        return list(zip(self.columns, self.lines, strict=True))

    @property
    def certificates(self) -> dict[str, OptimalityCertificate]:
        """How far the integers along each column are from the best for Gaussian noise, to be
        checked by anyone (`check_certificate`); columns of more than 1,024 values have none."""
        return {
            column: make_certificate(line.operator, mixture)
            for (column, line), mixture in zip(self._pairs(), self.mixtures, strict=True)
            if line.size <= MOST_COLUMNS
        }

    @property
    def steps(self) -> tuple[MeasuredStep, ...]:
        """One step."""
        return (MeasuredStep(self.columns, self._operator, 1.0),)

    @property
    def _operator(self) -> LinearOperator:
        operators = tuple(line.operator for line in self.lines)
        return operators[0] if len(operators) == 1 else Kronecker(operators)

    def predict(self, product: Product, variances: Floats) -> Floats:
        """Products of the variances along the columns."""
        result = np.array([float(variances[0])])
        for column, line in self._pairs():
            along = line.find_variances(product.find_kind(column))
            result = np.multiply.outer(result, along).ravel()
        return _reorder(result, product, self)

    def find_total(self, product: Product, variances: Floats) -> float:
        """Products of the sums along the columns."""
        return float(variances[0]) * prod(
            float(line.find_variances(product.find_kind(column)).sum())
            for column, line in self._pairs()
        )

    def fit(self, values: list[Floats], variances: Floats) -> FittedProduct:
        """Solve along every column in turn."""
        cells = values[0].reshape(
            [len(line.matrix) if not line.is_identity else line.size for line in self.lines]
        )
        for axis, line in enumerate(self.lines):
            cells = np.moveaxis(line.solve(np.moveaxis(cells, axis, -1)), -1, axis)
        return FittedProduct(self.columns, cells)


def _reorder(answers: Floats, product: Product, plan: KroneckerPlan) -> Floats:
    """Answers by the plan's columns, in the order in which the product names its own."""
    sizes = [len(line.find_variances(product.find_kind(column))) for column, line in plan._pairs()]
    return reorder_axes(answers.reshape(sizes), plan.columns, product)


def reorder_axes(answers: Floats, columns: tuple[str, ...], product: Product) -> Floats:
    """A flat array of answers, whose axes are brought into the product's order."""
    own = [columns.index(column) for column in product.columns]
    rest = [axis for axis in range(len(columns)) if axis not in own]
    return np.asarray(answers.transpose([*own, *rest]).ravel())


@dataclass(frozen=True)
class FittedProduct:
    """Estimated cells over all columns."""

    columns: tuple[str, ...]
    cells: Floats

    def answer(self, product: Product) -> Floats:
        """Answer along every column in turn, totals first."""
        if isinstance(product, ListedProduct):
            return product.answer(self.columns, self.cells)
        answers = self.cells
        for axis, column in enumerate(self.columns):
            kind = product.find_kind(column)
            answers = np.moveaxis(answer_line(kind, np.moveaxis(answers, axis, -1)), -1, axis)
        return reorder_axes(answers, self.columns, product)


def plan_kronecker(
    products: tuple[Product, ...], columns: tuple[str, ...], sizes: dict[str, int], noise: Noise
) -> KroneckerPlan:
    """Choose a strategy for every column, so that the weighted error of all products is least."""
    cells = prod(sizes[column] for column in columns)
    if cells > MAX_CELLS:
        raise RefusedError(
            f"{' x '.join(columns)} has {cells:,} cells: at most {MAX_CELLS:,} in one workload of "
            "prefixes or ranges. Ask for marginals, for fewer columns or for coarser bins",
            rule=PrivacyRule.BOUNDED_WORK,
        )
    chosen: dict[str, tuple[ScoredLine, ...]] = {}
    used: dict[str, Mixture] = {}
    rounds = _ROUNDS if len(products) > 1 and len(columns) > 1 else 1
    remembered: dict[tuple[str, tuple[tuple[LineKind, float], ...]], tuple[ScoredLine, ...]] = {}
    every = [column for _ in range(rounds) for column in columns]
    for column in track(every, len(every)):
        mixture = _mix_column(products, column, columns, sizes, chosen)
        used[column] = mixture
        key = (column, tuple(mixture.items()))
        if key not in remembered:
            remembered[key] = choose_line(mixture, sizes[column], noise)
        chosen[column] = remembered[key]
    reasons = tuple(_explain(column, chosen[column]) for column in columns)
    lines = tuple(chosen[column][0].strategy for column in columns)
    mixtures = tuple(tuple(used[column].items()) for column in columns)
    return KroneckerPlan(columns, lines, reasons, mixtures)


def _mix_column(
    products: tuple[Product, ...],
    column: str,
    columns: tuple[str, ...],
    sizes: dict[str, int],
    chosen: dict[str, tuple[ScoredLine, ...]],
) -> Mixture:
    """The weight of each kind of query along a column, by the errors along the others."""
    mixture: dict[LineKind, float] = {}
    for product in products:
        weight = float(product.weight)
        for other_column in columns:
            if other_column != column:
                kind = product.find_kind(other_column)
                weight *= _trace_line(kind, other_column, sizes, chosen)
        kind = product.find_kind(column)
        mixture[kind] = mixture.get(kind, 0.0) + weight
    largest = max(mixture.values())
    return {kind: float(f"{weight / largest:.3g}") for kind, weight in mixture.items()}


def _trace_line(
    kind: LineKind, column: str, sizes: dict[str, int], chosen: dict[str, tuple[ScoredLine, ...]]
) -> float:
    """The error along a column: of its strategy, or the bound before one is chosen."""
    if column not in chosen:
        return find_svd_bound({kind: 1.0}, sizes[column])
    line = chosen[column][0].strategy
    return float(line.find_variances(kind).sum())


def _explain(column: str, lines: tuple[ScoredLine, ...]) -> str:
    """Why a strategy was chosen: by how much the others err more."""
    chosen = lines[0]
    others = [
        f"{line.strategy.name} {100 * (line.score / chosen.score) ** 0.5 - 100:+.1f}%"
        for line in lines[1:]
    ]
    against = f"; root mean squared error of the others: {', '.join(others)}" if others else ""
    return f"{column}: {chosen.strategy.name}{against}"


def bound_products(products: tuple[Product, ...], sizes: dict[str, int]) -> float:
    """A lower bound on the weighted error of any strategy, at one unit of noise.

    The singular value bound of each product is the product of those of its columns; the error of
    several products is at least the sum of their bounds. Along one column the bound is that of the
    mixture.
    """
    columns = tuple(dict.fromkeys(name for product in products for name in product.columns))
    if len(columns) == 1:
        mixture = _mix_column(products, columns[0], columns, sizes, {})
        largest = max(_sum_weights(products, columns[0]).values())
        return (
            largest * find_svd_bound(mixture, sizes[columns[0]]) * (1 - 1e-3 * (len(mixture) > 1))
        )
    return sum(
        float(product.weight)
        * prod(find_svd_bound({product.find_kind(name): 1.0}, sizes[name]) for name in columns)
        for product in products
    )


def _sum_weights(products: tuple[Product, ...], column: str) -> dict[LineKind, float]:
    weights: dict[LineKind, float] = {}
    for product in products:
        kind = product.find_kind(column)
        weights[kind] = weights.get(kind, 0.0) + float(product.weight)
    return weights
