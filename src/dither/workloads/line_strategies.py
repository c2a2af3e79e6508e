"""What can be measured along one column, and which of it errs least for the queries asked.

The score of a strategy B for queries with Gram matrix G is its squared sensitivity times
tr(G (B^T B)^-1): the total squared error per unit of noise. Every number is that of the integer
operator that will be measured. Proof: docs/proofs/workloads.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dither.errors import RefusedError
from dither.plan.apply_operator import multiply
from dither.plan.operator_norms import largest_norms
from dither.plan.operators import HaarWavelet, Identity, LinearOperator, ToeplitzHankel
from dither.rules import PrivacyRule
from dither.workloads.language import LineKind
from dither.workloads.lines import (
    Floats,
    Mixture,
    Noise,
    count_queries,
    find_variances,
    list_ranges,
    mix_grams,
)
from dither.workloads.p_identity import UP_TO as P_IDENTITY_UP_TO
from dither.workloads.p_identity import count_sums, find_theta, make_p_identity, make_start
from dither.workloads.spectral import (
    DENSE_UP_TO,
    SineBasis,
    find_optimum,
    make_dense_operator,
    make_refined_operator,
    make_spectral_operator,
)
from dither.workloads.trees import BRANCHINGS, make_tree_operator, weigh_levels

MOST_VALUES = 4096
"""Values of a column along which prefixes or ranges are asked."""
_MATRIX_UP_TO = 1024
_MARGIN = 1e-3
"""A larger operator is taken where it errs less by this share."""
_REFINEMENTS = 6


@dataclass(frozen=True)
class LineStrategy:
    """An operator along one column, with its least-squares solution."""

    name: str
    operator: LinearOperator
    size: int
    spectrum: tuple[LineKind, tuple[float, ...]] | None = None
    """Of a spectral strategy too large for a matrix: its sine basis and eigenvalues."""

    @property
    def is_identity(self) -> bool:
        """Whether cells are measured as they are."""
        return isinstance(self.operator, Identity)

    @cached_property
    def matrix(self) -> Floats:
        """The operator as a matrix of floats, which hold its integers exactly."""
        if isinstance(self.operator, ToeplitzHankel):
            return _write_toeplitz_hankel(self.operator)
        columns = multiply(self.operator, np.eye(self.size, dtype=np.int64))
        return np.ascontiguousarray(columns.T.astype(float))

    @cached_property
    def covariance(self) -> Floats:
        """(B^T B)^-1: that of the estimated cells at noise of variance 1."""
        if self.spectrum is not None:
            return self._invert_spectrum(-2)
        return np.asarray(np.linalg.inv(self.matrix.T @ self.matrix))

    def _invert_spectrum(self, power: float) -> Floats:
        """W^-1 F^power W^-1 for B = F W with the unrounded eigenvalues of F; for power -1 W^-1
        F^-1."""
        assert self.spectrum is not None and isinstance(self.operator, ToeplitzHankel)
        kind, eigenvalues = self.spectrum
        toeplitz, hankel = SineBasis(kind, self.size).write_kernel(np.array(eigenvalues) ** power)
        inverse = _write_both(toeplitz, hankel)
        weights = np.array(self.operator.weights, float)
        inverse /= weights[:, None]
        if power == -2:
            inverse /= weights
        return inverse

    def find_variances(self, kind: LineKind) -> Floats:
        """The variance of every query of a kind at noise of variance 1."""
        if not self.is_identity:
            return find_variances(kind, self.covariance)
        match kind:
            case "identity":
                return np.ones(self.size)
            case "total":
                return np.array([float(self.size)])
            case "prefixes":
                return np.arange(1.0, self.size + 1)
        first, last = list_ranges(self.size)
        return (last - first + 1).astype(float)

    def solve(self, measured: Floats) -> Floats:
        """The least-squares cells along the last axis."""
        if self.is_identity:
            return measured
        if self.spectrum is None:
            return np.asarray(measured @ self.matrix @ self.covariance)
        return self._refine(measured)

    def _refine(self, measured: Floats) -> Floats:
        """B^-1 y by the unrounded inverse, and again for what is left of y."""
        inverse = self._invert_spectrum(-1)
        cells = measured @ inverse.T
        for _ in range(_REFINEMENTS):
            cells += (measured - cells @ self.matrix.T) @ inverse.T
        return np.asarray(cells)

    def find_squared_norm(self, noise: Noise) -> int:
        """The squared sensitivity per unit that a cell moves: L1 for Laplace, L2 for Gaussian."""
        norms = largest_norms(self.operator)
        return norms.l1**2 if noise == "laplace" else norms.l2_squared

    def score(self, mixture: Mixture, noise: Noise) -> float:
        """The total squared error of the queries, weighted, at one unit of noise."""
        trace = sum(
            weight * float(self.find_variances(kind).sum()) for kind, weight in mixture.items()
        )
        return self.find_squared_norm(noise) * trace


def _write_toeplitz_hankel(operator: ToeplitzHankel) -> Floats:
    """The matrix of a Toeplitz-Hankel operator."""
    unweighted = _write_both(np.array(operator.toeplitz, float), np.array(operator.hankel, float))
    return np.asarray(unweighted * np.array(operator.weights, float))


def _write_both(toeplitz: Floats, hankel: Floats) -> Floats:
    """The sum of a symmetric Toeplitz and a Hankel matrix."""
    cells = np.arange(len(toeplitz))
    matrix = toeplitz[np.abs(np.subtract.outer(cells, cells))]
    matrix += hankel[np.add.outer(cells, cells)]
    return matrix


@dataclass(frozen=True)
class ScoredLine:
    """A strategy and its score for the queries along the column."""

    strategy: LineStrategy
    score: float


def choose_line(mixture: Mixture, size: int, noise: Noise) -> tuple[ScoredLine, ...]:
    """All strategies that fit the queries, the chosen one first.

    A strategy is preferred to a smaller one only where it errs less by a thousandth.
    """
    if size > MOST_VALUES and {"ranges", "prefixes"} & set(mixture):
        raise RefusedError(
            f"prefixes and ranges over {size:,} values: at most {MOST_VALUES:,}. Declare coarser "
            "bins, or ask for identity",
            rule=PrivacyRule.BOUNDED_WORK,
        )
    scored = [
        ScoredLine(strategy, strategy.score(mixture, noise))
        for strategy in _list_strategies(mixture, size, noise)
    ]
    chosen = scored[0]
    for candidate in scored[1:]:
        if candidate.score < chosen.score * (1 - _MARGIN):
            chosen = candidate
    rest = sorted((line for line in scored if line is not chosen), key=lambda line: line.score)
    return (chosen, *rest)


def _list_strategies(mixture: Mixture, size: int, noise: Noise) -> Iterator[LineStrategy]:
    """The menu, smaller operators first."""
    yield LineStrategy("identity", Identity(size), size)
    if not {"ranges", "prefixes", "total"} & set(mixture) or size == 1 or size > MOST_VALUES:
        return
    if size <= _MATRIX_UP_TO and size & (size - 1) == 0:
        yield LineStrategy("Haar wavelet", HaarWavelet(size), size)
    if size <= _MATRIX_UP_TO or noise == "laplace":
        yield _make_best_tree(mixture, size, noise)
    if noise == "laplace":
        if size <= P_IDENTITY_UP_TO:
            theta = find_theta(mix_grams(mixture, size), make_start(size, count_sums(size)))
            yield LineStrategy("p-identity", make_p_identity(theta), size)
        return
    kinds: tuple[LineKind, ...] = ("ranges", "prefixes")
    for kind in kinds:
        if kind in mixture and kind == "prefixes" and DENSE_UP_TO < size <= _MATRIX_UP_TO:
            operator = make_refined_operator(mixture, size, kind)
            yield LineStrategy(f"refined spectral form ({kind})", operator, size)
        elif kind in mixture:
            yield _make_spectral(mixture, size, kind)
    if size <= DENSE_UP_TO:
        optimum = find_optimum(mix_grams(mixture, size))
        yield LineStrategy("optimum by fixed point", make_dense_operator(optimum), size)


def list_block_strategies(mixture: Mixture, size: int) -> list[LineStrategy]:
    """Strategies for Laplace noise that are sums of neighbouring cells: each cell, or a tree."""
    identity = LineStrategy("identity", Identity(size), size)
    has_sums = bool({"ranges", "prefixes"} & set(mixture)) and size > 1
    return [identity, _make_best_tree(mixture, size, "laplace")] if has_sums else [identity]


def _make_best_tree(mixture: Mixture, size: int, noise: Noise) -> LineStrategy:
    """The tree whose branching errs least with the best weights of its levels."""
    trees = {
        branching: weigh_levels(mixture, size, branching, noise)
        for branching in BRANCHINGS
        if branching <= max(2, size)
    }

    def find_error(branching: int) -> float:
        # errors are those of the next power: compared per query
        padded = branching ** (len(trees[branching].weights) - 1)
        queries = sum(weight * count_queries(kind, padded) for kind, weight in mixture.items())
        return trees[branching].error / queries

    best = min(trees, key=find_error)
    operator = make_tree_operator(size, best, trees[best].weights)
    return LineStrategy(f"level-weighted tree of branching {best}", operator, size)


def _make_spectral(mixture: Mixture, size: int, kind: LineKind) -> LineStrategy:
    operator = make_spectral_operator(mixture, size, kind)
    name = f"spectral closed form ({kind})"
    if size <= _MATRIX_UP_TO:
        return LineStrategy(name, operator, size)
    basis = SineBasis(kind, size)
    eigenvalues = np.maximum(basis.find_eigenvalues(mixture), 0) ** 0.25
    eigenvalues *= operator.toeplitz[0] / basis.write_kernel(eigenvalues)[0][0]
    return LineStrategy(name, operator, size, (kind, tuple(eigenvalues.tolist())))


def find_svd_bound(mixture: Mixture, size: int) -> float:
    """(sum of singular values)^2 / n: no strategy of column norms of at most 1 errs less.

    Closed forms where one kind is asked; the bound of a sum is at least the sum of the bounds.
    """
    if len(mixture) > 1 and size <= _MATRIX_UP_TO:
        values = np.linalg.eigvalsh(mix_grams(mixture, size))
        return float(np.sqrt(np.maximum(values, 0)).sum() ** 2 / size)
    bounds: dict[str, Callable[[], float]] = {
        "identity": lambda: float(size),
        "total": lambda: 1.0,
        "ranges": lambda: _bound_by_spectrum("ranges", size),
        "prefixes": lambda: _bound_by_spectrum("prefixes", size),
    }
    return sum(weight * bounds[kind]() for kind, weight in mixture.items())


def _bound_by_spectrum(kind: LineKind, size: int) -> float:
    eigenvalues = SineBasis(kind, size).find_eigenvalues({kind: 1.0})
    return float(np.sqrt(eigenvalues).sum() ** 2 / size)
