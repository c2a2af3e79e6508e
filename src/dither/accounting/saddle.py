"""The saddle of the integrand of a contour, found roughly: it chooses the contour and proves
nothing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dither.accounting.sampled import OutOfReach, SampledGaussianFactor, SampledGroup, grouped
from dither.accounting.transforms import Factor

FINE = 4
_FAR = 16.0
_FINEST = 2.0**-6
_LOWEST = -88
_HIGHEST = 93


def find_real_part(index: float) -> float:
    """The real parts that are tried: 2^(index/4), so that one workload and the next meet on the
    same contour."""
    return float(2.0 ** (index / FINE))


def find_cumulants(factors: Sequence[Factor], c: float) -> tuple[float, float, float]:
    """Compute log M and its first two derivatives at c, roughly.

    They choose the contour and prove nothing.
    """
    level = first = second = 0.0
    tiny = 1e-3 * min(1.0, c) if c < 1e3 else 1e-3
    for factor in factors:
        if isinstance(factor, SampledGroup):
            level_term, first_term, second_term = factor.cumulants(c)
        else:
            logs = factor.log_mgf(c, np.array([0.0, tiny]), 1e-9)[0]
            level_term = float(logs[0].real)
            first_term = float(logs[1].imag) / tiny
            second_term = 2 * float(logs[0].real - logs[1].real) / tiny**2
        level += level_term
        first += first_term
        second += second_term
    return level, first, second if second > 0 else 1e-12


class Saddle(NamedTuple):
    """A real part on the grid, and the epsilon whose saddle is near it."""

    c: float
    epsilon: float


def find_saddle(
    factors: Sequence[Factor], log_delta: float | None, epsilon: float | None
) -> Saddle:
    """A c on the grid, near the saddle of the integrand for the delta or the epsilon asked for; and
    that epsilon."""

    def away(index: float) -> tuple[float, float]:
        c = find_real_part(index)
        try:
            level, first, second = find_cumulants(factors, c)
        except (OverflowError, OutOfReach):
            return math.inf, math.inf
        saddle_epsilon = first - 1 / c - 1 / (c + 1)
        if epsilon is not None:
            return saddle_epsilon - epsilon, saddle_epsilon
        assert log_delta is not None
        spread = second + 1 / c**2 + 1 / (c + 1) ** 2
        payoff = math.log(c * (c + 1))
        saddle_log_delta = (
            level - c * saddle_epsilon - payoff - 0.5 * math.log(2 * math.pi * spread)
        )
        return log_delta - saddle_log_delta, saddle_epsilon

    low: float = _LOWEST
    high: float = _HIGHEST
    below = (-math.inf, 0.0)
    above = (math.inf, 0.0)
    index: float = 2 * FINE
    jump = 4
    # finer than the grid only where a step on it moves log delta, or epsilon, by very much
    while high - low > 1 or (high - low > _FINEST and _is_far(below[0], above[0])):
        value = away(index)
        if value[0] < 0:
            low = index
            below = value
        else:
            high = index
            above = value
        if low > _LOWEST and high < _HIGHEST:
            index = (low + high) // 2 if high - low > 1 else (low + high) / 2
        else:
            index = (
                min(_HIGHEST - 1, low + jump) if high == _HIGHEST else max(_LOWEST + 1, high - jump)
            )
            jump *= 2
    if not (math.isfinite(below[0]) and math.isfinite(above[0])):
        return Saddle(
            find_real_part(low if low > _LOWEST else high), below[1] if low > _LOWEST else above[1]
        )
    share = below[0] / (below[0] - above[0])
    return Saddle(
        find_real_part(high if share > 0.5 else low), below[1] + share * (above[1] - below[1])
    )


def _is_far(below: float, above: float) -> bool:
    """Whether both ends of a search were tried, and both are far from what is searched for."""
    are_tried = math.isfinite(below) and math.isfinite(above)
    return are_tried and min(-below, above) > _FAR


def find_saddle_epsilon(factors: Sequence[Factor], log_delta: float) -> tuple[float, float]:
    """Roughly the epsilon at delta = exp(log_delta) and the slope of log delta there; proves
    nothing."""
    c, epsilon = find_saddle(group_sampled(factors), log_delta, None)
    return max(1e-3, epsilon), -c


def group_sampled(factors: Sequence[Factor]) -> list[Factor]:
    """The same factors, the sampled Gaussians put together."""
    sampled = [factor for factor in factors if isinstance(factor, SampledGaussianFactor)]
    rest = [factor for factor in factors if not isinstance(factor, SampledGaussianFactor)]
    return [*rest, *grouped(sampled)]
