"""One noisy minimum: objective and output perturbation, for arrays that the caller holds.

Both minimise J(theta) = sum of losses + (penalty / 2) |theta|^2 (+ <b, theta>), and *verify* the
minimum: the norm of the gradient that was computed, and what floats may have lost in it, is at most
`SLACK`. By strong convexity the weights are then within SLACK / penalty of the true minimum.
Rounded Gaussian noise for the rest covers that, and what is rounded. A minimum that is not verified
is refused; nothing is drawn anew.

Proof: docs/proofs/private-learning.md#one-noisy-minimum.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import ceil, erfc, expm1, isqrt, log, log1p, sqrt
from typing import Any

import numpy as np
from scipy.special import expit

from dither.errors import ParameterError
from dither.learn.guarantees import find_rho
from dither.learn.sums import Array, bound_vectors
from dither.privacy.losses import Adjacency, Approx, Loss
from dither.privacy.mechanisms.gaussian import sqrt_up
from dither.privacy.mechanisms.rounded_gaussian import IntegerRoundedGaussian
from dither.privacy.noise.rounded import rounded_gaussian

GRID = 1 << 20
"""Weights are released in steps of 2**-20."""
NOISE_GRID = 1 << 16
"""b is drawn in steps of 2**-16."""
SLACK = 1e-3
"""The norm of the gradient at a verified minimum is at most this, in sums over people."""
MOST_EPSILON = 100
"""Above it the accountant takes minutes: of the loss nothing but (epsilon, delta) is known."""
REFUSED_MINIMUM = (
    "a minimum that cannot be verified is refused, which depends on the rows and is no part of the "
    "guarantee: whoever is told of a refused fit must hold the data"
)
_MOST_STEPS = 200
_MOST_POLISHING = 100_000
_ROWS_AT_ONCE = 1 << 15


@dataclass(frozen=True)
class NoisyMinimum:
    """Weights that were released, and their loss."""

    weights: Array
    losses: tuple[Loss, ...]


def find_jacobian_cost(longest_row: float, penalty: float) -> float:
    """ln(1 + curvature / penalty): one row has a curvature of rank 1 and at most R^2 / 4.

    >>> round(find_jacobian_cost(1.0, 0.38537), 4)
    0.5
    """
    return log1p(longest_row**2 / 4 / penalty)


def find_tail(noise: float, longest_row: float, epsilon: float) -> float:
    """The chance that the loss of b is above epsilon: 2 P(Z > (epsilon - m^2 / 2) / m), where m is
    the longest row over the noise."""
    ratio = longest_row / noise
    return erfc((epsilon - ratio**2 / 2) / ratio / sqrt(2))


def choose_noise(longest_row: float, epsilon: float, delta: float) -> float:
    """The least noise on b, to a millionth, whose loss is above epsilon with a chance of delta."""
    low = longest_row / 100
    high = longest_row
    while find_tail(high, longest_row, epsilon) > delta * (1 - 1e-9):
        high *= 2
    while high > low * (1 + 1e-6):
        middle = sqrt(low * high)
        is_private = find_tail(middle, longest_row, epsilon) <= delta * (1 - 1e-9)
        low, high = (low, middle) if is_private else (middle, high)
    return high


def bound_float_error(
    rows: int, longest_row: float, penalty: float, tilt: Array, theta: Array
) -> float:
    """The most that long floats lose in the gradient, four times over.

    A float sum of n products is off by at most n u times the sum of their sizes (Higham 2002). A
    margin is off by (p + 2) u R |theta|, which moves its slope by no more, and a slope by a few u.
    """
    u = float(np.finfo(np.longdouble).eps)
    width = len(theta)
    length = float(np.linalg.norm(theta))
    slopes = rows * longest_row * (rows + 64 + (width + 2) * longest_row * length)
    return 4 * u * (slopes + penalty * length + float(np.linalg.norm(tilt)))


def check_convergence(people: int, width: int, longest_row: float, penalty: float) -> None:
    """Refuse, before a value is read, a minimum that the steps with momentum might not reach.

    For ten times the declared people: J has curvature at most L = 10 n R^2 + penalty. Without a
    tilt J at the minimum is at most J at 0, which is 10 n ln 2, so that |theta*|^2 is at most
    20 n ln 2 / penalty; a tilt may double its length. After t steps the gap of J is at most
    (1 - sqrt(penalty / L))^t L |theta*|^2, and the gradient at most sqrt(2 L gap).
    """
    if not penalty > 0:
        raise ParameterError("solver='output' needs a penalty above 0: its noise is R / penalty")
    rows = 10 * people
    curvature = rows * longest_row**2 + penalty
    length = 2 * sqrt(2 * rows * log(2) / penalty)
    steps = sqrt(curvature / penalty) * 2 * log(2 * curvature * length / (SLACK / 4))
    error = bound_float_error(
        rows, longest_row, penalty, np.zeros(1), np.full(width, length / sqrt(width))
    )
    if steps > _MOST_POLISHING or error > SLACK / 2:
        raise ParameterError(
            "a penalty this small, or so many people, leave a minimum that cannot be verified: "
            "raise penalty, or use solver='descent'"
        )


def minimise(features: Array, signs: Array, penalty: float, tilt: Array, loss: str) -> Array:
    """Newton steps, shortened while the objective grows. What comes back is not verified."""
    theta = np.zeros(features.shape[1])
    value = _measure(features, signs, penalty, tilt, loss, theta)
    for _ in range(_MOST_STEPS):
        gradient, weights = _differentiate(features, signs, penalty, tilt, loss, theta)
        if np.linalg.norm(gradient) < SLACK / 100:
            break
        curvature = features.T @ (features * weights[:, None]) + penalty * np.eye(len(theta))
        direction = np.linalg.solve(curvature, gradient)
        length = 1.0
        while length > 1e-10:
            moved = theta - length * direction
            reached = _measure(features, signs, penalty, tilt, loss, moved)
            if reached <= value:
                break
            length /= 2
        theta = moved
        value = reached
    return _polish(features, signs, penalty, tilt, loss, theta)


def _polish(
    features: Array, signs: Array, penalty: float, tilt: Array, loss: str, theta: Array
) -> Array:
    """Steps along the gradient with Nesterov's momentum, where Newton steps went round a kink.

    The objective is `penalty`-strongly convex and smooth, so that they converge from anywhere.
    """
    smoothness = float((features**2).sum()) + penalty
    momentum = (sqrt(smoothness) - sqrt(penalty)) / (sqrt(smoothness) + sqrt(penalty))
    ahead = theta
    for _ in range(_MOST_POLISHING):
        gradient, _ = _differentiate(features, signs, penalty, tilt, loss, theta)
        if np.linalg.norm(gradient) < SLACK / 4:
            break
        slope, _ = _differentiate(features, signs, penalty, tilt, loss, ahead)
        moved = ahead - slope / smoothness
        ahead = moved + momentum * (moved - theta)
        theta = moved
    return theta


def _measure(
    features: Array, signs: Array, penalty: float, tilt: Array, loss: str, theta: Array
) -> float:
    margins = signs * (features @ theta)
    if loss == "logistic":
        losses = np.logaddexp(0, -margins)
    else:
        gaps = np.clip(1.5 - margins, 0, 1)
        losses = gaps**2 / 2 + np.maximum(0.5 - margins, 0)
    return float(losses.sum() + penalty / 2 * theta @ theta + tilt @ theta)


def _differentiate(
    features: Array, signs: Array, penalty: float, tilt: Array, loss: str, theta: Array
) -> tuple[Array, Array]:
    """The gradient, and the curvature of every row beside its features."""
    margins = signs * (features @ theta)
    if loss == "logistic":
        slopes = -signs * expit(-margins)
        weights = expit(margins) * expit(-margins)
    else:
        slopes = -signs * np.clip(1.5 - margins, 0, 1)
        weights = ((margins > 0.5) & (margins < 1.5)).astype(float)
    gradient: Array = features.T @ slopes + penalty * theta + tilt
    return gradient, weights


def verify_minimum(
    features: Array, signs: Array, penalty: float, tilt: Array, loss: str, theta: Array
) -> None:
    """Refuse weights whose gradient, computed anew in long floats, is not surely below `SLACK`."""
    exact_theta = theta.astype(np.longdouble)
    gradient = penalty * exact_theta + tilt
    for start in range(0, len(features), _ROWS_AT_ONCE):
        block = slice(start, start + _ROWS_AT_ONCE)
        rows = features[block].astype(np.longdouble)
        none = np.zeros_like(exact_theta)
        gradient = gradient + _differentiate(rows, signs[block], 0.0, none, loss, exact_theta)[0]
    longest = float(np.sqrt((features**2).sum(axis=1).max(initial=0.0))) * (1 + 1e-9)
    error = bound_float_error(len(features), longest, penalty, tilt, theta)
    if not float(np.linalg.norm(gradient.astype(float))) * (1 + 1e-9) + error <= SLACK:
        raise ParameterError("the minimum could not be verified: use solver='descent'")


def release_weights(
    theta: Array, reach: float, rho: Fraction, adjacency: Adjacency
) -> tuple[Array, Loss]:
    """Weights with rounded Gaussian noise, where one row moves them by at most `reach` in L2.

    Rounding to the grid moves each number by half a step more on either side.
    """
    steps = ceil(reach * GRID * (1 + 1e-9)) + isqrt(len(theta)) + 1
    bound = bound_vectors(steps**2, len(theta), adjacency)
    noise = IntegerRoundedGaussian.for_rho(rho, bound, adjacency)
    released = noise.release(np.rint(theta * GRID).astype(np.int64))
    return released.astype(float) / GRID, noise.loss()


def perturb_output(
    features: Array,
    signs: Array,
    longest_row: float,
    penalty: float,
    loss: str,
    rho: Fraction,
    adjacency: Adjacency,
) -> NoisyMinimum:
    """The minimum with noise: a row moves it by at most R / penalty (Chaudhuri et al. 2011)."""
    tilt = np.zeros(features.shape[1])
    theta = minimise(features, signs, penalty, tilt, loss)
    verify_minimum(features, signs, penalty, tilt, loss, theta)
    weights, paid = release_weights(theta, (longest_row + 2 * SLACK) / penalty, rho, adjacency)
    return NoisyMinimum(weights, (paid,))


def find_strength(penalty: float, longest_row: float, epsilon: Fraction) -> float:
    """The penalty of a tilted objective: the stated one, or the least whose curvature costs a fifth
    of nine tenths of epsilon."""
    shared = float(epsilon * Fraction(9, 10)) * (1 - 1e-9)
    return max(penalty, longest_row**2 / 4 / expm1(min(shared / 5, 50.0)))


def perturb_objective(
    features: Array,
    signs: Array,
    longest_row: float,
    penalty: float,
    epsilon: Fraction,
    delta: Fraction,
    adjacency: Adjacency,
) -> NoisyMinimum:
    """The minimum of a tilted objective (Kifer, Smith and Thakurta 2012), and a little noise for
    what is not exact about it.

    A tenth of epsilon and delta pays for that, a fifth of the rest for the curvature, unless a
    larger penalty was stated.
    """
    tilted_epsilon = epsilon * Fraction(9, 10)
    shared = float(tilted_epsilon) * (1 - 1e-9)
    strength = find_strength(penalty, longest_row, epsilon)
    epsilon_of_noise = shared - find_jacobian_cost(longest_row, strength)
    share = delta * Fraction(9, 10)
    sigma = choose_noise(longest_row, epsilon_of_noise, float(share))
    steps = sqrt_up(Fraction(sigma) ** 2) * NOISE_GRID
    width = features.shape[1]
    tilt = np.asarray(rounded_gaussian(steps, (width,)), float) / NOISE_GRID
    theta = minimise(features, signs, strength, tilt, "logistic")
    verify_minimum(features, signs, strength, tilt, "logistic", theta)
    off = SLACK + sqrt(width) / 2 / NOISE_GRID
    rho = find_rho(epsilon / 10, delta / 10)
    weights, paid = release_weights(theta, 2 * off / strength, rho, adjacency)
    tilted = Approx(tilted_epsilon, share, neighbours=adjacency.neighbours, unit=adjacency.unit)
    return NoisyMinimum(weights, (tilted, paid))


def read_signs(labels: Array) -> tuple[Any, Array]:
    """Which rows have a label of two classes, and 1 or -1 for each of those."""
    is_labelled = (labels == 0) | (labels == 1)
    return is_labelled, np.where(labels[is_labelled] == 1, 1.0, -1.0)
