"""How far trained weights are from those of the same training on everybody: the noise of the
releases, which has a known law, and the spread of the people.

Training by descent is linear near its end, so its law needs no draws: in the directions of the
curvature every step is a number times the last, and the error of the mean of the last half is a sum
of independent normal numbers with public factors. The curvature is estimated from noisy second
moments that were paid for, as if scores were normal. Proof:
docs/proofs/private-learning.md#errors-of-weights.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from statistics import NormalDist

import numpy as np
from scipy.special import expit

from dither.errors import ParameterError
from dither.learn.descent import MOMENTUM, DescentPlan, count_averaged
from dither.learn.sums import Array, NoisyMoments

_NODES = 40


@dataclass(frozen=True, eq=False)
class WeightErrors:
    """The expected error of every weight, and its standard deviation."""

    bias: Array
    spread: Array


def make_intervals(centres: Array, spreads: Array, confidence: float) -> Array:
    """Normal intervals, a row each: refused where the confidence is none."""
    if not 0 < confidence < 1:
        raise ParameterError("confidence lies between 0 and 1, such as 0.95")
    reach = NormalDist().inv_cdf((1 + confidence) / 2) * spreads
    return np.stack([centres - reach, centres + reach], axis=1)


def estimate_curvature(moments: Array, theta: Array) -> Array:
    """The mean curvature of the logistic loss at `theta` from mean second moments of features,
    the constant 1 first, for normal scores (Stein's lemma)."""
    count = max(float(moments[0, 0]), 1e-6)
    mean = moments[0] / count
    spread = moments / count - np.outer(mean, mean)
    along = spread @ theta
    variance = max(float(theta @ along), 1e-12)
    centre = float(mean @ theta)
    nodes, shares = np.polynomial.hermite_e.hermegauss(_NODES)
    shares = shares / shares.sum()
    scores = centre + sqrt(variance) * nodes
    slopes = expit(scores) * expit(-scores) * shares
    curvature: Array = slopes.sum() * (spread - np.outer(along, along) / variance)
    for score, slope in zip(scores, slopes, strict=True):
        shifted = mean + along * ((score - centre) / variance)
        curvature = curvature + slope * np.outer(shifted, shifted)
    return count * curvature


def trace_steps(eigenvalues: Array, plan: DescentPlan) -> tuple[Array, Array]:
    """What the mean of the last half of the steps is in each direction of the curvature: a share of
    the distance from 0 to the minimum, and the root of the sum of squared factors of the noise of
    all steps.

    Noise of step s moves the weights of later steps by a response that depends on their distance
    alone; the mean of the last `averaged` steps adds these up.
    """
    averaged = count_averaged(plan.steps)
    response = np.zeros_like(eigenvalues)
    velocity = np.ones_like(eigenvalues)  # a unit of noise in the first gradient
    summed = [response]  # sums of responses over the first 0, 1, 2, ... steps after the noise
    for _ in range(plan.steps):
        response = response - plan.learning_rate * velocity
        summed.append(summed[-1] + response)
        velocity = MOMENTUM * velocity + (eigenvalues + plan.penalty) * response
    factors = []
    for step in range(plan.steps):
        left = plan.steps - step
        factors.append((summed[left] - summed[max(0, left - averaged)]) / averaged)
    gains = np.array(factors)
    reached = -eigenvalues * gains.sum(axis=0)
    return reached, np.sqrt((gains**2).sum(axis=0))


def find_weight_errors(
    theta: Array, moments: NoisyMoments, plan: DescentPlan, noise: float
) -> WeightErrors:
    """Errors of the weights of a logistic model by descent.

    `moments` are means over people with the noise of each number; `noise` is the standard deviation
    of each number of a mean gradient. Directions in which noise could have made the moments tell
    nothing of the minimum: there the noise of training alone is counted.
    """
    curvature = estimate_curvature(moments.matrix, theta)
    eigenvalues, vectors = np.linalg.eigh(curvature)
    floor = max(moments.noise * sqrt(len(theta)) / 2, 1e-9)
    is_seen = eigenvalues > floor
    reached, gains = trace_steps(np.maximum(eigenvalues, 0), plan)
    of_people = np.where(is_seen, reached**2 / np.maximum(eigenvalues, floor) / plan.people, 0)
    variances = of_people + (noise * gains) ** 2
    missed = np.where(is_seen, reached - 1, 0) * (vectors.T @ theta)
    bias: Array = vectors @ missed
    spread: Array = np.sqrt((vectors**2) @ variances)
    return WeightErrors(bias, spread)
