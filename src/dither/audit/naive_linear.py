"""What a public operator means, entry by entry: the oracle of its structured product and norms."""

from __future__ import annotations

from itertools import product
from math import prod

from dither.plan import operators as ops

Matrix = list[list[int]]


def write_matrix(operator: ops.LinearOperator) -> Matrix:
    """The operator as a full matrix of integers, by the words of its class.

    >>> write_matrix(ops.Tree(3, 2))
    [[1, 1, 1], [1, 1, 0], [0, 0, 1], [1, 0, 0], [0, 1, 0], [0, 0, 1]]
    """
    match operator:
        case ops.Identity(size):
            return [[int(row == cell) for cell in range(size)] for row in range(size)]
        case ops.Total(size):
            return [[1] * size]
        case ops.Prefix(size):
            return [[int(cell <= row) for cell in range(size)] for row in range(size)]
        case ops.Ranges(size, ranges):
            return [[int(first <= cell <= last) for cell in range(size)] for first, last in ranges]
        case ops.Tree(size, branching):
            return _write_tree(size, branching)
        case ops.HaarWavelet(size):
            return _write_haar(size)
        case ops.Dense(entries):
            return [list(row) for row in entries]
        case ops.ToeplitzHankel(toeplitz, hankel, weights):
            return [
                [
                    weight * (toeplitz[abs(row - cell)] + hankel[row + cell])
                    for cell, weight in enumerate(weights)
                ]
                for row in range(len(toeplitz))
            ]
        case ops.Kronecker(factors):
            matrices = [write_matrix(factor) for factor in factors]
            return [[prod(numbers) for numbers in product(*rows)] for rows in product(*matrices)]
        case ops.Stack(operators):
            return [row for inner in operators for row in write_matrix(inner)]
        case ops.Marginal(sizes, kept):
            return _write_marginal(sizes, kept)
        case ops.Boxes(sizes, ends):
            return _write_boxes(sizes, ends)


def _write_tree(size: int, branching: int) -> Matrix:
    width = 1
    rows: Matrix = []
    while True:
        starts = range(0, size, width)
        level = [[int(start <= cell < start + width) for cell in range(size)] for start in starts]
        rows = level + rows
        if width >= size:
            return rows
        width *= branching


def _write_haar(size: int) -> Matrix:
    rows = [[1] * size]
    width = size
    while width > 1:
        for start in range(0, size, width):
            half = start + width // 2
            rows.append(
                [
                    int(start <= cell < half) - int(half <= cell < start + width)
                    for cell in range(size)
                ]
            )
        width //= 2
    return rows


def _write_marginal(sizes: tuple[int, ...], kept: tuple[int, ...]) -> Matrix:
    cells = list(product(*map(range, sizes)))
    keys = product(*(range(sizes[position]) for position in kept))
    return [
        [int(tuple(cell[position] for position in kept) == key) for cell in cells] for key in keys
    ]


def _write_boxes(sizes: tuple[int, ...], ends: tuple[int, ...]) -> Matrix:
    width = 2 * len(sizes)
    boxes = [ends[start : start + width] for start in range(0, len(ends), width)]
    return [
        [
            int(all(box[2 * key] <= code <= box[2 * key + 1] for key, code in enumerate(cell)))
            for cell in product(*map(range, sizes))
        ]
        for box in boxes
    ]


def multiply(matrix: Matrix, cells: list[int]) -> list[int]:
    """The product, in Python integers."""
    return [sum(entry * cell for entry, cell in zip(row, cells, strict=True)) for row in matrix]
