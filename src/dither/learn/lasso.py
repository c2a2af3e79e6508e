"""The Lasso by Frank-Wolfe steps: every step chooses one coordinate of the gradient, and moves the
weights towards the corner of the L1 ball there (Talwar, Thakurta and Zhang 2015, "Nearly optimal
private LASSO").

A choice by the exponential mechanism costs the same for 100 and for 4,000 features; noise grows
with the logarithm of their number. Steps are 2 / (t + 2): a constant step does not converge. Scales
belong to the sum of gradients, not to their mean.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import inf, log
from typing import Any

import numpy as np

from dither.canonical import Number
from dither.errors import ParameterError
from dither.learn.columns import ColumnFacts
from dither.learn.guarantees import read_budget
from dither.learn.regressors import PrivateRegressor
from dither.learn.sums import Array, ChoicePlan, NoisySums
from dither.learn.targets import restore_target
from dither.privacy.charges.conversions import rho_for

_MOST_STEPS = 1000


@dataclass(frozen=True)
class FrankWolfePlan(ChoicePlan):
    """The settings of one run: one choice for each step."""

    radius: float
    clip: float


class Lasso(PrivateRegressor):
    """Private least squares whose weights have an L1 norm of at most `radius`: few of them are not
    0, also where there are more columns than people.

    `radius` is in units of the scaled target and features, both in [-1, 1].
    """

    def __init__(
        self,
        epsilon: Number | None = None,
        *,
        delta: Number | None = None,
        n: int | None = None,
        bounds: Any = None,
        categories: Any = None,
        target_bounds: Any = None,
        bins: Any = None,
        neighbours: str = "add_remove",
        radius: float = 1.0,
        steps: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.n = n
        self.bounds = bounds
        self.categories = categories
        self.target_bounds = target_bounds
        self.bins = bins
        self.neighbours = neighbours
        self.radius = radius
        self.steps = steps

    def _fit_arrays(self, X: Any, y: Any) -> Any:
        """Choices compose by rho, not by the curve of Gaussian noise."""
        self._read_public()
        return self.fit_with_rho(X, y, rho_for(read_budget(self.epsilon), self._delta))

    def _plan_releases(self, rho: Fraction, people: int, facts: ColumnFacts) -> FrankWolfePlan:
        if not 0 < self.radius < inf or self.radius > 1000:
            raise ParameterError("radius is a positive number up to 1,000")
        if self.steps is not None and not 1 <= self.steps <= _MOST_STEPS:
            raise ParameterError(f"steps is a number from 1 to {_MOST_STEPS:,}")
        clip = 1.0 + self.radius
        steps = self.steps or choose_steps(rho, people, self.radius, facts.width)
        return FrankWolfePlan(rho, steps, self.radius, clip)

    def _learn(self, sums: NoisySums, plan: FrankWolfePlan) -> None:
        theta = np.zeros((1, sums.width))
        for step in range(plan.releases):
            chosen = sums.choose_coordinate(theta, plan.clip)
            theta = step_towards(theta, chosen, plan.radius, step)
        self.weights_ = theta
        self.n_iter_ = plan.releases

    @property
    def coef_(self) -> Array:
        """Weights of the features in units of the target, but the intercept."""
        low, high = self._bounds
        coefficients: Array = self.weights_[0, 1:] * ((high - low) / 2)
        return coefficients

    @property
    def intercept_(self) -> float:
        """The prediction where all features are 0."""
        low, high = self._bounds
        return float((self.weights_[0, 0] + 1) * (high - low) / 2 + low)

    def predict(self, X: Any) -> Array:
        """The expected target of every row."""
        scores = self._score_rows(X)
        return restore_target(self._bounds, np.clip(scores, -1, 1))


def step_towards(theta: Array, chosen: int, radius: float, step: int) -> Array:
    """Move towards the corner against the chosen coordinate by 2 / (step + 2): all of the way in
    step 0."""
    share = 2 / (step + 2)
    moved = (1 - share) * theta
    moved[0, abs(chosen) - 1] -= share * radius * np.sign(chosen)
    return moved


def choose_steps(rho: Fraction, people: int, radius: float, width: int) -> int:
    """The number of steps with the least sum of two terms of the excess loss.

    After T steps exact Frank-Wolfe is within 2 G / (T + 2), where the curvature G of the squared
    loss on the ball is 4 radius^2 a person at worst, and taken as a sixteenth of that: columns that
    are not all the same have little of it. A choice falls short by about its scale times log(2
    width), for a corner at the distance radius.
    """
    steps = np.arange(1, _MOST_STEPS + 1)
    short_of_best = 2 * (1 + radius) / np.sqrt(8 * float(rho) / steps) * log(2 * width)
    bounds = people * radius**2 / (2 * (steps + 2)) + radius * short_of_best
    return int(steps[np.argmin(bounds)])
