"""Sums of clipped rows in exact integers: the vector of a row is the outer product of its factors
with its features.

Guarantee: every row adds a vector of integers of L2 norm at most `largest` steps, which depends on
that row alone. Factors are scaled by floats and truncated towards 0, so that their products with
features, which are integers, need no rounding. Then the squared norm is checked, from above; a row
that fails, or is no number, adds 0. Proof: docs/proofs/private-learning.md#clipping.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dither.learn.columns import FEATURE_SCALE
from dither.learn.encode import FeatureRows

Array = NDArray[Any]
_BELOW_ONE = 1 - 2.0**-30
"""More than floats lose in a norm."""
_BELOW_ONE_SQUARED = 1 - 2.0**-40
"""More than floats lose in the square of a norm, and less than `_BELOW_ONE` leaves: a row whose
length is the clip norm itself is not lost."""


def add_rows(rows: FeatureRows, factors: Array, per_step: float, largest: int) -> Array:
    """The sum over rows of clipped vectors: a row of integers for each row of `factors`.

    `per_step` turns a product of a factor and a feature into steps of the grid. Sums of sizes are
    below 2**53 for rows * largest below it, so that products of matrices are exact in every order.
    """
    whole = np.trunc(factors * find_scales(rows.norms, factors, per_step, largest))
    squares = np.zeros(rows.size)
    for factor in whole:
        squares += factor * factor
    squares *= rows.norms
    squares *= rows.norms
    is_short = squares <= largest * largest * _BELOW_ONE_SQUARED
    if not is_short.all():
        whole[:, ~is_short] = 0
    width = rows.facts.width
    total = np.zeros((len(factors), width))
    total[:, : len(rows.dense)] = whole @ rows.dense.T.astype(float, copy=False)
    for column in rows.codes:
        for position, factor in enumerate(whole):
            total[position] += FEATURE_SCALE * np.bincount(column, factor, width)
    return total.astype(np.int64)


def find_scales(norms: Array, factors: Array, per_step: float, largest: int) -> Array:
    """What every row is multiplied by, so that it is in steps and, but for floats, short enough."""
    squares = np.zeros(factors.shape[1])
    for factor in factors:
        squares += factor * factor
    lengths = np.sqrt(squares) * norms
    with np.errstate(divide="ignore", invalid="ignore"):
        scales: Array = np.minimum(per_step, largest * _BELOW_ONE / lengths)
    return scales


def add_cut_rows(rows: FeatureRows, factors: Array, per_step: float, largest: int) -> Array:
    """The sum over rows of factor times features in steps, every number cut off at `largest`.

    Each number is truncated towards 0 and cut off by itself, so that a row moves every number of
    the sum by at most `largest`. What is no number adds 0.
    """
    scaled = np.nan_to_num(factors * per_step, nan=0.0, posinf=0.0, neginf=0.0)
    total = np.zeros(rows.facts.width)
    products = np.clip(np.trunc(scaled * rows.dense), -largest, largest)
    total[: len(rows.dense)] = products.sum(axis=1)
    hot = np.clip(np.trunc(scaled * FEATURE_SCALE), -largest, largest)
    for column in rows.codes:
        total += np.bincount(column, hot, rows.facts.width)
    return total.astype(np.int64)
