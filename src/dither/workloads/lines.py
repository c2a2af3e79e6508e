"""Queries along one column: their Gram matrices, their spectra, their answers and their variances.

With n values in order, `identity` asks for every value, `prefixes` for every first i, `ranges` for
every interval (first, last) in lexicographic order, `total` for the sum.

>>> answer_line("ranges", np.array([1.0, 2.0, 4.0])).tolist()
[1.0, 3.0, 7.0, 2.0, 6.0, 4.0]
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dither.workloads.language import LineKind

Floats = NDArray[np.float64]
Mixture = Mapping[LineKind, float]
"""The weight of each kind of query along one column."""
Noise = Literal["laplace", "gaussian"]
JointNoise = Literal["laplace", "gaussian", "discrete gaussian", "mixed"]
"""What an answer may hold: noise of a plan, or of earlier releases, which may be of several."""


def count_queries(kind: LineKind, size: int) -> int:
    """How many queries one kind has."""
    return {"total": 1, "ranges": size * (size + 1) // 2}.get(kind, size)


def make_gram(kind: LineKind, size: int) -> Floats:
    """W^T W of one kind: entry (i, j) counts the queries that hold both cells."""
    cells = np.arange(size)
    match kind:
        case "identity":
            return np.eye(size)
        case "total":
            return np.ones((size, size))
        case "prefixes":
            return np.asarray(size - np.maximum.outer(cells, cells), float)
    first = np.minimum.outer(cells, cells) + 1.0
    return np.asarray(first * (size - np.maximum.outer(cells, cells)))


def mix_grams(mixture: Mixture, size: int) -> Floats:
    """The Gram matrix of several kinds with weights."""
    gram = np.zeros((size, size))
    for kind, weight in mixture.items():
        gram += weight * make_gram(kind, size)
    return gram


def list_ranges(size: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """First and last cell of every range, in the order of the answers."""
    first, last = np.triu_indices(size)
    return first, last


def answer_line(kind: LineKind, cells: Floats) -> Floats:
    """The answers of all queries of a kind along the last axis."""
    match kind:
        case "identity":
            return cells
        case "total":
            return np.asarray(cells.sum(axis=-1, keepdims=True))
        case "prefixes":
            return np.asarray(cells.cumsum(axis=-1))
    sums = np.concatenate([np.zeros((*cells.shape[:-1], 1)), cells.cumsum(axis=-1)], axis=-1)
    first, last = list_ranges(cells.shape[-1])
    return np.asarray(sums[..., last + 1] - sums[..., first])


def find_variances(kind: LineKind, covariance: Floats) -> Floats:
    """q^T C q for every query q of a kind, with the covariance C of the estimated cells."""
    match kind:
        case "identity":
            return np.diagonal(covariance).copy()
        case "total":
            return np.array([covariance.sum()])
    sums = np.zeros((len(covariance) + 1, len(covariance) + 1))
    np.cumsum(np.cumsum(covariance, axis=0), axis=1, out=sums[1:, 1:])
    corners = np.diagonal(sums)
    if kind == "prefixes":
        return corners[1:].copy()
    first, last = list_ranges(len(covariance))
    return np.asarray(corners[last + 1] - 2 * sums[last + 1, first] + corners[first])
