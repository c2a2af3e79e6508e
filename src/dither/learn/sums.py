"""Noisy sums over people: all that training ever sees.

`NoisySums` is what solvers are written against. `ArraySums` makes it of arrays that the caller
holds; `dither.learn.table_sums` of a registered table, through the kernel.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dither.errors import ParameterError
from dither.learn.clip import add_rows
from dither.learn.columns import FEATURE_SCALE, ColumnFacts
from dither.learn.encode import FeatureRows
from dither.learn.residuals import FACTOR_SCALE, THETA_SCALE, Loss, find_residuals
from dither.plan.norms import Sensitivity
from dither.privacy.losses import Adjacency, Composed, compose
from dither.privacy.losses import Loss as PrivacyLoss
from dither.privacy.mechanisms.rounded_gaussian import IntegerRoundedGaussian

Array = NDArray[Any]
STEPS = 1 << 16
"""The clip norm is so many steps of the grid on which vectors are added up."""
_BLOCK_NUMBERS = 1 << 17
LARGEST_WEIGHT = 4096.0


@dataclass(frozen=True)
class ReleasePlan:
    """A budget and the releases that share it equally."""

    rho: Fraction
    releases: int

    @property
    def release_rho(self) -> Fraction:
        """What one release costs."""
        return self.rho / self.releases


@dataclass(frozen=True, eq=False)
class NoisyMoments:
    """A symmetric matrix of sums, and the standard deviation of the noise on each number."""

    matrix: Array
    noise: float


class NoisySums(Protocol):
    """Sums over people with Gaussian noise. All releases cost the same, and were paid first."""

    @property
    def width(self) -> int:
        """How many features a row has."""

    def release_gradient(self, loss: Loss, theta: Array, clip: float) -> Array:
        """The sum of clipped gradients at the public weights `theta`, of the same shape."""

    def release_features(self, clip: float) -> Array:
        """The sum of clipped features."""

    def release_moments(self) -> NoisyMoments:
        """The sum of all products of two of (features, label): a symmetric matrix."""


def quantise_weights(theta: Array) -> Array:
    """Weights in whole steps of 2**-16, cut off at 4,096."""
    steps: Array = np.rint(np.clip(theta, -LARGEST_WEIGHT, LARGEST_WEIGHT) * THETA_SCALE)
    return steps


class ArraySums:
    """Noisy sums over the rows of arrays: one row is one unit, and is never kept after `fit`.

    A release after the planned ones is refused before it reads.
    """

    def __init__(
        self, rows: FeatureRows, labels: Array, plan: ReleasePlan, adjacency: Adjacency
    ) -> None:
        self._rows = rows
        self._labels = labels
        self._plan = plan
        self._adjacency = adjacency
        self._losses: list[PrivacyLoss] = []

    @property
    def facts(self) -> ColumnFacts:
        """The declared facts of the columns."""
        return self._rows.facts

    @property
    def width(self) -> int:
        """How many features a row has."""
        return self._rows.facts.width

    @property
    def loss(self) -> Composed:
        """The privacy loss of all releases so far."""
        return compose(*(loss * count for loss, count in Counter(self._losses).items()))

    @property
    def count(self) -> int:
        """How many releases there were."""
        return len(self._losses)

    def release_gradient(self, loss: Loss, theta: Array, clip: float) -> Array:
        """The sum of clipped gradients at the public weights `theta`, of the same shape."""
        noise = self._pay(STEPS, theta.size)
        weights = quantise_weights(theta)
        per_step = STEPS / (clip * FACTOR_SCALE * FEATURE_SCALE)
        total = np.zeros(theta.shape, np.int64)
        for rows, labels in self._list_blocks(len(theta)):
            factors = find_residuals(loss, rows.multiply(weights), labels)
            total += add_rows(rows, factors, per_step, STEPS)
        gradient: Array = noise.release(total).astype(float) * (clip / STEPS)
        return gradient

    def release_features(self, clip: float) -> Array:
        """The sum of clipped features."""
        noise = self._pay(STEPS, self.width)
        per_step = STEPS / (clip * FEATURE_SCALE)
        total = np.zeros((1, self.width), np.int64)
        for rows, _ in self._list_blocks(1):
            total += add_rows(rows, np.ones((1, rows.size)), per_step, STEPS)
        features: Array = noise.release(total)[0].astype(float) * (clip / STEPS)
        return features

    def release_moments(self) -> NoisyMoments:
        """The sum of all products of two of (features, label): a symmetric matrix.

        Products of integers, added up exactly. The upper triangle of z z' is no longer than z'z,
        and no number of z is above 1.
        """
        size = self.width + 1
        facts = self._rows.facts
        largest = (facts.dense_width + facts.hot_columns + 1) * FEATURE_SCALE**2
        mechanism = self._pay(largest, size * (size + 1) // 2)
        total = np.zeros((size, size))
        for rows, labels in self._list_blocks(size):
            numbers = np.vstack([rows.expand().T * FEATURE_SCALE, labels])
            numbers[:, ~np.isfinite(labels)] = 0
            total += numbers @ numbers.T  # integers below 2**53: exact in whatever order
        upper = np.triu_indices(size)
        moments = np.zeros((size, size))
        moments[upper] = mechanism.release(total[upper].astype(np.int64)) / FEATURE_SCALE**2
        matrix = np.triu(moments) + np.triu(moments, 1).T
        return NoisyMoments(matrix, float(mechanism.sigma) / FEATURE_SCALE**2)

    def _pay(self, largest: int, length: int) -> IntegerRoundedGaussian:
        """The noise of a release whose vectors are at most `largest` steps long, paid for."""
        reach = largest * (2 if self._adjacency.neighbours == "replace" else 1)
        bound = Sensitivity(l0=length, l1=length * reach, l2_squared=reach**2, linf=reach)
        if len(self._losses) >= self._plan.releases:
            raise ParameterError(f"all {self._plan.releases:,} planned releases were made")
        noise = IntegerRoundedGaussian.for_rho(self._plan.release_rho, bound, self._adjacency)
        self._losses.append(noise.loss())
        return noise

    def _list_blocks(self, copies: int) -> Iterator[tuple[FeatureRows, Array]]:
        """The rows in blocks of bounded memory, with their labels."""
        numbers = copies * (len(self._rows.dense) + 4)
        block = max(1 << 10, _BLOCK_NUMBERS // numbers)
        for start in range(0, self._rows.size, block):
            rows = self._rows.slice(start, start + block)
            yield rows.with_floats(), self._labels[start : start + block]
