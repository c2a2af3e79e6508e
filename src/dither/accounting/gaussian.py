"""Continuous Gaussian noise in closed form (docs/proofs/composition.md, section 3).

With mu = sensitivity / sigma (several mechanisms: the root of the sum of squares), a = eps/mu -
mu/2 and b = a + mu,

    delta(eps) = Phi(-a) - e^eps Phi(-b) = exp(-a^2/2)/2 * (erfcx(a/sqrt 2) - erfcx(b/sqrt 2)),

exact and optimal. Floats find the place, 40 digits of mpmath certify it, so brackets are a few ulp
wide.
"""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
from scipy.special import erfcx, log_ndtr

from dither.accounting.bounds import Bounds, down, up

_SQRT2 = math.sqrt(2.0)
_SMALLEST = 5e-324


def log_delta(mu: float, epsilon: float) -> float:
    """log delta of mu-GDP at epsilon in floats, relative error about 1e-12 of delta; for root
    finding only."""
    a = epsilon / mu - mu / 2
    b = a + mu
    if a > -5:
        difference = float(erfcx(a / _SQRT2) - erfcx(b / _SQRT2))
        if difference > 0:
            return -a * a / 2 + math.log(difference / 2)
        return (
            -a * a / 2
            - math.log(math.sqrt(2 * math.pi))
            - 2 * math.log(max(abs(a), 1.0))
            + math.log(mu)
        )
    first = float(log_ndtr(-a))
    second = epsilon + float(log_ndtr(-b))
    return first + math.log1p(-math.exp(second - first))


def _delta_mp(mu_squared: Fraction, epsilon: Fraction) -> mpmath.mpf:
    """delta in mpmath with the digits that the cancellation eats added to forty."""
    guess = log_delta(math.sqrt(mu_squared), float(epsilon)) if mu_squared < 10**300 else 0.0
    mu_float = math.sqrt(mu_squared)
    a_float = float(epsilon) / mu_float - mu_float / 2
    lost = max(0.0, -guess - a_float * abs(a_float) / 2 if a_float > 0 else -guess)
    with mpmath.workdps(45 + int(lost / 2.3) + int(float(epsilon) / 1e3)):
        mu = mpmath.sqrt(mpmath.mpf(mu_squared.numerator) / mu_squared.denominator)
        eps = mpmath.mpf(epsilon.numerator) / epsilon.denominator
        a = eps / mu - mu / 2
        root2 = mpmath.sqrt(2)
        return (mpmath.erfc(a / root2) - mpmath.exp(eps) * mpmath.erfc((a + mu) / root2)) / 2


def _round_outward(value: mpmath.mpf) -> Bounds:
    near = float(value)
    return Bounds(max(0.0, down(near)), min(1.0, max(_SMALLEST, up(near))))


def gaussian_delta(mu_squared: Fraction, epsilon: Fraction) -> Bounds:
    """delta at epsilon (of any sign) of Gaussians whose squared sensitivity-to-noise ratios sum to
    `mu_squared`.

    >>> round(gaussian_delta(Fraction(1), Fraction(1)).upper, 15)
    0.126936737506644
    """
    if mu_squared == 0:
        floor = max(0.0, -math.expm1(float(epsilon)))
        return Bounds(max(0.0, down(floor)), min(1.0, up(floor)) if floor else 0.0)
    if mu_squared > 10**8 or abs(epsilon) > 10**7:
        mu = math.sqrt(mu_squared)
        a = float(epsilon) / mu - mu / 2
        return Bounds(
            0.0, min(1.0, math.exp(-a * a / 2) if a > 0 else 1.0) * (1 + 1e-9) if a > 1 else 1.0
        )
    return _round_outward(_delta_mp(mu_squared, epsilon))


def gaussian_epsilon(mu_squared: Fraction, delta: Fraction) -> Bounds:
    """The smallest epsilon >= 0 with delta(epsilon) <= `delta`, as a bracket.

    >>> gaussian_epsilon(Fraction(1), Fraction(1, 10**6)).upper
    4.88655411746221...
    """
    if mu_squared == 0:
        return Bounds(0.0, 0.0)
    if delta <= 0:
        return Bounds(math.inf, math.inf)
    if gaussian_delta(mu_squared, Fraction(0)).upper <= delta:
        return Bounds(0.0, 0.0)
    mu = math.sqrt(mu_squared)
    target = _log(delta)
    low = 0.0
    high = mu * (mu / 2 + math.sqrt(2 * max(1.0, -target)) + 2)
    for _ in range(200):
        middle = (low + high) / 2
        if log_delta(mu, middle) > target:
            low = middle
        else:
            high = middle
        if high - low <= 4e-16 * high:
            break
    step = max(4e-16 * high, _SMALLEST)
    lower, upper = low, high
    wide = step
    while gaussian_delta(mu_squared, Fraction(upper)).upper > delta:
        upper = upper + wide
        wide = wide * 4
    wide = step
    while lower > 0 and gaussian_delta(mu_squared, Fraction(lower)).lower < delta:
        lower = max(0.0, lower - wide)
        wide = wide * 4
    return Bounds(lower, upper)


def _log(value: Fraction) -> float:
    return math.log(value.numerator) - math.log(value.denominator)
