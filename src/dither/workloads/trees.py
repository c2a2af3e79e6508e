"""Level-weighted trees: sums of blocks of b^h cells, each level with its own weight.

For n = b^L the strategy's Gram matrix is diagonal in the subspaces of functions that are constant
on blocks of one level and sum to 0 in those above, so that the error of any weights is a sum of L
terms, and the best weights are found without a matrix. Proof: docs/proofs/workloads.md#trees.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize

from dither.plan.operators import Dense, Identity, Kronecker, LinearOperator, Ranges, Stack
from dither.workloads.lines import Floats, Mixture, Noise

BRANCHINGS = (2, 3, 4, 5, 6, 8, 10, 12, 16, 24, 32, 64)
_WEIGHT = 1 << 10
_LEAST_LOGARITHM = -40.0


def list_block_sizes(size: int, branching: int) -> list[int]:
    """Block sizes from single cells up to one block of all cells."""
    sizes = [1]
    while sizes[-1] < size:
        sizes.append(sizes[-1] * branching)
    return sizes


class LevelWeights(NamedTuple):
    """Weights of the levels from single cells up, and the error that they have at the next power
    of the branching."""

    weights: Floats
    error: float


def weigh_levels(mixture: Mixture, size: int, branching: int, noise: Noise) -> LevelWeights:
    """The weights of the levels that err least, the largest 1; from single cells up.

    They are found for the next power of the branching, and are a good choice for fewer cells.
    """
    sizes = list_block_sizes(size, branching)
    traces = _split_trace(mixture, sizes[-1], sizes)

    def find_error(logarithms: Floats) -> float:
        # scaling changes nothing; a long step of the search must not overflow
        weights = np.exp(np.maximum(logarithms - logarithms.max(), _LEAST_LOGARITHM))
        eigenvalues = np.cumsum(weights**2 * np.array(sizes))
        norm = weights.sum() ** 2 if noise == "laplace" else (weights**2).sum()
        return math.log(norm) + math.log((traces / eigenvalues).sum())

    best = minimize(find_error, np.zeros(len(sizes)), method="BFGS")
    return LevelWeights(np.exp(best.x - best.x.max()), math.exp(best.fun))


def _split_trace(mixture: Mixture, size: int, sizes: list[int]) -> Floats:
    """tr(G P_h) for the projection on each level's own subspace, single cells first."""
    averaged = np.array([_trace_of_averages(mixture, size, block) for block in sizes])
    return np.append(averaged[:-1] - averaged[1:], averaged[-1])


def _trace_of_averages(mixture: Mixture, size: int, block: int) -> float:
    """tr(G E) where E takes averages over blocks: the sum of G over all blocks, by block size.

    Every query of a kind holds c_k cells of block k; the sum is that of c_k^2.
    """
    starts = np.arange(0, size, block).astype(float)
    blocks = len(starts)
    squares = block * (block + 1) * (2 * block + 1) / 6
    sums: dict[str, Callable[[], float]] = {
        "identity": lambda: float(size),
        "total": lambda: float(blocks * block**2),
        # inside a block a prefix holds 1 to b cells; all later ones hold it whole
        "prefixes": lambda: float(blocks * squares + (block**2 * (size - starts - block)).sum()),
        "ranges": lambda: _sum_ranges(size, block, starts),
    }
    return sum(float(weight) * sums[kind]() for kind, weight in mixture.items()) / block


def _sum_ranges(size: int, block: int, starts: Floats) -> float:
    """The sum of squared overlaps of all ranges with all blocks."""
    before = starts
    after = size - starts - block
    inside = np.arange(1, block + 1)
    squares = float((inside**2).sum())
    within = float(((block - inside + 1) * inside**2).sum())
    return float((block**2 * before * after + squares * (before + after) + within).sum())


def make_tree_operator(size: int, branching: int, weights: Floats) -> LinearOperator:
    """All levels, each times its weight rounded to an integer; levels of weight 0 are left out."""
    levels: list[LinearOperator] = []
    for block, weight in zip(list_block_sizes(size, branching), weights, strict=True):
        whole = round(float(weight) * _WEIGHT)
        if whole or block == 1:
            levels.append(_scale(max(1, whole), _make_level(size, block)))
    return levels[0] if len(levels) == 1 else Stack(tuple(levels))


def _make_level(size: int, block: int) -> LinearOperator:
    if block == 1:
        return Identity(size)
    starts = range(0, size, block)
    return Ranges(size, tuple((start, min(start + block, size) - 1) for start in starts))


def _scale(weight: int, operator: LinearOperator) -> LinearOperator:
    """An operator times an integer."""
    return operator if weight == 1 else Kronecker((Dense(((weight,),)), operator))
