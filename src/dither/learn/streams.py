"""Logistic regression of a stream: people come in steps, each in one of them, and every model on
the way is released (DP-FTRL, Kairouz et al. 2021).

The weights after a step follow from the sum of all gradients so far. Such sums are released by tree
aggregation: noise on dyadic blocks of steps, each drawn once, of which the sum up to step t has as
many as t has binary digits that are 1. Nothing is assumed of the order in which people come, and
nobody is sampled. Proof: docs/proofs/private-learning.md#streams.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from fractions import Fraction
from math import inf, sqrt
from typing import Any

import numpy as np

from dither.canonical import Number
from dither.errors import ParameterError
from dither.learn.clip import add_rows
from dither.learn.columns import FEATURE_SCALE, ColumnFacts
from dither.learn.encode import FeatureRows, encode_rows
from dither.learn.guarantees import find_rho, make_library_guarantee
from dither.learn.linear_classifiers import LogisticProbabilities, PrivateClassifier
from dither.learn.residuals import FACTOR_SCALE, find_residuals
from dither.learn.sums import (
    LARGEST_WEIGHT,
    Array,
    NoisySums,
    ReleasePlan,
    bound_vectors,
    count_grid_steps,
    quantise_weights,
)
from dither.learn.table_columns import TableRows
from dither.privacy.losses import Adjacency, Loss, compose
from dither.privacy.mechanisms.rounded_gaussian import IntegerRoundedGaussian
from dither.privacy.noise import uniform_below

MOST_STEPS = 1 << 16
_WALK = 0.7
"""Noise alone moves a weight by about this much at the end (standard deviation)."""
_BLOCK_ROWS = 1 << 12


@dataclass(frozen=True)
class StreamPlan:
    """The settings of a stream, all public. One person moves a block in each of `levels`."""

    rho: Fraction
    steps: int
    clip: float
    learning_rate: float
    people: int

    @property
    def levels(self) -> int:
        """How many released blocks hold one step, at most: not the logarithm rounded up, which is
        one too few for every power of two."""
        return self.steps.bit_length()

    @property
    def noise(self) -> float:
        """The standard deviation of the noise of a block, in gradients (add_remove)."""
        return self.clip * sqrt(self.levels / (2 * self.rho))


def plan_stream(
    rho: Fraction,
    people: int,
    longest_row: float,
    steps: int,
    clip: float | None,
    learning_rate: float | None,
) -> StreamPlan:
    """Choose what is not stated: the clip norm is half the longest gradient; the learning rate as
    large as noise and the curvature of one step's people allow."""
    norm = longest_row / 2 if clip is None else clip
    plan = StreamPlan(rho, steps, float(norm), 1.0, people)
    steepest = 4 * steps / (people * longest_row**2)
    walk = _WALK / (plan.noise * sqrt(plan.levels))
    rate = min(steepest, walk) if learning_rate is None else learning_rate
    return StreamPlan(rho, steps, float(norm), float(rate), people)


def check_stream(steps: int | None, clip: float | None, learning_rate: float | None) -> None:
    """Refuse settings without a meaning, before anything is read."""
    for name, value in (("clip", clip), ("learning_rate", learning_rate)):
        if value is not None and not 0 < value < inf:
            raise ParameterError(f"{name} is a positive number, or None for the rule")
    if steps is None or not 1 <= steps <= MOST_STEPS:
        raise ParameterError(f"steps is the number of calls of partial_fit, up to {MOST_STEPS:,}")


class GradientTree:
    """Sums of all steps so far, of vectors that are at most `grid_steps` long for each person.

    It keeps the one open block of each level, exact, and adds its noise once when it closes: a copy
    would draw noise twice for one price, so it is neither copied nor stored, nor used in two
    processes.
    """

    def __init__(self, plan: StreamPlan, shape: tuple[int, ...], adjacency: Adjacency) -> None:
        self.grid_steps = count_grid_steps(plan.rho / plan.levels, adjacency)
        squared = plan.levels * self.grid_steps**2
        bound = bound_vectors(squared, plan.levels * int(np.prod(shape)), adjacency)
        self._noise = IntegerRoundedGaussian.for_rho(plan.rho, bound, adjacency)
        self._plan = plan
        self._process = os.getpid()
        self.step = 0
        self._open = [np.zeros(shape, np.int64) for _ in range(plan.levels)]
        self._closed = [np.zeros(shape, np.int64) for _ in range(plan.levels)]

    @property
    def loss(self) -> Loss:
        """The privacy loss of all sums together."""
        return self._noise.loss()

    def add(self, vectors: Array) -> Array:
        """Add the sum of one step, and give the noisy sum of all so far, in steps of the grid."""
        if self.step >= self._plan.steps:
            raise ParameterError(f"all {self._plan.steps:,} planned steps were made")
        if os.getpid() != self._process:
            raise ParameterError("a stream goes on in the process where it began: fit it anew")
        self.step += 1
        for level in range(self._plan.levels):
            self._open[level] += vectors
            if self.step % (1 << level) == 0:
                if self.step >> level & 1:  # an even block is in no sum: the block above it is
                    self._closed[level] = self._noise.release(self._open[level])
                self._open[level] = np.zeros_like(self._open[level])
        closed = [self._closed[k] for k in range(self._plan.levels) if self.step >> k & 1]
        total: Array = np.sum(closed, axis=0)
        return total


class StreamClassifier(LogisticProbabilities, PrivateClassifier):
    """Private logistic regression of a stream, binary or multinomial.

    `partial_fit(X, y)` is one step with the people of one day, say; there are at most `steps`, and
    nobody is in two of them. `epsilon` covers all models on the way. `fit(X, y)` gives every row a
    step by a coin of its own. For arrays: a library guarantee.
    """

    def __init__(
        self,
        epsilon: Number | None = None,
        *,
        delta: Number | None = None,
        n: int | None = None,
        bounds: Any = None,
        categories: Any = None,
        classes: Any = None,
        bins: Any = "auto",
        neighbours: str = "add_remove",
        clip: float | None = None,
        steps: int = 64,
        learning_rate: float | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.n = n
        self.bounds = bounds
        self.categories = categories
        self.classes = classes
        self.bins = bins
        self.neighbours = neighbours
        self.clip = clip
        self.steps = steps
        self.learning_rate = learning_rate

    def __getstate__(self) -> dict[str, Any]:
        """A copy predicts, and does not go on: its noise would be drawn twice for one price."""
        state: dict[str, Any] = super().__getstate__()
        return {name: value for name, value in state.items() if name != "_tree"}

    def fit(self, X: Any, y: Any) -> Any:
        """Fit arrays that the caller holds, every row in one of the steps. See `guarantee_`."""
        checked, values = self._begin(X, y)
        steps = np.asarray(uniform_below(self.steps, len(values)))
        rows = encode_rows(self.columns_, list(checked.T))
        labels = self._encode_target(values, rows.size)
        for step in range(self.steps):
            chosen = np.flatnonzero(steps == step)
            self._step(rows.choose(chosen), labels[chosen])
        return self

    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> Any:
        """One step of the stream: people who were in no step before.

        `classes` is scikit-learn's, and declares nothing: the constructor does.
        """
        if not hasattr(self, "_tree"):
            if hasattr(self, "weights_"):
                raise ParameterError("a copy of a stream does not go on: fit it anew")
            checked, values = self._begin(X, y)
        else:
            checked, values = self._validate(X, y, reset=False)
        rows = encode_rows(self.columns_, list(checked.T))
        self._step(rows, self._encode_target(values, rows.size))
        return self

    def _begin(self, X: Any, y: Any) -> tuple[Any, Any]:
        """Check all that is public, and start a tree: its price covers all steps."""
        self._read_public()
        check_stream(self.steps, self.clip, self.learning_rate)
        self._check_bounds()
        self._read_target()
        checked, values = self._validate(X, y, reset=True)
        self.columns_ = self._declare()
        rho = find_rho(self._budget, self._delta)
        width = self.columns_.width
        self.plan_ = plan_stream(
            rho,
            self._people,
            self.columns_.largest_norm,
            self.steps,
            self.clip,
            self.learning_rate,
        )
        outputs = 1 if len(self.classes_) == 2 else len(self.classes_)
        self._tree = GradientTree(self.plan_, (outputs, width), Adjacency(self.neighbours, "row"))
        self._theta = np.zeros((outputs, width))
        self.weights_ = np.zeros((outputs, width))
        self.n_iter_ = 0
        public = {"n": self._people, "features": width, "steps": self.steps}
        self.guarantee_ = make_library_guarantee(
            compose(self._tree.loss), self.steps, self._delta, public
        )
        return checked, values

    def _step(self, rows: FeatureRows, labels: Array) -> None:
        """Add the clipped gradients of some rows, and move the weights: against all so far.

        The model is a mean of the weights after all steps so far, later ones counted more.
        """
        steps = self._tree.grid_steps
        weights = quantise_weights(self._theta)
        per_step = steps / (self.plan_.clip * FACTOR_SCALE * FEATURE_SCALE)
        loss: Any = "logistic" if len(self.classes_) == 2 else "multinomial"
        total = np.zeros(self._theta.shape, np.int64)
        for start in range(0, rows.size, _BLOCK_ROWS):
            block = rows.slice(start, start + _BLOCK_ROWS).with_floats()
            factors = find_residuals(
                loss, block.multiply(weights), labels[start : start + _BLOCK_ROWS]
            )
            total += add_rows(block, factors, per_step, steps)
        noisy = self._tree.add(total).astype(float) * (self.plan_.clip / steps)
        self._theta = np.clip(-self.plan_.learning_rate * noisy, -LARGEST_WEIGHT, LARGEST_WEIGHT)
        self.n_iter_ = self._tree.step
        share = min(1.0, 2 / (self.n_iter_ + 1))
        self.weights_ = (1 - share) * self.weights_ + share * self._theta

    def _read_table_target(self, rows: TableRows, target: str | None) -> None:
        raise ParameterError(
            "a stream is of arrays that the caller holds: use LogisticRegression on a table"
        )

    def _plan_releases(self, rho: Fraction, people: int, facts: ColumnFacts) -> ReleasePlan:
        raise ParameterError("a stream is paid by epsilon and delta, not in parts: call fit")

    def _learn(self, sums: NoisySums, plan: ReleasePlan) -> None:
        raise ParameterError("a stream learns by partial_fit")
