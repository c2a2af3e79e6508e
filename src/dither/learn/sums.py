"""Noisy sums over people: all that training ever sees.

`NoisySums` is what solvers are written against. `ArraySums` makes it of arrays that the caller
holds; `dither.learn.table_sums` of a registered table, through the kernel.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import isqrt, sqrt
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dither.errors import ParameterError
from dither.learn.clip import add_cut_rows, add_rows
from dither.learn.columns import FEATURE_SCALE, ColumnFacts
from dither.learn.encode import FeatureRows
from dither.learn.residuals import (
    FACTOR_SCALE,
    THETA_SCALE,
    Loss,
    find_residuals,
    find_slopes,
)
from dither.learn.trees import count_rows, find_leaves
from dither.plan.norms import Sensitivity
from dither.plan.tree_functions import ScoredTree
from dither.privacy.losses import Adjacency, BoundedRange, Composed, compose
from dither.privacy.losses import Loss as PrivacyLoss
from dither.privacy.mechanisms.quantile_families import root_down
from dither.privacy.mechanisms.rounded_gaussian import IntegerRoundedGaussian, build_for_sample
from dither.privacy.mechanisms.score_selection import ScoreSelection
from dither.privacy.noise import SystemSource

Array = NDArray[Any]
STEPS = 1 << 16
"""The clip norm is so many steps of the grid on which vectors of a table are added up."""
_MOST_STEPS = 1 << 32
_MOST_SIGMA = 1 << 37
_BLOCK_NUMBERS = 1 << 17
_COUNT_STEPS = 1 << 8
"""So many steps are one row in a count."""
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

    def find_loss(self, adjacency: Adjacency, steps: int = STEPS) -> PrivacyLoss:
        """The privacy loss of one release from a table: vectors are at most `steps` long."""
        bound = bound_vectors(steps**2, steps**2, adjacency)
        return IntegerRoundedGaussian.for_rho(self.release_rho, bound, adjacency).loss()

    def find_noise(self, clip: float) -> float:
        """The standard deviation of the noise on each number of a sum (add_remove)."""
        return clip / sqrt(2 * self.release_rho)


@dataclass(frozen=True)
class ChoicePlan(ReleasePlan):
    """A budget and the choices that share it equally, by the exponential mechanism."""

    @property
    def epsilon(self) -> Fraction:
        """The bounded range of one choice: rho = epsilon^2 / 8."""
        return root_down(8 * self.release_rho)

    def find_loss(self, adjacency: Adjacency, steps: int = STEPS) -> PrivacyLoss:
        """The privacy loss of one choice."""
        return BoundedRange(self.epsilon, neighbours=adjacency.neighbours, unit=adjacency.unit)

    def find_noise(self, clip: float) -> float:
        """The scale of the choice: a coordinate that falls short of the best by so much is chosen
        e times more rarely."""
        return 2 * clip / float(self.epsilon)


def count_grid_steps(release_rho: Fraction, adjacency: Adjacency) -> int:
    """The clip norm in steps of the grid on which arrays are added up: a power of two, as large as
    noise can be drawn for, and exact for 2**31 rows.

    >>> from dither.privacy.losses import ADD_REMOVE
    >>> count_grid_steps(Fraction(1, 1000), ADD_REMOVE) == 2**32
    True
    """
    reach = 2 if adjacency.neighbours == "replace" else 1
    steps = _MOST_STEPS
    while steps > STEPS and (reach * steps) ** 2 > 2 * release_rho * _MOST_SIGMA**2:
        steps //= 2
    return steps


def bound_vectors(l2_squared: int, length: int, adjacency: Adjacency) -> Sensitivity:
    """How far one unit moves a sum of vectors of this squared norm; twice as far under replace."""
    squared = l2_squared * (4 if adjacency.neighbours == "replace" else 1)
    reach = isqrt(squared)
    return Sensitivity(l0=length, l1=length * reach, l2_squared=squared, linf=reach)


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

    @property
    def noise(self) -> float:
        """The standard deviation of the noise on a number, for a clip norm of 1."""

    def release_gradient(self, loss: Loss, theta: Array, clip: float) -> Array:
        """The sum of clipped gradients at the public weights `theta`, of the same shape."""

    def release_features(self, clip: float) -> Array:
        """The sum of clipped features."""

    def release_moments(self, *, has_label: bool = True) -> NoisyMoments:
        """The sum of all products of two of (features, label): a symmetric matrix. Without the
        label its products are 0 or noise."""

    def release_nearest(self, theta: Array, clip: float) -> Array:
        """The sum of clipped features of the rows that score highest in each row of `theta`."""

    def release_leaf_counts(self, splits: Array, classes: int) -> Array:
        """How many rows every leaf and class has."""

    def release_histograms(self, splits: Array, classes: int) -> Array:
        """The same in all, and with each bin or listed value: one number more a leaf and class."""

    def release_slopes(self, forest: Sequence[ScoredTree], splits: Array) -> Array:
        """Sums of slopes and of curvatures of the logistic loss in every leaf of a tree."""

    def choose_coordinate(self, theta: Array, largest: float) -> int:
        """A coordinate where the gradient of the squared loss is large: i + 1 where it is positive
        in feature i, else -(i + 1)."""


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
        self._rate: Fraction | None = getattr(plan, "rate", None)
        self._grid_steps = count_grid_steps(plan.release_rho, adjacency)
        self._losses: list[PrivacyLoss] = []
        self._scored: tuple[ScoredTree, ...] = ()
        self._scores = np.zeros(rows.size)

    @property
    def facts(self) -> ColumnFacts:
        """The declared facts of the columns."""
        return self._rows.facts

    @property
    def width(self) -> int:
        """How many features a row has."""
        return self._rows.facts.width

    @property
    def noise(self) -> float:
        """The standard deviation of the noise on a number, for a clip norm of 1."""
        reach = 2 if self._adjacency.neighbours == "replace" else 1
        return reach / sqrt(2 * self._plan.release_rho)

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
        noise = self._pay_gradient(theta.size)
        weights = quantise_weights(theta)
        per_step = self._grid_steps / (clip * FACTOR_SCALE * FEATURE_SCALE)
        total = np.zeros(theta.shape, np.int64)
        for rows, labels in self._list_blocks(1, self._rate):
            factors = find_residuals(loss, rows.multiply(weights), labels)
            total += add_rows(rows, factors, per_step, self._grid_steps)
        return self._add_noise(noise, total, clip)

    def release_features(self, clip: float) -> Array:
        """The sum of clipped features."""
        noise = self._pay(self._grid_steps, self.width)
        per_step = self._grid_steps / (clip * FEATURE_SCALE)
        total = np.zeros((1, self.width), np.int64)
        for rows, _ in self._list_blocks(1):
            total += add_rows(rows, np.ones((1, rows.size)), per_step, self._grid_steps)
        features: Array = self._add_noise(noise, total, clip)[0]
        return features

    def _add_noise(self, noise: IntegerRoundedGaussian, total: Array, clip: float) -> Array:
        """A sum on the grid with its noise, in the units of its clip norm."""
        noisy: Array = noise.release(total).astype(float) * (clip / self._grid_steps)
        return noisy

    def release_moments(self, *, has_label: bool = True) -> NoisyMoments:
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
            last = labels if has_label else np.zeros(rows.size)
            numbers = np.vstack([rows.expand().T * FEATURE_SCALE, last])
            numbers[:, ~np.isfinite(last)] = 0
            total += numbers @ numbers.T  # integers below 2**53: exact in whatever order
        upper = np.triu_indices(size)
        moments = np.zeros((size, size))
        moments[upper] = mechanism.release(total[upper].astype(np.int64)) / FEATURE_SCALE**2
        matrix = np.triu(moments) + np.triu(moments, 1).T
        return NoisyMoments(matrix, float(mechanism.sigma) / FEATURE_SCALE**2)

    def release_nearest(self, theta: Array, clip: float) -> Array:
        """The sum of clipped features of the rows that score highest in each row of `theta`."""
        noise = self._pay(self._grid_steps, theta.size)
        weights = quantise_weights(theta)
        per_step = self._grid_steps / (clip * FEATURE_SCALE)
        total = np.zeros(theta.shape, np.int64)
        for rows, _ in self._list_blocks(1):
            nearest = rows.multiply(weights).argmax(axis=0)
            factors = (np.arange(len(theta))[:, None] == nearest).astype(float)
            total += add_rows(rows, factors, per_step, self._grid_steps)
        return self._add_noise(noise, total, clip)

    def release_leaf_counts(self, splits: Array, classes: int) -> Array:
        """How many rows every leaf and class has: a row is in one of them."""
        noise = self._pay(_COUNT_STEPS, (len(splits) + 1) * classes)
        counts = count_rows(splits, self._rows, self._labels, classes)[:, :, 0]
        noisy: Array = noise.release(counts * _COUNT_STEPS) / _COUNT_STEPS
        return noisy

    def release_histograms(self, splits: Array, classes: int) -> Array:
        """The same in all, and with each bin or listed value: a row is counted once in all, and
        once for every column that has them."""
        squared = (1 + self.facts.hot_columns) * _COUNT_STEPS**2
        width = 1 + self.facts.width - self.facts.dense_width
        noise = self._pay_squared(squared, (len(splits) + 1) * classes * width)
        counts = count_rows(splits, self._rows, self._labels, classes)
        noisy: Array = noise.release(counts * _COUNT_STEPS) / _COUNT_STEPS
        return noisy

    def release_slopes(self, forest: Sequence[ScoredTree], splits: Array) -> Array:
        """Sums of slopes (at most 1) and of curvatures (at most 1/4) in every leaf of a tree."""
        leaves = len(splits) + 1
        noise = self._pay_squared(FACTOR_SCALE**2 + (FACTOR_SCALE // 4) ** 2, 2 * leaves)
        numbers = find_slopes(self._score_forest(forest), self._labels)
        positions = find_leaves(splits, self._rows)
        total = np.stack([np.bincount(positions, row, leaves) for row in numbers])
        slopes: Array = noise.release(total.astype(np.int64)) / FACTOR_SCALE
        return slopes

    def _score_forest(self, forest: Sequence[ScoredTree]) -> Array:
        """The score of every row; those of trees that were asked about before are kept."""
        if self._scored != tuple(forest[: len(self._scored)]):
            self._scored = ()
        if not self._scored:
            self._scores = np.zeros(self._rows.size)
        for tree in forest[len(self._scored) :]:
            leaves = find_leaves(np.array(tree.splits).reshape(-1, 2), self._rows)
            self._scores = self._scores + np.array(tree.scores, float)[leaves]
        self._scored = tuple(forest)
        return self._scores * FEATURE_SCALE

    def choose_coordinate(self, theta: Array, largest: float) -> int:
        """A coordinate where the gradient of the squared loss is large: i + 1 where it is positive
        in feature i, else -(i + 1)."""
        assert isinstance(self._plan, ChoicePlan)
        self._check_count()
        reach = STEPS * (2 if self._adjacency.neighbours == "replace" else 1)
        choice = ScoreSelection(self._plan.epsilon, reach, False, *self._adjacency)
        self._losses.append(choice.loss())
        weights = quantise_weights(theta)
        total = np.zeros(self.width, np.int64)
        for rows, labels in self._list_blocks(1):
            residuals = find_residuals("squared", rows.multiply(weights), labels)[0]
            per_step = STEPS / (largest * FACTOR_SCALE * FEATURE_SCALE)
            total += add_cut_rows(rows, residuals, per_step, STEPS)
        position = choice.release([*total.tolist(), *(-total).tolist()])
        return position + 1 if position < self.width else self.width - position - 1

    def _pay(self, largest: int, length: int) -> IntegerRoundedGaussian:
        """The noise of a release whose vectors are at most `largest` steps long, paid for."""
        return self._pay_squared(largest**2, length)

    def _pay_gradient(self, length: int) -> IntegerRoundedGaussian:
        """The noise of a gradient, over all rows or over a sample of them."""
        if self._rate is None:
            return self._pay(self._grid_steps, length)
        self._check_count()
        bound = bound_vectors(self._grid_steps**2, length, self._adjacency)
        noise = build_for_sample(self._plan.release_rho, bound, self._rate, self._adjacency.unit)
        self._losses.append(noise.loss())
        return noise

    def _pay_squared(self, squared: int, length: int) -> IntegerRoundedGaussian:
        """The same for the square of that length."""
        self._check_count()
        bound = bound_vectors(squared, length, self._adjacency)
        noise = IntegerRoundedGaussian.for_rho(self._plan.release_rho, bound, self._adjacency)
        self._losses.append(noise.loss())
        return noise

    def _check_count(self) -> None:
        if len(self._losses) >= self._plan.releases:
            raise ParameterError(f"all {self._plan.releases:,} planned releases were made")

    def _list_blocks(
        self, copies: int, rate: Fraction | None = None
    ) -> Iterator[tuple[FeatureRows, Array]]:
        """The rows in blocks of bounded memory, with their labels; or those of a new sample, in
        which each row is by a coin of its own."""
        numbers = copies * (len(self._rows.dense) + 4)
        block = max(1 << 10, _BLOCK_NUMBERS // numbers)
        for start in range(0, self._rows.size, block):
            rows = self._rows.slice(start, start + block)
            labels = self._labels[start : start + block]
            if rate is not None:
                coins = SystemSource().words(rows.size)
                chosen = np.flatnonzero(coins < np.uint64(int(rate * 2**64)))
                rows = rows.choose(chosen)
                labels = labels[chosen]
            yield rows.with_floats(), labels
