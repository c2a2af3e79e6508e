"""The product of a public operator with the cells of a query, in exact integers.

No float and no fast transform of real numbers enters: every number on the way is an integer below
a public bound, so int64 is exact where that bound fits, and Python integers are used elsewhere.

>>> apply_operator(HaarWavelet(4), np.array([5, 1, 2, 2]), 10).tolist()
[10, 2, 4, 0]
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dither.plan.operator_norms import largest_factor, list_unweighted_columns
from dither.plan.operators import (
    Boxes,
    Dense,
    HaarWavelet,
    Identity,
    Kronecker,
    LinearOperator,
    Marginal,
    Prefix,
    Ranges,
    Stack,
    ToeplitzHankel,
    Total,
    Tree,
    count_columns,
    write_marginal,
)


def apply_operator(operator: LinearOperator, cells: NDArray[Any], largest: int) -> NDArray[Any]:
    """A x for the integers of all cells, whose absolute values sum to at most `largest`."""
    return multiply(operator, to_integers(cells, largest * largest_factor(operator)))


def to_integers(cells: NDArray[Any], bound: int) -> NDArray[Any]:
    """The same integers as int64 where no number of the computation exceeds it, else as Python
    integers."""
    return np.array(cells.tolist(), np.int64 if bound < 1 << 63 else object)


def multiply(operator: LinearOperator, cells: NDArray[Any]) -> NDArray[Any]:
    """A x along the last axis, in integers of the same type."""
    match operator:
        case Identity():
            return cells
        case Total():
            return np.add.reduce(cells, axis=-1, keepdims=True)
        case Prefix():
            return cells.cumsum(axis=-1)
        case Ranges():
            return _sum_ranges(operator, cells)
        case Tree(_, branching):
            return _sum_blocks(cells, branching)
        case HaarWavelet():
            return _take_differences(cells)
        case Dense(entries):
            products: NDArray[Any] = np.matmul(cells, np.array(entries, cells.dtype).T)
            return products
        case ToeplitzHankel():
            return _add_columns(operator, cells)
        case Kronecker(factors):
            return _apply_factors(factors, cells)
        case Stack(operators):
            return np.concatenate([multiply(inner, cells) for inner in operators], axis=-1)
        case Marginal():
            return multiply(write_marginal(operator), cells)
        case Boxes():
            return _sum_boxes(operator, cells)


def _sum_ranges(operator: Ranges, cells: NDArray[Any]) -> NDArray[Any]:
    """Sums of ranges as differences of sums from the start."""
    sums = np.zeros((*cells.shape[:-1], cells.shape[-1] + 1), cells.dtype)
    cells.cumsum(axis=-1, out=sums[..., 1:])
    ends = np.array(operator.ranges)
    return sums[..., ends[:, 1] + 1] - sums[..., ends[:, 0]]


def _sum_boxes(operator: Boxes, cells: NDArray[Any]) -> NDArray[Any]:
    """Sums of boxes as differences of sums from the first corner, one key after the other.

    Every number on the way is a sum of some of the cells.
    """
    before = cells.shape[:-1]
    axes = len(operator.sizes)
    sums = np.zeros((*before, *(size + 1 for size in operator.sizes)), cells.dtype)
    inner: tuple[Any, ...] = (..., *[slice(1, None)] * axes)
    sums[inner] = cells.reshape(*before, *operator.sizes)
    for axis in range(len(before), sums.ndim):
        sums = sums.cumsum(axis=axis)
    ends = np.array(operator.ends).reshape(-1, axes, 2) + np.array([0, 1])
    corners: list[Any] = [
        ends[:, axis].reshape(-1, *np.where(np.arange(axes) == axis, 2, 1)) for axis in range(axes)
    ]
    picked = sums[(..., *corners)]
    for _ in range(axes):
        picked = picked[..., 1] - picked[..., 0]
    return picked


def _sum_blocks(cells: NDArray[Any], branching: int) -> NDArray[Any]:
    """Sums of blocks of cells, of blocks of blocks, and so on; the widest first."""
    levels = [cells]
    while (size := levels[0].shape[-1]) > 1:
        starts = np.arange(0, size, branching)
        levels.insert(0, np.add.reduceat(levels[0], starts, axis=-1))
    return np.concatenate(levels, axis=-1)


def _take_differences(cells: NDArray[Any]) -> NDArray[Any]:
    """The total, and left less right halves of all blocks; the widest first."""
    levels: list[NDArray[Any]] = []
    while cells.shape[-1] > 1:
        levels.insert(0, cells[..., 0::2] - cells[..., 1::2])
        cells = cells[..., 0::2] + cells[..., 1::2]
    return np.concatenate([cells, *levels], axis=-1)


def _add_columns(operator: ToeplitzHankel, cells: NDArray[Any]) -> NDArray[Any]:
    """The columns of the matrix, each times its weight and its cell, added up one by one."""
    products = np.zeros_like(cells)
    for position, column in enumerate(list_unweighted_columns(operator)):
        weighted = cells[..., [position]] * operator.weights[position]
        products += weighted * column.astype(cells.dtype)
    return products


def _apply_factors(factors: tuple[LinearOperator, ...], cells: NDArray[Any]) -> NDArray[Any]:
    """Each factor along the axis of its own key."""
    before = cells.shape[:-1]
    cells = cells.reshape(*before, *map(count_columns, factors))
    for axis, factor in enumerate(factors, len(before)):
        if not isinstance(factor, Identity):
            moved = np.moveaxis(cells, axis, -1)
            cells = np.moveaxis(multiply(factor, moved), -1, axis)
    return cells.reshape(*before, -1)
