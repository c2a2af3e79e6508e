"""Gradient descent on noisy sums: every step one release, momentum, mean of the last half.

Settings follow by rule from public numbers: the budget, the declared number of people and the
longest row. Convexity is not needed for privacy, only for accuracy.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import ceil, inf, sqrt

import numpy as np

from dither.errors import ParameterError
from dither.learn.residuals import Loss
from dither.learn.sums import LARGEST_WEIGHT, Array, NoisySums, ReleasePlan

MOMENTUM = 0.9
FEWEST_STEPS = 100
GREATEST_STEPS = 400
_MOST_MOMENTS = 20
_WALK = 0.7
"""Noise alone moves a weight by about this much over all steps (standard deviation)."""


@dataclass(frozen=True)
class DescentPlan(ReleasePlan):
    """The settings of one run, all public: one release for each step, and `moments` more for the
    second moments of features, where errors of weights are asked for."""

    learning_rate: float
    clip: float
    people: int
    penalty: float = 0.0
    moments: int = 0

    @property
    def steps(self) -> int:
        """How many steps there are."""
        return self.releases - self.moments

    @property
    def divisor(self) -> float:
        """What a sum of gradients is divided by: public."""
        return self.people

    @property
    def noise(self) -> float:
        """The standard deviation of the noise on each number of a mean gradient (add_remove)."""
        return self.clip / sqrt(2 * self.release_rho) / self.divisor


def plan_descent(
    rho: Fraction,
    people: int,
    longest_row: float,
    *,
    steps: int | None = None,
    learning_rate: float | None = None,
    clip: float | None = None,
    penalty: float = 0.0,
    has_moments: bool = False,
    curvature: float = 0.25,
) -> DescentPlan:
    """Choose what is not stated.

    The clip norm is half the longest gradient, or all of it where errors of weights are asked for:
    clipping moves the weights, and no interval knows how far. The learning rate times the steps is
    as large as noise allows (its random walk has the standard deviation 0.7), with steps no longer
    than the curvature of the loss allows. Second moments, where they are asked for, are released as
    often as makes them a ninth of the steps, at most 20 times. `curvature` is that of the loss in
    the margin.
    """
    norm = (longest_row if has_moments else longest_row / 2) if clip is None else clip
    if not 0 < norm < inf:
        raise ParameterError("clip is a positive number: the largest gradient of one person")
    if not 0 <= penalty < inf or not (learning_rate is None or 0 < learning_rate < inf):
        raise ParameterError("penalty is not negative, and learning_rate is a positive number")
    steepest = 2 * (1 + MOMENTUM) / (longest_row**2 * curvature + penalty)
    path = _WALK * (1 - MOMENTUM) * sqrt(2 * rho) * people / norm
    count = steps
    if count is None:
        count = min(GREATEST_STEPS, max(FEWEST_STEPS, ceil(path / steepest)))
    if not 1 <= count <= 100_000:
        raise ParameterError("steps is a number from 1 to 100,000")
    rate = min(steepest, path / count) if learning_rate is None else learning_rate
    moments = min(_MOST_MOMENTS, ceil(count / 9)) if has_moments else 0
    return DescentPlan(rho, count + moments, float(rate), float(norm), people, penalty, moments)


def count_averaged(steps: int) -> int:
    """Over how many of the last steps weights are averaged."""
    return ceil(steps / 2)


def descend(sums: NoisySums, loss: Loss, outputs: int, plan: DescentPlan) -> Array:
    """The mean of the weights over the last half of the steps: a row for each output.

    The divisor is the declared number of people, never the number of rows.
    """
    theta = np.zeros((outputs, sums.width))
    velocity = np.zeros_like(theta)
    total = np.zeros_like(theta)
    averaged = count_averaged(plan.steps)
    for step in range(plan.steps):
        gradient = sums.release_gradient(loss, theta, plan.clip) / plan.divisor
        velocity = MOMENTUM * velocity + gradient + plan.penalty * theta
        theta = theta - plan.learning_rate * velocity
        np.clip(theta, -LARGEST_WEIGHT, LARGEST_WEIGHT, out=theta)
        if step >= plan.steps - averaged:
            total += theta
    return total / averaged
