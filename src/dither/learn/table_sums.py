"""Noisy sums over the people of a registered table: released by the kernel, under a lease that was
charged before the first of them. Nothing here holds a row."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, Protocol

import numpy as np

from dither.learn.residuals import Loss
from dither.learn.sums import STEPS, Array, NoisyMoments, ReleasePlan, quantise_weights
from dither.learn.table_columns import TableFeatures
from dither.plan.algebra import Plan, UnitVectors
from dither.plan.encodings import Scaled
from dither.plan.vector_functions import (
    FeatureSums,
    HuberGradient,
    LogisticGradient,
    MultinomialGradient,
    PoissonGradient,
    SecondMoments,
    SquaredGradient,
    VectorFunction,
)

_FINEST = 1 << 20


class FixedLease(Protocol):
    """What `con.fixed_lease` gives."""

    def release(self, query: UnitVectors) -> tuple[int, ...]:
        """The noisy integers of the next step."""


class TableSums:
    """Noisy sums of a table. `label` is the target; None where there is none."""

    def __init__(self, plan: Plan, features: TableFeatures, label: str | None) -> None:
        self._plan = plan
        self._features = features
        self._label = label
        self._lease: FixedLease | None = None
        self._noise = 0.0

    def open_lease(self, con: Any, plan: ReleasePlan, *, is_replace: bool) -> Any:
        """Charge the whole plan; to be used in a `with` block."""
        lease = con.fixed_lease(
            self._make_query(FeatureSums(), 1.0), rho=plan.release_rho, steps=plan.releases
        )
        self._lease = lease
        self._noise = (2 if is_replace else 1) / float(2 * plan.release_rho) ** 0.5
        return lease

    @property
    def width(self) -> int:
        """How many features a row has."""
        return self._features.facts.width

    def release_gradient(self, loss: Loss, theta: Array, clip: float) -> Array:
        """The sum of clipped gradients at the public weights `theta`, of the same shape."""
        steps = quantise_weights(theta)[:, list(self._features.positions)]
        function = self._make_gradient(loss, [tuple(map(int, row)) for row in steps])
        return self._place(self._release(function, clip), len(theta))

    def release_features(self, clip: float) -> Array:
        """The sum of clipped features."""
        features: Array = self._place(self._release(FeatureSums(), clip), 1)[0]
        return features

    def release_moments(self) -> NoisyMoments:
        """The sum of all products of two of (features, label): a symmetric matrix.

        Without a label the last scaled column takes its part, and the label's row is 0.
        """
        facts = self._features.facts
        clip = float(facts.dense_width + facts.hot_columns + (self._label is not None))
        positions = list(self._features.positions)
        if self._label is None:
            last = facts.dense_width - 1
            positions.remove(last)
            order = [*positions, last]
            values = self._release(SecondMoments(facts.numbers[-1].name), clip, drop_last=True)
        else:
            order = [*positions, facts.width]
            values = self._release(SecondMoments(self._label), clip)
        upper = np.zeros((len(order), len(order)))
        upper[np.triu_indices(len(order))] = values
        matrix = np.zeros((facts.width + 1, facts.width + 1))
        matrix[np.ix_(order, order)] = upper + np.triu(upper, 1).T
        return NoisyMoments(matrix, self._noise * clip)

    def _make_gradient(self, loss: Loss, theta: list[tuple[int, ...]]) -> VectorFunction:
        label = self._label
        assert label is not None
        if loss == "logistic":
            return LogisticGradient(label, 1, theta[0])
        if loss == "huber":
            return HuberGradient(label, 1, theta[0])
        if loss == "multinomial":
            return MultinomialGradient(label, tuple(theta))
        if loss == "squared":
            return SquaredGradient(label, theta[0])
        return PoissonGradient(label, theta[0])

    def _make_query(
        self, function: VectorFunction, clip: float, *, drop_last: bool = False
    ) -> UnitVectors:
        features = self._features.features
        if drop_last:
            last = Scaled(self._features.facts.numbers[-1].name)
            features = tuple(feature for feature in features if feature != last)
        exact = max(Fraction(1, _FINEST), Fraction(clip).limit_denominator(_FINEST))
        return UnitVectors(self._plan, features, function, exact, exact / STEPS)

    def _release(self, function: VectorFunction, clip: float, *, drop_last: bool = False) -> Array:
        assert self._lease is not None
        query = self._make_query(function, clip, drop_last=drop_last)
        values = self._lease.release(query)
        released: Array = np.array(values, float) * float(query.resolution)
        return released

    def _place(self, values: Array, outputs: int) -> Array:
        """Released numbers where `facts` has them; 0 for values that a column cannot miss."""
        placed = np.zeros((outputs, self.width))
        placed[:, list(self._features.positions)] = values.reshape(outputs, -1)
        return placed
