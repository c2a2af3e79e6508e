"""Newton steps on noisy sums: the second moments once, for the curvature, then a gradient a step.

The curvature of the logistic loss is at most X'X / 4 (Boehning 1988), wherever the weights are. So
one noisy matrix serves all steps, and no step overshoots but for noise.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import ceil, sqrt

import numpy as np

from dither.errors import ParameterError
from dither.learn.columns import ColumnFacts
from dither.learn.sums import LARGEST_WEIGHT, Array, NoisyMoments, NoisySums, ReleasePlan

_STEPS = 15


@dataclass(frozen=True)
class NewtonPlan(ReleasePlan):
    """The settings of one run: the moments, and one release for each step."""

    clip: float
    people: int
    penalty: float = 0.0

    @property
    def steps(self) -> int:
        """How many steps there are."""
        return self.releases - 1


def plan_newton(
    rho: Fraction,
    people: int,
    facts: ColumnFacts,
    *,
    steps: int | None,
    clip: float | None,
    penalty: float,
) -> NewtonPlan:
    """Choose what is not stated: 15 steps, half the longest gradient."""
    facts.check_moments("solver='newton'")
    count = _STEPS if steps is None else steps
    norm = facts.largest_norm / 2 if clip is None else clip
    if not 1 <= count <= 1000 or not 0 < norm < np.inf or not 0 <= penalty < np.inf:
        raise ParameterError("steps, clip and penalty are positive numbers, steps at most 1,000")
    return NewtonPlan(rho, count + 1, float(norm), people, penalty)


def invert_curvature(moments: NoisyMoments, penalty: float) -> Array:
    """The inverse of X'X / 4 + penalty, with the eigenvalues that noise can hide lifted above it.

    Noise of standard deviation s on a symmetric matrix of width p has eigenvalues up to 2 s
    sqrt(p).
    """
    squares = moments.matrix[:-1, :-1] / 4
    eigenvalues, vectors = np.linalg.eigh(squares)
    floor = max(moments.noise * sqrt(len(squares)) / 2, 1.0)
    lifted = np.maximum(eigenvalues, floor) + penalty
    inverse: Array = (vectors / lifted) @ vectors.T
    return inverse


def step_by_newton(sums: NoisySums, plan: NewtonPlan) -> Array:
    """The mean of the weights over the last half of the steps."""
    penalty = plan.penalty * plan.people
    inverse = invert_curvature(sums.release_moments(has_label=False), penalty)
    theta = np.zeros((1, sums.width))
    total = np.zeros_like(theta)
    averaged = ceil(plan.steps / 2)
    for step in range(plan.steps):
        gradient = sums.release_gradient("logistic", theta, plan.clip) + penalty * theta
        theta = np.clip(theta - gradient @ inverse, -LARGEST_WEIGHT, LARGEST_WEIGHT)
        if step >= plan.steps - averaged:
            total += theta
    return total / averaged
