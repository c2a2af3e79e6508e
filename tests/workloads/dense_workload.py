"""Workloads as explicit matrices over all cells: the oracle of all closed forms."""

from __future__ import annotations

from functools import reduce

import numpy as np
from numpy.typing import NDArray

from dither.audit.naive_linear import write_matrix
from dither.plan.operators import LinearOperator
from dither.workloads.language import LineKind, Product
from dither.workloads.measurement import MeasurementPlan

Floats = NDArray[np.float64]


def write_line(kind: LineKind, size: int) -> Floats:
    """Every query of a kind as a row, from its definition."""
    rows = {
        "identity": [(cell, cell) for cell in range(size)],
        "total": [(0, size - 1)],
        "prefixes": [(0, last) for last in range(size)],
        "ranges": [(first, last) for first in range(size) for last in range(first, size)],
    }[kind]
    return np.array(
        [[float(first <= cell <= last) for cell in range(size)] for first, last in rows]
    )


def write_product(product: Product, sizes: dict[str, int]) -> Floats:
    """The queries of a product over all cells, in the order of its factors."""
    order = [*product.columns, *(name for name in sizes if name not in product.columns)]
    lines = [write_line(product.find_kind(name), sizes[name]) for name in order]
    matrix = reduce(np.kron, lines, np.ones((1, 1)))
    shape = [sizes[name] for name in order]
    cells = matrix.reshape([-1, *shape])
    back = [0, *(1 + order.index(name) for name in sizes)]
    return cells.transpose(back).reshape(len(matrix), -1)


def write_step(operator: LinearOperator, columns: tuple[str, ...], sizes: dict[str, int]) -> Floats:
    """A step over some columns, as a matrix over all cells."""
    marginal = write_product(Product(tuple((name, "identity") for name in columns)), sizes)
    return np.array(write_matrix(operator), float) @ marginal


def find_covariance(plan: MeasurementPlan, variances: Floats, sizes: dict[str, int]) -> Floats:
    """The pseudo-inverse of the precision of all steps: that of least squares."""
    precision = sum(
        (matrix := write_step(step.operator, step.columns, sizes)).T @ matrix / variance
        for step, variance in zip(plan.steps, variances, strict=True)
    )
    return np.linalg.pinv(np.asarray(precision), rcond=1e-11, hermitian=True)


def find_svd_bound(matrix: Floats) -> float:
    """(sum of singular values)^2 / number of cells."""
    return float(np.linalg.svd(matrix, compute_uv=False).sum() ** 2 / matrix.shape[1])
