"""Vectors clipped to a norm and truncated to a grid, with the exact norm checked afterwards.

Guarantee: every column that comes back is a vector of integers whose L2 norm is at most `largest`,
whatever went in, and depends on that column alone. Proof: docs/proofs/unit-vectors.md#clipping.

>>> clip_vectors(np.array([[3.0, 30], [4, 40]]), 1.0, 10).tolist()
[[3.0, 5.0], [4.0, 7.0]]
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

_BELOW_ONE = 1 - 2.0**-30
"""More than floats lose in a norm, so that no clipped vector is longer than allowed."""
_BELOW_ONE_SQUARED = 1 - 2.0**-40
"""More than floats lose in the square of a norm, and less than `_BELOW_ONE` leaves."""


def clip_vectors(vectors: NDArray[Any], per_step: float, largest: int) -> NDArray[Any]:
    """Columns in steps of the grid: `per_step` times the vector, shrunk to the norm `largest` where
    it is longer, truncated towards 0. `vectors` is overwritten.

    Shrinking is by floats, coordinate after coordinate, each elementwise. What it gives is then
    checked: squares of integers add up to a float that is exact below 2**53 and not below it above,
    so no order of adding takes a long vector for a short one. A column that fails, or is no number,
    becomes 0.
    """
    squares = np.zeros(vectors.shape[1])
    product = np.empty(vectors.shape[1])
    with np.errstate(all="ignore"):
        for row in vectors:
            np.multiply(row, row, out=product)
            squares += product
        norms = np.sqrt(squares)
        shrunk = largest * _BELOW_ONE / norms
        factors = np.where(norms * per_step <= largest, per_step, np.minimum(per_step, shrunk))
        vectors *= factors
        np.trunc(vectors, out=vectors)
        is_short = np.einsum("ij,ij->j", vectors, vectors) <= largest * largest
    if not is_short.all():
        vectors[:, ~is_short] = 0
    return vectors


def clip_factors(
    factors: NDArray[Any], squares: NDArray[Any], per_step: float, largest: int
) -> NDArray[Any]:
    """Factors of rows in whole steps, such that a row's vector, all products of its factors with
    its features, has an L2 norm of at most `largest`. `squares` are sums of squared features.

    Shrinking and truncating are elementwise. The squared norm that comes out is the product of two
    sums of squares of integers; what floats lose in it is less than 2**-40, which is kept below the
    bound. A row that fails, or is no number, becomes 0.
    """
    with np.errstate(all="ignore"):
        lengths = np.sqrt(_add_squares(factors)) * np.sqrt(squares)
        scales = np.minimum(per_step, largest * _BELOW_ONE / lengths)
        whole: NDArray[Any] = np.trunc(factors * scales)
        is_short = _add_squares(whole) * squares <= largest * largest * _BELOW_ONE_SQUARED
    if not is_short.all():
        whole[:, ~is_short] = 0
    return whole


def _add_squares(factors: NDArray[Any]) -> NDArray[Any]:
    """The sum of squares of every column, row after row."""
    total = np.zeros(factors.shape[1])
    for row in factors:
        total += row * row
    return total


def cut_numbers(vectors: NDArray[Any], per_step: float, largest: int) -> NDArray[Any]:
    """Columns in steps of the grid, truncated towards 0, every number cut off at `largest`.

    `vectors` is overwritten. What is no number becomes 0.
    """
    with np.errstate(all="ignore"):
        vectors *= per_step
        np.trunc(vectors, out=vectors)
    np.clip(vectors, -largest, largest, out=vectors)
    vectors[np.isnan(vectors)] = 0
    return vectors
