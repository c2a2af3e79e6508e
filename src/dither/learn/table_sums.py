"""Noisy sums over the people of a registered table: released by the kernel, under a lease that was
charged before the first of them. Nothing here holds a row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from math import sqrt
from typing import Any, Protocol

import numpy as np

from dither.catalog import Catalog
from dither.learn.descent import DescentPlan
from dither.learn.residuals import Loss
from dither.learn.sums import (
    STEPS,
    Array,
    NoisyMoments,
    ReleasePlan,
    count_grid_steps,
    quantise_weights,
)
from dither.learn.table_columns import TableFeatures
from dither.plan.algebra import Plan, Scores, UnitVectors
from dither.plan.analyse import analyse
from dither.plan.encodings import Scaled
from dither.plan.network_functions import MOST_WEIGHT, NetworkGradient, NetworkLayer
from dither.plan.stability.owned import Owned
from dither.plan.tree_functions import ScoredTree, TreeCounts, TreeGradient
from dither.plan.utilities import Coordinates
from dither.plan.vector_functions import (
    MOST_EXACT,
    THETA_SCALE,
    CoordinateGradient,
    FeatureSums,
    HuberGradient,
    LogisticGradient,
    MultinomialGradient,
    NearestSums,
    PoissonGradient,
    SecondMoments,
    SquaredGradient,
    VectorFunction,
)
from dither.plan.vectors import MOST_FINE_STEPS, MOST_STEPS
from dither.privacy.losses import Adjacency

_FINEST = 1 << 20
SLOPE_NORM = 1.0308
"""Above sqrt(17) / 4: no slope and curvature of one row are longer."""


def count_table_steps(catalog: Catalog, rows: Plan, plan: ReleasePlan) -> int:
    """The clip norm in steps of the grid on which the kernel adds up vectors.

    Where all releases are gradients and every unit has one row, steps are so fine that factors of
    rows are rounded: sums are then products of matrices. It is a function of catalog and price.
    """
    analysed = analyse(rows, catalog)
    if not isinstance(plan, DescentPlan) or plan.moments:
        return STEPS
    if not isinstance(analysed.node, Owned) or analysed.node.rows > 1:
        return STEPS
    adjacency = Adjacency(catalog.neighbours, catalog.unit.label)
    steps = min(MOST_FINE_STEPS, count_grid_steps(plan.release_rho, adjacency))
    while analysed.node.most * steps >= MOST_EXACT:
        steps //= 2
    return steps if steps > MOST_STEPS else STEPS


class FixedLease(Protocol):
    """What `con.fixed_lease` gives."""

    charged: Fraction
    release_id: str

    def close(self) -> None:
        """End the lease and store what left."""

    def release(self, query: UnitVectors | Scores) -> tuple[int, ...]:
        """The noisy integers of the next step."""


class HiddenLayer(Protocol):
    """A hidden layer of a network."""

    @property
    def activation(self) -> str: ...

    @property
    def is_normalised(self) -> bool: ...


def quantise_network(matrix: Array) -> Array:
    """Weights of a network in whole steps of 2**-16."""
    steps: Array = np.clip(np.rint(matrix * THETA_SCALE), -MOST_WEIGHT, MOST_WEIGHT)
    return steps


class TableSums:
    """Noisy sums of a table. `label` is the target; None where there is none.

    Use it in a `with` block. The lease is opened with the first query, so that a query which the
    kernel refuses costs nothing, and is closed at the end of the block.
    """

    def __init__(
        self,
        con: Any,
        rows: Plan,
        features: TableFeatures,
        label: str | None,
        plan: ReleasePlan,
    ) -> None:
        self._con = con
        self._rows = rows
        self._features = features
        self._label = label
        self._plan = plan
        self._lease: FixedLease | None = None
        self.grid_steps = count_table_steps(con.catalog, rows, plan)

    def __enter__(self) -> TableSums:
        return self

    def __exit__(self, *_: object) -> None:
        """Close the lease; nothing is paid back."""
        if self._lease is not None:
            self._lease.close()

    @property
    def charged(self) -> Fraction:
        """What the pot paid for all releases, in the measure of its rule."""
        return Fraction(0) if self._lease is None else self._lease.charged

    @property
    def release_id(self) -> str:
        """What all releases together are called in history."""
        return "" if self._lease is None else self._lease.release_id

    @property
    def noise(self) -> float:
        """The standard deviation of the noise on a number, for a clip norm of 1."""
        reach = 2 if self._con.catalog.neighbours == "replace" else 1
        return reach / sqrt(2 * self._plan.release_rho)

    @property
    def width(self) -> int:
        """How many features a row has."""
        return self._features.facts.width

    def release_gradient(self, loss: Loss, theta: Array, clip: float) -> Array:
        """The sum of clipped gradients at the public weights `theta`, of the same shape."""
        steps = quantise_weights(theta)[:, list(self._features.positions)]
        function = self._make_gradient(loss, [tuple(map(int, row)) for row in steps])
        query = replace(self._make_query(function, clip), rate=getattr(self._plan, "rate", None))
        return self._place(self._release_query(query), len(theta))

    def release_features(self, clip: float) -> Array:
        """The sum of clipped features."""
        features: Array = self._place(self._release(FeatureSums(), clip), 1)[0]
        return features

    def release_moments(self, *, has_label: bool = True) -> NoisyMoments:
        """The sum of all products of two of (features, label): a symmetric matrix.

        Without a label the last scaled column takes its part, and the label's row is 0.
        """
        facts = self._features.facts
        label = self._label if has_label else None
        clip = float(facts.dense_width + facts.hot_columns + (label is not None))
        positions = list(self._features.positions)
        if label is None:
            last = facts.dense_width - 1
            positions.remove(last)
            order = [*positions, last]
            values = self._release(SecondMoments(facts.numbers[-1].name), clip, drop_last=True)
        else:
            order = [*positions, facts.width]
            values = self._release(SecondMoments(label), clip)
        upper = np.zeros((len(order), len(order)))
        upper[np.triu_indices(len(order))] = values
        matrix = np.zeros((facts.width + 1, facts.width + 1))
        matrix[np.ix_(order, order)] = upper + np.triu(upper, 1).T
        return NoisyMoments(matrix, self.noise * clip)

    def release_nearest(self, theta: Array, clip: float) -> Array:
        """The sum of clipped features of the rows that score highest in each row of `theta`."""
        steps = quantise_weights(theta)[:, list(self._features.positions)]
        function = NearestSums(tuple(tuple(map(int, row)) for row in steps))
        return self._place(self._release(function, clip), len(theta))

    def release_leaf_counts(self, splits: Array, classes: int) -> Array:
        """How many rows every leaf and class has."""
        function = TreeCounts(self._find_label(), classes, self._map_splits(splits), True)
        return self._release_trees(function, 1.0).reshape(-1, classes)

    def release_histograms(self, splits: Array, classes: int) -> Array:
        """The same in all, and with each bin or listed value: one number more a leaf and class."""
        facts = self._features.facts
        function = TreeCounts(self._find_label(), classes, self._map_splits(splits), False)
        values = self._release_trees(function, sqrt(1 + facts.hot_columns) * (1 + 1e-5))
        columns = [max(0, position - facts.dense_width + 1) for position in self._tree_positions]
        counts = np.zeros((len(splits) + 1, classes, 1 + facts.width - facts.dense_width))
        counts[:, :, columns] = values.reshape(len(splits) + 1, classes, -1)
        return counts

    def release_slopes(self, forest: Sequence[ScoredTree], splits: Array) -> Array:
        """Sums of slopes and of curvatures of the logistic loss in every leaf of a tree."""
        trees = tuple(ScoredTree(self._map_splits(tree.splits), tree.scores) for tree in forest)
        function = TreeGradient(self._find_label(), 1, trees, self._map_splits(splits))
        return self._release_trees(function, SLOPE_NORM).reshape(2, -1)

    def release_network(
        self, hidden: Sequence[HiddenLayer], weights: Sequence[Array], clip: float
    ) -> list[Array]:
        """The sum of clipped gradients of a network at public weights, of their shapes."""
        positions = list(self._features.positions)
        quantised = [quantise_network(matrix) for matrix in weights]
        quantised[0] = quantised[0][:, positions]
        shapes = [(shape.activation, shape.is_normalised) for shape in hidden]
        layers = tuple(
            NetworkLayer(tuple(tuple(map(int, row)) for row in matrix), activation, is_normalised)
            for matrix, (activation, is_normalised) in zip(
                quantised, [*shapes, ("none", False)], strict=True
            )
        )
        values = self._release(NetworkGradient(self._find_label(), layers), clip)
        pieces = np.split(values, np.cumsum([matrix.size for matrix in quantised])[:-1])
        gradients = [
            piece.reshape(matrix.shape) for piece, matrix in zip(pieces, quantised, strict=True)
        ]
        first = np.zeros_like(weights[0])
        first[:, positions] = gradients[0]
        return [first, *gradients[1:]]

    def choose_coordinate(self, theta: Array, largest: float) -> int:
        """A coordinate where the gradient of the squared loss is large: i + 1 where it is positive
        in feature i, else -(i + 1)."""
        positions = self._features.positions
        steps = tuple(map(int, quantise_weights(theta)[0, list(positions)]))
        vectors = self._make_query(CoordinateGradient(self._find_label(), steps), largest)
        count = len(positions)
        candidates = (*range(1, count + 1), *range(-1, -count - 1, -1))
        (winner,) = self._ask(Scores(vectors, Coordinates(candidates)))
        chosen = candidates[winner]
        feature = int(positions[abs(chosen) - 1]) + 1
        return feature if chosen > 0 else -feature

    @property
    def _tree_positions(self) -> list[int]:
        """Where the features of trees stand in `facts`: the constant, bins and listed values."""
        first = self._features.facts.dense_width
        return [0, *(position for position in self._features.positions if position >= first)]

    def _map_splits(self, splits: Any) -> tuple[tuple[int, int], ...]:
        """Ranges of features of `facts` as ranges of those that the kernel has."""
        ends = np.searchsorted(self._tree_positions, np.array(splits).reshape(-1, 2))
        return tuple((int(first), int(stop)) for first, stop in ends)

    def _release_trees(self, function: VectorFunction, clip: float) -> Array:
        """A release without scaled numbers, which no tree splits."""
        features = tuple(f for f in self._features.features if not isinstance(f, Scaled))
        query = self._make_query(function, clip)
        return self._release_query(replace(query, features=features))

    def _find_label(self) -> str:
        assert self._label is not None
        return self._label

    def _make_gradient(self, loss: Loss, theta: list[tuple[int, ...]]) -> VectorFunction:
        label = self._find_label()
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
        return UnitVectors(self._rows, features, function, exact, exact / self.grid_steps)

    def _release(self, function: VectorFunction, clip: float, *, drop_last: bool = False) -> Array:
        return self._release_query(self._make_query(function, clip, drop_last=drop_last))

    def _release_query(self, query: UnitVectors) -> Array:
        released: Array = np.array(self._ask(query), float) * float(query.resolution)
        return released

    def _ask(self, query: UnitVectors | Scores) -> tuple[int, ...]:
        """The next release; the first opens the lease."""
        if self._lease is None:
            self._lease = self._con.fixed_lease(
                query, rho=self._plan.release_rho, steps=self._plan.releases
            )
        return self._lease.release(query)

    def _place(self, values: Array, outputs: int) -> Array:
        """Released numbers where `facts` has them; 0 for values that a column cannot miss."""
        placed = np.zeros((outputs, self.width))
        placed[:, list(self._features.positions)] = values.reshape(outputs, -1)
        return placed
