"""The delta of a zCDP guarantee at a stated epsilon; the formula is in
`privacy.charges.conversions`."""

from __future__ import annotations

import math

from dither.canonical import Number
from dither.privacy.charges.conversions import ROUNDING, find_best, read_float

_SMALLEST = 5e-324


def delta_from_rho(rho: Number, epsilon: Number) -> float:
    """Compute a delta, rounded up, such that rho-zCDP implies (epsilon, delta)-DP.

    >>> round(delta_from_rho(0.5, 5.221534) * 1e6, 4)
    1.0
    """
    r = read_float(rho, "rho")
    e = read_float(epsilon, "epsilon")
    if r == 0:
        return 0.0

    def bound_exponent(u: float) -> float:
        t = math.exp(u)
        terms = (t * (t + 1) * r, -e * t, -math.log1p(t), -t * math.log1p(1 / t))
        return sum(terms) + ROUNDING * sum(map(abs, terms))

    exponent = bound_exponent(find_best(bound_exponent))
    return 1.0 if exponent >= 0 else min(1.0, max(_SMALLEST, math.exp(exponent) * (1 + ROUNDING)))
