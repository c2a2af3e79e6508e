"""Marginals by residuals: the exact optimum for Gaussian noise, without matrices.

The residual of a set of columns is what its marginal holds beyond those of its subsets: the
marginal less all averages, (I - 1/n) along every column. Residuals of different sets are
orthogonal, so that every marginal is a sum of expanded residuals and their errors add up (Xiao et
al. 2023). Residuals are measured as the integer matrix of factors n I - 1 with independent noise,
which costs what the optimum does, and the noise is projected afterwards.

Marginals that are measured as they are carry information on all residuals of their subsets; the
same sums answer from them. Proof: docs/proofs/workloads.md#marginals.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from math import prod

import numpy as np

from dither.plan.operators import Identity, Kronecker, LinearOperator, ToeplitzHankel
from dither.workloads.language import Product
from dither.workloads.lines import Floats, Noise
from dither.workloads.measurement import MeasuredStep
from dither.workloads.progress import track

Columns = tuple[str, ...]
_LEAST_SHARE = 1e-6
_UPDATES = 200


def list_subsets(columns: Columns) -> Iterator[Columns]:
    """All subsets, smaller ones first, columns in the given order."""
    for size in range(len(columns) + 1):
        yield from combinations(columns, size)


@dataclass(frozen=True)
class MarginalDomain:
    """Columns in one order with their sizes, and the marginals asked with their weights."""

    columns: Columns
    sizes: dict[str, int]
    marginals: dict[Columns, float]

    def sort(self, columns: Columns) -> Columns:
        """Columns in the order of the domain."""
        return tuple(sorted(columns, key=self._positions.__getitem__))

    @cached_property
    def _positions(self) -> dict[str, int]:
        return {column: position for position, column in enumerate(self.columns)}

    def count_cells(self, columns: Columns) -> int:
        """The cells of a marginal."""
        return prod(self.sizes[column] for column in columns)

    @cached_property
    def demands(self) -> dict[Columns, float]:
        """For every residual, what one unit of its variance adds to the weighted error.

        A marginal of c cells adds weight c p prod of 1 / n^2 over its other columns, with p the
        product of (n - 1) / n over the residual's own. Residuals along columns of one value are 0.
        """
        demands: dict[Columns, float] = {}
        for marginal, weight in self.marginals.items():
            cells = self.count_cells(marginal)
            for subset in list_subsets(marginal):
                price = self.find_price(subset)
                if price:
                    rest = cells / self.count_cells(subset)
                    demands[subset] = demands.get(subset, 0.0) + weight * cells * price / rest**2
        return demands

    def find_price(self, subset: Columns) -> float:
        """The squared sensitivity of a residual: the product of (n - 1) / n."""
        return prod(1 - 1 / self.sizes[column] for column in subset)

    def find_bound(self) -> float:
        """The singular value bound of all marginals, at one unit of noise: the residual optimum."""
        return float(
            sum(
                (self.find_price(subset) * demand) ** 0.5 for subset, demand in self.demands.items()
            )
            ** 2
        )


def make_domain(products: tuple[Product, ...], sizes: dict[str, int]) -> MarginalDomain | None:
    """The marginals of a workload that asks for nothing else; None for any other."""
    if any(kind != "identity" for product in products for _, kind in product.factors):
        return None
    columns = tuple(sizes)
    marginals: dict[Columns, float] = {}
    for product in products:
        kept = tuple(sorted(product.columns, key=columns.index))
        marginals[kept] = marginals.get(kept, 0.0) + float(product.weight)
    return MarginalDomain(columns, sizes, marginals)


@dataclass(frozen=True)
class FittedResiduals:
    """The estimated residual of every set of columns."""

    domain: MarginalDomain
    residuals: dict[Columns, Floats]

    def answer(self, product: Product) -> Floats:
        """A marginal: the sum of its subsets' residuals, each spread evenly."""
        kept = self.domain.sort(product.columns)
        cells = np.zeros([self.domain.sizes[column] for column in kept])
        for subset in list_subsets(kept):
            if subset in self.residuals:
                shape = [self.domain.sizes[name] if name in subset else 1 for name in kept]
                rest = cells.size / self.domain.count_cells(subset)
                cells += self.residuals[subset].reshape(shape) / rest
        order = [kept.index(column) for column in product.columns]
        return np.asarray(cells.transpose(order).ravel())


@dataclass(frozen=True)
class _MarginalAnswers(ABC):
    """What plans by residuals share: errors of marginals from the variances of residuals."""

    domain: MarginalDomain

    @abstractmethod
    def find_residual_variances(self, variances: Floats) -> dict[Columns, float]:
        """The variance of every estimated residual, from those of the measured numbers."""

    def find_total(self, product: Product, variances: Floats) -> float:
        """The variance of one cell times the number of cells: all cells have the same."""
        residuals = self.find_residual_variances(variances)
        kept = self.domain.sort(product.columns)
        cells = self.domain.count_cells(kept)
        return cells * sum(
            residuals[subset]
            * self.domain.find_price(subset)
            * (self.domain.count_cells(subset) / cells) ** 2
            for subset in list_subsets(kept)
            if subset in residuals
        )

    def predict(self, product: Product, variances: Floats) -> Floats:
        """The variance of every cell of a marginal."""
        cells = self.domain.count_cells(product.columns)
        return np.full(cells, self.find_total(product, variances) / cells)


@dataclass(frozen=True)
class ResidualPlan(_MarginalAnswers):
    """Every residual measured by itself."""

    shares: dict[Columns, float]
    reasons: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """What is measured."""
        return f"residuals of {len(self.shares)} sets of columns"

    @cached_property
    def steps(self) -> tuple[MeasuredStep, ...]:
        """One step for each residual."""
        return tuple(
            MeasuredStep(subset, self._make_operator(subset), share)
            for subset, share in self.shares.items()
        )

    def _make_operator(self, subset: Columns) -> LinearOperator:
        factors = tuple(make_residual(self.domain.sizes[column]) for column in subset)
        if not factors:
            return Identity(1)
        return factors[0] if len(factors) == 1 else Kronecker(factors)

    def find_residual_variances(self, variances: Floats) -> dict[Columns, float]:
        """Noise of (n I - 1) x, projected and divided by n along every column."""
        return {
            subset: float(variance) / self.domain.count_cells(subset) ** 2
            for subset, variance in zip(self.shares, variances, strict=True)
        }

    def fit(self, values: list[Floats], variances: Floats) -> FittedResiduals:
        """Project the noise, and divide by n along every column."""
        residuals = {}
        pairs = zip(self.shares, values, strict=True)
        for subset, measured in track(pairs, len(values)):
            cells = measured.reshape([self.domain.sizes[column] for column in subset])
            residuals[subset] = project_residual(cells) / self.domain.count_cells(subset)
        return FittedResiduals(self.domain, residuals)


@dataclass(frozen=True)
class DirectPlan(_MarginalAnswers):
    """The marginals asked, measured as they are; least squares through their residuals."""

    shares: dict[Columns, float]
    reasons: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """What is measured."""
        return f"{len(self.shares)} marginals as they are"

    @cached_property
    def steps(self) -> tuple[MeasuredStep, ...]:
        """One step for each marginal."""
        return tuple(
            MeasuredStep(kept, Identity(self.domain.count_cells(kept)), share)
            for kept, share in self.shares.items()
        )

    def find_residual_variances(self, variances: Floats) -> dict[Columns, float]:
        """1 / the sum of precisions: a marginal of variance s says 1 / (s rest) of a residual."""
        return {
            subset: 1 / sum(precisions.values())
            for subset, precisions in self._weigh(variances).items()
        }

    def _weigh(self, variances: Floats) -> dict[Columns, dict[Columns, float]]:
        """The precision that each marginal adds to each residual."""
        precisions: dict[Columns, dict[Columns, float]] = {}
        for kept, variance in zip(self.shares, variances, strict=True):
            cells = self.domain.count_cells(kept)
            for subset in list_subsets(kept):
                rest = cells / self.domain.count_cells(subset)
                precisions.setdefault(subset, {})[kept] = 1 / (float(variance) * rest)
        return precisions

    def fit(self, values: list[Floats], variances: Floats) -> FittedResiduals:
        """The mean of what all marginals say of a residual, by their precisions."""
        tables = {
            kept: measured.reshape([self.domain.sizes[column] for column in kept])
            for kept, measured in zip(self.shares, values, strict=True)
        }
        residuals = {}
        weights = self._weigh(variances)
        for subset, precisions in track(weights.items(), len(weights)):
            whole = sum(precisions.values())
            weighted = [
                precision / whole * project_residual(_sum_over(tables[kept], kept, subset))
                for kept, precision in precisions.items()
            ]
            residuals[subset] = np.asarray(sum(weighted))
        return FittedResiduals(self.domain, residuals)


def make_residual(size: int) -> ToeplitzHankel:
    """n I - 1."""
    return ToeplitzHankel((size - 1,) + (-1,) * (size - 1), (0,) * (2 * size - 1), (1,) * size)


def project_residual(cells: Floats) -> Floats:
    """Take the average off along every axis."""
    for axis in range(cells.ndim):
        cells = cells - cells.mean(axis=axis, keepdims=True)
    return cells


def _sum_over(table: Floats, kept: Columns, subset: Columns) -> Floats:
    dropped = tuple(axis for axis, column in enumerate(kept) if column not in subset)
    return np.asarray(table.sum(axis=dropped))


def plan_residuals(domain: MarginalDomain, noise: Noise) -> ResidualPlan:
    """Shares of the price that err least over all residuals.

    Gaussian noise: share of sqrt(price demand), the optimum. Laplace noise: the L1 norm of a
    residual is the product of 2 (n - 1) / n, and shares go with (norm^2 demand)^(1/3).
    """
    shares = {}
    for subset, demand in domain.demands.items():
        if noise == "gaussian":
            shares[subset] = (domain.find_price(subset) * demand) ** 0.5
        else:
            norm = 2 ** len(subset) * domain.find_price(subset)
            shares[subset] = (norm**2 * demand) ** (1 / 3)
    optimal = ("residuals are the exact optimum for marginals",) if noise == "gaussian" else ()
    return ResidualPlan(domain, _normalise(shares), optimal)


def plan_direct(domain: MarginalDomain, noise: Noise) -> DirectPlan:
    """Shares of the price for the marginals asked, by multiplicative updates to the optimum.

    At the optimum a share times the derivative of the error is the same for all.
    """
    marginals = list(domain.marginals)
    shares = np.full(len(marginals), 1 / len(marginals))
    power = 2 if noise == "laplace" else 1
    subsets = [list(list_subsets(kept)) for kept in marginals]
    for _ in track(range(_UPDATES), _UPDATES):
        plan = DirectPlan(domain, dict(zip(marginals, shares.tolist(), strict=True)))
        residuals = plan.find_residual_variances(1 / shares**power)
        gains = np.array(
            [
                sum(
                    domain.demands.get(subset, 0.0)
                    * residuals[subset] ** 2
                    * domain.count_cells(subset)
                    / domain.count_cells(kept)
                    for subset in below
                )
                for kept, below in zip(marginals, subsets, strict=True)
            ]
        )
        rates = gains * shares**power
        shares = np.maximum(shares * (rates / rates.sum() / shares) ** 0.5, _LEAST_SHARE)
        shares /= shares.sum()
    return DirectPlan(domain, dict(zip(marginals, shares.tolist(), strict=True)))


def _normalise(shares: dict[Columns, float]) -> dict[Columns, float]:
    whole = sum(shares.values())
    return {subset: share / whole for subset, share in shares.items()}
