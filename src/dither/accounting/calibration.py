"""Calibration: solve a workload of equal steps for the one parameter that is left open.

A noise is rounded up, a rate or a count down; the loss that comes back keeps the budget by the
upper end of its bracket.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, get_args

from dither.accounting.bounds import Bounds
from dither.accounting.curves import epsilon as curve_epsilon
from dither.accounting.planning import MOST_STEPS, find_largest_count, find_smallest_below
from dither.canonical import Number, exact, positive, quote
from dither.errors import ParameterError
from dither.given_numbers import as_float, whole_number
from dither.privacy import losses as ls
from dither.privacy.numbers import refuse_beyond_floats

Noise = Literal["gaussian", "laplace", "discrete_laplace", "discrete_gaussian"]


@dataclass(frozen=True)
class CalibrationPlan:
    """A workload of equal steps with every parameter known; `solved` names the one that was asked
    for.

    `sigma` is the noise's own scale: the deviation of Gaussian noise, the scale of Laplace noise.
    """

    solved: str
    sigma: Fraction
    q: Fraction
    steps: int
    delta: Fraction
    epsilon: Bounds
    loss: ls.Loss


@refuse_beyond_floats
def calibrate(
    *,
    delta: Number,
    sigma: Number | None = None,
    epsilon: Number | None = None,
    steps: int | None = 1,
    q: Number | None = 1,
    sensitivity: Number = 1,
    noise: Noise = "gaussian",
    neighbours: ls.Neighbours = "add_remove",
    unit: str = "unit",
) -> CalibrationPlan:
    """Solve for the one of sigma, epsilon, steps (or number of queries) and q that is None.

    `noise` is the mechanism of a step; `sigma` its deviation or scale. `sensitivity` is the clip
    norm when q < 1 under 'replace' (see GaussianSum), and an integer for integer noise.

    >>> round(float(calibrate(epsilon=1, delta=1e-6).sigma), 6)
    4.224679
    >>> calibrate(sigma=1.1, q=0.01, steps=None, epsilon=5, delta=1e-5).steps
    9355
    >>> float(calibrate(epsilon=1, delta=0, noise="discrete_laplace", steps=10).sigma)
    10.0
    """
    missing = [
        name
        for name, value in (("sigma", sigma), ("epsilon", epsilon), ("steps", steps), ("q", q))
        if value is None
    ]
    if len(missing) != 1:
        raise ParameterError(
            f"leave exactly one of sigma, epsilon, steps and q as None, got {missing or 'none'}"
        )
    if noise not in get_args(Noise):
        raise ParameterError(f"noise is one of {', '.join(get_args(Noise))}, got {quote(noise)}")
    parameters = {
        "delta": delta,
        "sigma": sigma,
        "epsilon": epsilon,
        "q": q,
        "sensitivity": sensitivity,
    }
    for name, value in parameters.items():
        if value is not None:
            as_float(
                value, name
            )  # beyond floats the search below would only run into its bound, slowly
    norm = positive(sensitivity, "sensitivity")
    target = exact(delta, "delta")
    goal = None if epsilon is None else positive(epsilon, "epsilon")

    def build(scale: Fraction, rate: Fraction, count: int) -> ls.Loss:
        step_loss = _build_step(noise, scale, norm, rate, neighbours, unit)
        step_loss = step_loss if rate == 1 else ls.PoissonSampled(rate, step_loss)
        return step_loss if count == 1 else step_loss * count

    def measure_epsilon(loss: ls.Loss) -> float:
        return curve_epsilon(loss, target).upper

    def fits_budget(loss: ls.Loss) -> bool:
        assert goal is not None
        return measure_epsilon(loss) <= goal

    scale = Fraction(1) if sigma is None else positive(sigma, "sigma")
    rate = Fraction(1) if q is None else positive(q, "q")
    count = 1 if steps is None else whole_number(steps, "steps", MOST_STEPS, "round it yourself")
    if sigma is None:
        assert goal is not None
        scale = find_smallest_below(goal, lambda x: measure_epsilon(build(x, rate, count)), norm)
        if target == 0 and goal is not None and "laplace" in noise and rate == 1:
            scale = count * norm / goal  # the sum of pure epsilons is exact
    elif steps is None:
        count = find_largest_count(
            lambda k: fits_budget(build(scale, rate, k)),
            _clt_steps(scale / norm, rate, goal, target),
        )
    elif q is None:
        assert goal is not None
        rate = _find_rate(goal, lambda x: measure_epsilon(build(scale, x, count)))
    loss = build(scale, rate, count)
    return CalibrationPlan(
        missing[0], scale, rate, count, target, curve_epsilon(loss, target), loss
    )


def _build_step(
    noise: Noise,
    scale: Fraction,
    norm: Fraction,
    rate: Fraction,
    neighbours: ls.Neighbours,
    unit: str,
) -> ls.Loss:
    """Build the loss of one step: this noise at this scale, for a vector of this norm.

    Raises ParameterError for integer noise with a norm that is no integer.
    """
    if noise == "gaussian" and rate < 1 and neighbours == "replace":
        return ls.GaussianSum(scale, norm, neighbours=neighbours, unit=unit)
    if noise == "gaussian":
        return ls.Gaussian(scale, norm, neighbours=neighbours, unit=unit)
    if noise == "laplace":
        return ls.Laplace(scale, norm, neighbours=neighbours, unit=unit)
    if norm.denominator != 1:
        raise ParameterError(f"integer noise has an integer sensitivity, got {norm}")
    kind = ls.DiscreteLaplace if noise == "discrete_laplace" else ls.DiscreteGaussian
    return kind(scale, int(norm), neighbours=neighbours, unit=unit)


def _find_rate(goal: Fraction, measure: Callable[[Fraction], float]) -> Fraction:
    if measure(Fraction(1)) <= goal:
        return Fraction(1)
    return 1 / find_smallest_below(goal, lambda x: measure(1 / x), Fraction(2), least=Fraction(1))


def _clt_steps(noise: Fraction, rate: Fraction, goal: Fraction | None, target: Fraction) -> int:
    """Guess the number of steps at which to start looking.

    It is that of the Gaussian limit of sampled Gaussians, which is no bound.
    """
    assert goal is not None
    if target == 0:
        return 1
    step_mu_squared = (
        float(rate) ** 2 * math.expm1(min(1 / float(noise) ** 2, 600.0))
        if rate < 1
        else 1 / float(noise) ** 2
    )
    mu = float(goal) / math.sqrt(2 * max(1.0, -math.log(float(target)) + float(goal)))
    return max(1, min(MOST_STEPS, int(mu * mu / step_mu_squared)))
