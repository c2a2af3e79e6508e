"""zCDP to (epsilon, delta) and back, by the tight tail bound.

delta = inf over t > 0 of exp(t (t+1) rho - eps t) / (t+1) * (1 - 1/(t+1))^t  (Canonne, Kamath, Steinke 2020; Asoodeh et
al. 2020). Every t gives a valid bound, so an optimiser that stops early costs utility, never privacy.
"""

from __future__ import annotations

import math
from fractions import Fraction

from scipy.optimize import minimize_scalar

from dither.canonical import Number, exact, positive
from dither.errors import ParameterError

_SLACK = 1e-12  # above the rounding of the closed forms below, relative


def _log_delta(rho: float, epsilon: float, t: float) -> float:
    return t * (t + 1) * rho - epsilon * t - math.log1p(t) - t * math.log1p(1 / t)


def delta_from_rho(rho: Number, epsilon: Number) -> float:
    """A delta (rounded up) such that rho-zCDP implies (epsilon, delta)-DP.

    >>> round(delta_from_rho(0.5, 5.221534) * 1e6, 4)
    1.0
    """
    r, e = float(exact(rho, "rho")), float(exact(epsilon, "epsilon"))
    if r < 0 or e < 0:
        raise ParameterError("rho and epsilon must not be negative")
    if r == 0:
        return 0.0
    best = minimize_scalar(lambda u: _log_delta(r, e, math.exp(u)), bounds=(-12.0, 16.0), method="bounded")
    exponent = _log_delta(r, e, math.exp(best.x))
    return min(1.0, math.exp(exponent + _SLACK * (1 + abs(exponent))))


def epsilon_from_rho(rho: Number, delta: Number) -> float:
    """An epsilon (rounded up) such that rho-zCDP implies (epsilon, delta)-DP.

    >>> round(epsilon_from_rho(0.5, 1e-6), 6)
    5.221534
    """
    r, d = float(exact(rho, "rho")), float(_delta(delta))
    if r == 0:
        return 0.0

    def at(t: float) -> float:
        return (t + 1) * r - (math.log(d) + math.log1p(t)) / t - math.log1p(1 / t)

    best = minimize_scalar(lambda u: at(math.exp(u)), bounds=(-12.0, 16.0), method="bounded")
    return max(0.0, at(math.exp(best.x)) * (1 + _SLACK) + _SLACK)


def rho_for(epsilon: Number, delta: Number) -> Fraction:
    """The largest rho (rounded down) whose tight conversion meets (epsilon, delta).

    >>> round(float(rho_for(1, 1e-6)), 8)
    0.02435597
    """
    goal, allowed = positive(epsilon, "epsilon"), _delta(delta)
    low, high = 0.0, float(goal) + 1.0
    for _ in range(200):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (middle, high) if epsilon_from_rho(Fraction(middle), allowed) <= goal else (low, middle)
    return Fraction(low)


def _delta(value: Number) -> Fraction:
    delta = exact(value, "delta")
    if not 0 < delta < 1:
        raise ParameterError(f"delta must lie in (0, 1), got {value}: choose e.g. 1e-6, far below 1 / number of people")
    return delta
