"""Exact norms of the columns of a public operator, and what its product takes in width and memory.

Everything is computed from the operator's own definition, in integers. A request states no norm.
Norms of a column of a Kronecker product are the products of the norms of the factors' columns;
those of a stack are sums. Proof: docs/proofs/linear-queries.md#column-norms.

>>> largest_norms(Prefix(4)), largest_norms(Kronecker((HaarWavelet(4), Total(3)))).l2_squared
(Norms(l0=4, l1=4, l2_squared=4, linf=1), 3)
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache, reduce
from itertools import product
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

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
    count_rows,
    list_levels,
    write_marginal,
)

_INT64 = 1 << 63
_COPIES = 4
"""So many arrays of the largest size are there at once while a product is computed."""
_BYTES_PER_NUMBER = 8
_BYTES_PER_PYTHON_INTEGER = 56


class Norms(NamedTuple):
    """The largest norms of all columns: entries other than 0, their sum, the sum of their squares,
    the largest, all by absolute value."""

    l0: int
    l1: int
    l2_squared: int
    linf: int


class ColumnNorms(NamedTuple):
    """The same for each column."""

    l0: NDArray[Any]
    l1: NDArray[Any]
    l2_squared: NDArray[Any]
    linf: NDArray[Any]


@lru_cache(maxsize=64)
def largest_norms(operator: LinearOperator) -> Norms:
    """The largest norms of the columns of a checked operator."""
    return Norms(*(int(norms.max()) for norms in column_norms(operator)))


def column_norms(operator: LinearOperator) -> ColumnNorms:
    """The norms of every column, exactly."""
    match operator:
        case Identity(size) | Total(size):
            return _equal_norms(size, 1)
        case Prefix(size):
            rows_below = np.arange(size, 0, -1)
            return ColumnNorms(rows_below, rows_below, rows_below, np.ones(size, np.int64))
        case Ranges():
            covers = _count_covers(operator)
            return ColumnNorms(covers, covers, covers, (covers > 0).astype(np.int64))
        case Boxes():
            covers = _count_box_covers(operator)
            return ColumnNorms(covers, covers, covers, (covers > 0).astype(np.int64))
        case Tree(size):
            return _equal_norms(size, len(list_levels(operator)))
        case HaarWavelet(size):
            return _equal_norms(size, size.bit_length())
        case Dense(entries):
            return _dense_norms(entries)
        case ToeplitzHankel():
            return _toeplitz_hankel_norms(operator)
        case Kronecker(factors):
            norms = map(column_norms, factors)
            return reduce(
                lambda first, second: ColumnNorms(*map(_multiply_outer, first, second)), norms
            )
        case Stack(operators):
            return reduce(_add_norms, map(column_norms, operators))
        case Marginal():
            return column_norms(write_marginal(operator))


def _equal_norms(size: int, entries: int) -> ColumnNorms:
    """Norms of columns that all have so many entries of 1 or -1."""
    counts = np.full(size, entries)
    return ColumnNorms(counts, counts, counts, np.ones(size, np.int64))


def _count_covers(operator: Ranges) -> NDArray[Any]:
    """How many ranges hold each cell."""
    changes = np.zeros(operator.size + 1, np.int64)
    for first, last in operator.ranges:
        changes[first] += 1
        changes[last + 1] -= 1
    return changes.cumsum()[:-1]


def _count_box_covers(operator: Boxes) -> NDArray[Any]:
    """How many boxes hold each cell: +1 and -1 at the corners of every box, summed along all keys.

    Every sum on the way counts boxes, with their signs, so that it is at most their number.
    """
    changes = np.zeros([size + 1 for size in operator.sizes], np.int64)
    axes = len(operator.sizes)
    ends = np.array(operator.ends).reshape(-1, axes, 2) + np.array([0, 1])
    for corner in product((0, 1), repeat=axes):
        cells = tuple(ends[:, axis, end] for axis, end in enumerate(corner))
        np.add.at(changes, cells, (-1) ** sum(corner))
    for axis in range(axes):
        changes = changes.cumsum(axis=axis)
    return changes[tuple(slice(-1) for _ in operator.sizes)].ravel()


def _dense_norms(entries: tuple[tuple[int, ...], ...]) -> ColumnNorms:
    """Norms of the columns of an explicit matrix, in Python integers."""
    columns = [[abs(entry) for entry in column] for column in zip(*entries, strict=True)]
    return ColumnNorms(
        np.array([sum(entry > 0 for entry in column) for column in columns], object),
        np.array([sum(column) for column in columns], object),
        np.array([sum(entry * entry for entry in column) for column in columns], object),
        np.array([max(column) for column in columns], object),
    )


def list_unweighted_columns(operator: ToeplitzHankel) -> Iterator[NDArray[np.int64]]:
    """The columns of a Toeplitz-Hankel matrix, each without its weight."""
    toeplitz = np.array(operator.toeplitz)
    hankel = np.array(operator.hankel)
    size = operator.size
    for column in range(size):
        mirrored = np.concatenate([toeplitz[column:0:-1], toeplitz[: size - column]])
        yield mirrored + hankel[column : column + size]


def _toeplitz_hankel_norms(operator: ToeplitzHankel) -> ColumnNorms:
    """Norms of each column without its weight in int64, times the weight in Python integers."""
    weights = np.array([abs(weight) for weight in operator.weights], object)
    norms = [
        Norms(int((column != 0).sum()), *(int(norm) for norm in _measure_column(abs(column))))
        for column in list_unweighted_columns(operator)
    ]
    l0, l1, l2_squared, linf = (np.array(numbers, object) for numbers in zip(*norms, strict=True))
    return ColumnNorms((weights > 0) * l0, weights * l1, weights**2 * l2_squared, weights * linf)


def _measure_column(sizes: NDArray[np.int64]) -> tuple[Any, Any, Any]:
    """The sum, the sum of squares and the largest of absolute values."""
    return sizes.sum(), (sizes * sizes).sum(), sizes.max()


def _multiply_outer(first: NDArray[Any], second: NDArray[Any]) -> NDArray[Any]:
    """All products, the second one running fastest; Python integers where int64 could overflow."""
    if max(1, int(first.max())) * max(1, int(second.max())) >= _INT64:
        first = first.astype(object)
    elif first.dtype == object or second.dtype == object:
        first = first.astype(np.int64)
        second = second.astype(np.int64)
    products: NDArray[Any] = np.multiply.outer(first, second)
    return products.ravel()


def _add_norms(first: ColumnNorms, second: ColumnNorms) -> ColumnNorms:
    """Norms of the columns of two operators, one above the other."""
    return ColumnNorms(
        _add(first.l0, second.l0),
        _add(first.l1, second.l1),
        _add(first.l2_squared, second.l2_squared),
        np.maximum(first.linf, second.linf),
    )


def _add(first: NDArray[Any], second: NDArray[Any]) -> NDArray[Any]:
    if int(first.max()) + int(second.max()) >= _INT64:
        first = first.astype(object)
    sums: NDArray[Any] = first + second
    return sums


@lru_cache(maxsize=64)
def largest_factor(operator: LinearOperator) -> int:
    """No number that the product goes through exceeds this factor times the sum of all |cells|."""
    match operator:
        case Dense(entries):
            return max(1, *(abs(entry) for row in entries for entry in row))
        case ToeplitzHankel(toeplitz, hankel, weights):
            entry = max(map(abs, toeplitz)) + max(map(abs, hankel))
            return max(1, entry) * max(1, *map(abs, weights))
        case Kronecker(factors):
            return prod(map(largest_factor, factors))
        case Stack(operators):
            return max(map(largest_factor, operators))
    return 1


def memory_bytes(operator: LinearOperator, largest: int) -> int:
    """An upper bound on the memory that the product takes, beside its input.

    `largest` is the public bound of all |cells| together.
    """
    fits = largest * largest_factor(operator) < _INT64
    size = _BYTES_PER_NUMBER if fits else _BYTES_PER_NUMBER + _BYTES_PER_PYTHON_INTEGER
    listed = sum(len(row) for row in operator.entries) if isinstance(operator, Dense) else 0
    return _COPIES * size * (_largest_array(operator) + listed)


def _largest_array(operator: LinearOperator) -> int:
    """The size of the largest array that the product makes on its way."""
    match operator:
        case Kronecker(factors):
            rows = [count_rows(factor) for factor in factors]
            columns = [count_columns(factor) for factor in factors]
            return max(
                prod(rows[:stage]) * _largest_array(factor) * prod(columns[stage + 1 :])
                for stage, factor in enumerate(factors)
            )
        case Stack(operators):
            return count_rows(operator) + max(map(_largest_array, operators))
        case Marginal():
            return _largest_array(write_marginal(operator))
        case Boxes(sizes):
            return 2 * prod(size + 1 for size in sizes) + (count_rows(operator) << len(sizes))
    return count_rows(operator) + 2 * count_columns(operator)
