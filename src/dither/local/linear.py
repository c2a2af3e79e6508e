"""How one report moves a weighted sum of estimated counts: exact moments, for intervals of ranges.

Estimates here are sums over reports, so the variance of a weighted sum of counts is the sum over
users of the variance of one report's contribution, which depends on the value held. Estimates of
different values are *not* independent (one report speaks for several); the formulas take that into
account. docs/proofs/local-intervals.md, theorem 3.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dither.errors import ParameterError
from dither.local.direct import Direct
from dither.local.hadamard import Hadamard, transform
from dither.local.support import Oracle

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Contributions:
    """One report's contribution to some weighted sums (rows).

    `second_moments` has a column for every value that the reporting user may hold; `largest` is the
    largest absolute contribution of any report.
    """

    second_moments: Floats
    largest: Floats


def contribute_flat(oracle: Oracle, weights: Floats) -> Contributions:
    """Compute the contributions of an oracle's report to the sums of weights[i] * counts.

    Raises ParameterError for oracles whose variance of ranges is not known.

    >>> from dither.local.direct import Direct
    >>> coin = Direct(1, 2)
    >>> moments = contribute_flat(coin, np.array([[1.0, 0.0]])).second_moments
    >>> bool(np.isclose(moments[0, 1], float(coin.noise_variance)))
    True
    """
    if isinstance(oracle, Direct):
        return _contribute_direct(oracle, weights)
    if isinstance(oracle, Hadamard):
        return _contribute_hadamard(oracle, weights)
    raise ParameterError(
        f"no variance of ranges is known for {oracle.type}: use direct or hadamard"
    )


def _contribute_direct(oracle: Direct, weights: Floats) -> Contributions:
    """Compute the contributions of a direct report to each weighted sum, from p and q.

    A report of v adds (weights[v] - q * sum of weights) / (p - q).
    """
    p = float(oracle.p)
    q = float(oracle.q)
    moves = (weights - q * weights.sum(axis=1, keepdims=True)) / (p - q)
    squares = moves**2
    moments = q * squares.sum(axis=1, keepdims=True) + (p - q) * squares
    return Contributions(moments, np.abs(moves).max(axis=1))


def _contribute_hadamard(oracle: Hadamard, weights: Floats) -> Contributions:
    """Compute the contributions of a Hadamard report to each weighted sum.

    All outputs are summed by fast Hadamard transforms of the weights and of their squared
    images.
    """
    values = np.arange(oracle.domain)
    block = values % oracle.blocks
    row = 1 + values // oracle.blocks
    table = np.zeros((len(weights), oracle.blocks, oracle.order))
    table[:, block, row] = weights
    moves = float(oracle.step) * _transform_last(table)
    squares = moves**2
    everywhere = squares.sum(axis=(1, 2))
    in_block = squares.sum(axis=2)[:, block]
    agreeing = (in_block + _transform_last(squares)[:, block, row]) / 2  # over the columns C_v
    total = float(oracle.total)
    moments = (everywhere[:, None] + (float(oracle.odds) - 1) * agreeing) / total
    return Contributions(moments, np.abs(moves).max(axis=(1, 2)))


def _transform_last(table: Floats) -> Floats:
    transformed: Floats = transform(table.reshape(-1, table.shape[-1])).reshape(table.shape)
    return transformed
