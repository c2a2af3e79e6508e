"""Certificates of optimality: how far a strategy along one column is from the best there is.

For any weights v > 0, no strategy with column norms of at most 1 has a smaller total squared error
than (tr (V^1/2 G V^1/2)^1/2)^2 / sum v. A certificate holds the integer operator, the queries and
v; whoever reads it computes the error of exactly these integers and the bound again, and needs no
planner for it. Proof: docs/proofs/workloads.md#certificates.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dither.errors import ParameterError
from dither.plan.apply_operator import multiply
from dither.plan.operators import LinearOperator, check_operator, count_columns
from dither.workloads.language import LineKind
from dither.workloads.lines import Floats

MOST_COLUMNS = 1024
"""Eigenvalues of larger matrices take too long to be computed again by every reader."""


@dataclass(frozen=True)
class OptimalityCertificate:
    """An integer strategy for queries along one column, and weights that bound all strategies."""

    operator: LinearOperator
    kinds: tuple[tuple[LineKind, float], ...]
    dual: tuple[float, ...]


@dataclass(frozen=True)
class CheckedCertificate:
    """The squared error of the strategy at unit sensitivity, and what none can go below."""

    error: float
    bound: float

    @property
    def gap(self) -> float:
        """The error as a multiple of the bound: 1 is the optimum."""
        return self.error / self.bound


def make_certificate(
    operator: LinearOperator, kinds: tuple[tuple[LineKind, float], ...]
) -> OptimalityCertificate:
    """The certificate of a strategy: at the optimum the best weights are diag(G X^-1)."""
    matrix = write_integers(operator)
    gram = _count_pairs(kinds, matrix.shape[1])
    solved = np.linalg.solve(matrix.T @ matrix, gram)
    return OptimalityCertificate(operator, kinds, tuple(np.diagonal(solved).tolist()))


def check_certificate(certificate: OptimalityCertificate) -> CheckedCertificate:
    """Compute error and bound from the integers of the certificate alone."""
    size = count_columns(check_operator(certificate.operator))
    if size > MOST_COLUMNS or len(certificate.dual) != size:
        raise ParameterError(
            f"a certificate of {len(certificate.dual)} weights for {size} columns: as many "
            f"weights as columns, and at most {MOST_COLUMNS}"
        )
    dual = np.array(certificate.dual)
    if not np.isfinite(dual).all() or dual.min() <= 0:
        raise ParameterError("the weights of a certificate must be positive")
    matrix = write_integers(certificate.operator)
    gram = _count_pairs(certificate.kinds, size)
    largest_norm = float((matrix**2).sum(axis=0).max())
    lower = np.linalg.cholesky(matrix.T @ matrix)
    half = np.linalg.solve(lower, gram)
    error = largest_norm * float(np.trace(np.linalg.solve(lower.T, half)))
    root = np.sqrt(dual)
    values = np.linalg.eigvalsh(gram * np.outer(root, root))
    bound = float(np.sqrt(np.maximum(values, 0)).sum() ** 2 / dual.sum())
    return CheckedCertificate(error, bound)


def write_integers(operator: LinearOperator) -> Floats:
    """The matrix of an operator, by its product with every unit vector."""
    units = np.eye(count_columns(operator), dtype=np.int64)
    return np.ascontiguousarray(multiply(operator, units).T.astype(float))


def _count_pairs(kinds: tuple[tuple[LineKind, float], ...], size: int) -> Floats:
    """G by its definition: how often two cells are in one query, kind by kind."""
    gram = np.zeros((size, size))
    first = np.minimum.outer(np.arange(size), np.arange(size))
    last = np.maximum.outer(np.arange(size), np.arange(size))
    for kind, weight in kinds:
        match kind:
            case "identity":
                gram += weight * (first == last)
            case "total":
                gram += weight
            case "prefixes":
                gram += weight * (size - last)
            case "ranges":
                gram += weight * (first + 1.0) * (size - last)
    return gram
