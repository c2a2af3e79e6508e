"""k-means by Lloyd's steps on noisy sums: every step releases, for each centre, the number of rows
that are nearest to it and the sum of their columns.

Centres start far apart in the declared bounds, drawn without data (Su et al. 2016, "Differentially
private k-means clustering").
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from sklearn.base import ClusterMixin

from dither.canonical import Number
from dither.errors import ParameterError
from dither.learn.base import PrivateEstimator
from dither.learn.columns import ColumnFacts
from dither.learn.rehearsal import draw_uniforms
from dither.learn.sums import Array, NoisySums, ReleasePlan

_MOST_CENTRES = 256
_CANDIDATES = 64
_FEWEST_STEPS = 3
_GREATEST_STEPS = 10
_SMALL_NOISE = 0.05
"""Steps are added while noise on a centre of average size stays below this."""
_SHIFT = 0.3
"""How far beside another a centre without rows goes, at most, in every column."""


@dataclass(frozen=True)
class LloydPlan(ReleasePlan):
    """The settings of one run: one release for each step."""

    clip: float


class KMeans(ClusterMixin, PrivateEstimator):
    """Private k-means of columns that are scaled to [-1, 1] by their bounds.

    There is no `labels_`: which centre is nearest to a row is a function of that row, and `predict`
    says it for rows that the caller holds. `n_iter_` steps by rule, unless `steps` is stated.
    """

    def __init__(
        self,
        epsilon: Number | None = None,
        *,
        delta: Number | None = None,
        n: int | None = None,
        bounds: Any = None,
        n_clusters: int = 8,
        neighbours: str = "add_remove",
        steps: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.n = n
        self.bounds = bounds
        self.n_clusters = n_clusters
        self.neighbours = neighbours
        self.steps = steps

    categories = None
    bins = None

    def fit(self, X: Any, y: Any = None) -> Any:
        """Fit an array that the caller holds; one row is one person. `y` is not read."""
        return self._fit_arrays(X, None)

    def fit_predict(self, X: Any, y: Any = None, **_: Any) -> Array:
        """The number of the nearest centre of every row, after a fit of these rows."""
        return self.fit(X).predict(X)  # type: ignore[no-any-return]

    def _plan_releases(self, rho: Fraction, people: int, facts: ColumnFacts) -> LloydPlan:
        if facts.hot_columns:
            raise ParameterError("KMeans is for numbers: name them in columns")
        if not isinstance(self.n_clusters, int) or not 1 <= self.n_clusters <= _MOST_CENTRES:
            raise ParameterError(f"n_clusters is a number from 1 to {_MOST_CENTRES}")
        if self.steps is not None and not 1 <= self.steps <= 1000:
            raise ParameterError("steps is a number from 1 to 1,000")
        clip = facts.largest_norm
        steps = self.steps or choose_steps(rho, clip * self.n_clusters / people)
        return LloydPlan(rho, steps, clip)

    def _learn(self, sums: NoisySums, plan: LloydPlan) -> None:
        centres = spread_centres(self.n_clusters, sums.width - 1)
        smallest = 2 * plan.find_noise(plan.clip)
        for _ in range(plan.releases):
            released = sums.release_nearest(score_centres(centres), plan.clip)
            centres = move_centres(centres, released, smallest)
        self.weights_ = score_centres(centres)
        low = np.array([column.low for column in self.columns_.numbers])
        high = np.array([column.high for column in self.columns_.numbers])
        self.cluster_centers_ = low + (centres + 1) * ((high - low) / 2)
        self.n_iter_ = plan.releases

    def predict(self, X: Any) -> Array:
        """The number of the nearest centre of every row."""
        nearest: Array = self._encode(X).multiply(self.weights_).argmax(axis=0)
        return nearest


def choose_steps(rho: Fraction, share: float) -> int:
    """The largest number of steps whose noise on a centre is small. `share` is the clip norm beside
    the people of a centre of average size."""
    steps = int(2 * rho * Fraction(_SMALL_NOISE / share) ** 2)
    return min(_GREATEST_STEPS, max(_FEWEST_STEPS, steps))


def spread_centres(count: int, width: int) -> Array:
    """Public centres in [-1, 1]: one after the other the candidate that is farthest from those
    before it."""
    centres = np.zeros((count, width))
    for position in range(count):
        candidates = 2 * draw_uniforms((_CANDIDATES, width)) - 1
        gaps = candidates[:, None, :] - centres[None, :position, :]
        distances = (gaps**2).sum(axis=2)
        nearest = distances.min(axis=1) if position else (candidates**2).sum(axis=1) * -1
        centres[position] = candidates[int(np.argmax(nearest))]
    return centres


def score_centres(centres: Array) -> Array:
    """Weights whose score is the highest for the nearest centre: c, and -|c|^2 / 2."""
    offsets = -(centres**2).sum(axis=1, keepdims=True) / 2
    weights: Array = np.hstack([offsets, centres])
    return weights


def move_centres(centres: Array, released: Array, smallest: float) -> Array:
    """Centres at the mean of their rows. One with a number of rows that noise can hide goes to the
    largest of the others, a little beside it, to share its rows in the next step."""
    counts = released[:, 0]
    means = released[:, 1:] / np.maximum(counts, max(smallest, 1e-9))[:, None]
    moved = np.where((counts > smallest)[:, None], np.clip(means, -1, 1), centres)
    heaviest = int(np.argmax(counts))
    for position in np.flatnonzero(counts <= smallest):
        if counts[heaviest] > smallest:
            shift = _SHIFT * (2 * draw_uniforms(centres.shape[1]) - 1)
            moved[position] = np.clip(moved[heaviest] + shift, -1, 1)
    return moved
