"""zCDP to (epsilon, delta) and back, by the tight tail bound.

delta = inf over t > 0 of exp(t (t+1) rho - eps t) / (t+1) * (1 - 1/(t+1))^t  (Canonne, Kamath,
Steinke 2020; Asoodeh et al. 2020). Every t gives a valid bound, so an optimiser that stops early
costs utility, never privacy; what float64 can lose in one evaluation is added on our side.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

from dither.canonical import Number, exact, number_text, positive
from dither.errors import ParameterError

# of the sum of all terms' sizes: 64 units in the last place for a handful of operations
ROUNDING = 2.0**-46


def epsilon_from_rho(rho: Number, delta: Number) -> float:
    """Compute an epsilon, rounded up, such that rho-zCDP implies (epsilon, delta)-DP.

    >>> round(epsilon_from_rho(0.5, 1e-6), 6)
    5.221534
    """
    r = read_float(rho, "rho")
    log_delta = _log(_delta(delta))
    if r == 0:
        return 0.0

    def bound_at(u: float) -> float:
        t = math.exp(u)
        terms = ((t + 1) * r, -log_delta / t, -math.log1p(t) / t, -math.log1p(1 / t))
        return sum(terms) + ROUNDING * sum(map(abs, terms))

    return max(0.0, bound_at(find_best(bound_at)))


def rho_for(epsilon: Number, delta: Number) -> Fraction:
    """Find the largest rho, rounded down, whose tight conversion meets (epsilon, delta).

    Raises ParameterError where there is none.

    >>> round(float(rho_for(1, 1e-6)), 8)
    0.02435597
    """
    goal = positive(epsilon, "epsilon")
    allowed = _delta(delta)
    read_float(goal, "epsilon")
    low, high = 0.0, float(goal) + 1.0
    for _ in range(200):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (
            (middle, high) if epsilon_from_rho(Fraction(middle), allowed) <= goal else (low, middle)
        )
    if low == 0.0:
        raise ParameterError(
            f"this epsilon ({number_text(goal)}) is too small for any noise at its delta: choose a "
            f"larger one"
        )
    return Fraction(low)


def find_best(bound: Callable[[float], float]) -> float:
    """Find log t at which `bound` is about smallest."""
    from scipy.optimize import minimize_scalar  # half a second of imports that pure pots never need

    return float(
        minimize_scalar(bound, bounds=(-14.0, 18.0), method="bounded", options={"xatol": 1e-9}).x
    )


def read_float(value: Number, name: str) -> float:
    """Read a number as a float that is zero only if the number is.

    Raises ParameterError below 0 and above 2**256. The error of rounding is among the terms' slack.
    """
    number = exact(value, name)
    if number < 0:
        raise ParameterError(f"{name} must not be negative, got {number_text(number)}")
    if number > 2**256:
        raise ParameterError(f"{name} must be at most 2**256, got {number_text(number)}")
    return max(float(number), 1e-300) if number else 0.0


def _log(delta: Fraction) -> float:
    """Compute log(delta) to a few units in its last digit.

    That holds also where delta is near 1 or below the smallest float.
    """
    if delta > Fraction(1, 2):
        return math.log1p(-float(1 - delta))
    if delta > Fraction(1, 2**1000):
        return math.log(float(delta))
    return math.log(delta.numerator) - math.log(delta.denominator)


def _delta(value: Number) -> Fraction:
    """Read a delta exactly; refuse what does not lie strictly between 0 and 1."""
    delta = exact(value, "delta")
    if not 0 < delta < 1:
        raise ParameterError(
            f"delta must lie in (0, 1), got {number_text(delta)}: choose e.g. 1e-6, far below 1 / "
            f"number of people"
        )
    return delta
