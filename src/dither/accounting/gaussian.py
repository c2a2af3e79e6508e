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

from dither.accounting.bounds import SMALLEST, Bounds, down, up
from dither.accounting.multiprecision import read_fraction

_SQRT2 = math.sqrt(2.0)


def log_delta(mu: float, epsilon: float) -> float:
    """Compute log delta of mu-GDP at epsilon in floats; for root finding only.

    The relative error is about 1e-12 of delta.
    """
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
    second = -a * a / 2 + math.log(float(erfcx(b / _SQRT2)) / 2)  # e^eps phi(b) = phi(a)
    return first + math.log1p(-math.exp(second - first))


def _delta_mp(mu_squared: Fraction, epsilon: Fraction) -> mpmath.mpf:
    """Compute delta in mpmath to forty digits.

    Those that the two differences eat are added before.
    """
    mu_float = math.sqrt(mu_squared)
    a_float = float(epsilon) / mu_float - mu_float / 2
    guess = log_delta(mu_float, float(epsilon))
    lost = max(0.0, -guess - a_float * abs(a_float) / 2 if a_float > 0 else -guess)
    # a enters squared, so its own digits count twice
    size = 2 * math.log10(2 + abs(a_float) + mu_float + abs(float(epsilon)))
    with mpmath.workdps(45 + int(lost / 2.3) + math.ceil(size)):
        mu = mpmath.sqrt(read_fraction(mu_squared))
        eps = read_fraction(epsilon)
        a = eps / mu - mu / 2
        root2 = mpmath.sqrt(2)
        return (mpmath.erfc(a / root2) - mpmath.exp(eps) * mpmath.erfc((a + mu) / root2)) / 2


def _round_outward(value: mpmath.mpf) -> Bounds:
    near = float(value)
    return Bounds(max(0.0, down(near)), min(1.0, max(SMALLEST, up(near))))


def gaussian_delta(mu_squared: Fraction, epsilon: Fraction) -> Bounds:
    """delta at epsilon (of any sign) of Gaussians whose squared sensitivity-to-noise ratios sum to
    `mu_squared`.

    >>> round(gaussian_delta(Fraction(1), Fraction(1)).upper, 15)
    0.126936737506644
    """
    if mu_squared == 0:
        floor = max(0.0, -math.expm1(float(epsilon)))
        return Bounds(max(0.0, down(floor)), min(1.0, up(floor)) if floor else 0.0)
    return _round_outward(_delta_mp(mu_squared, epsilon))


def gaussian_epsilon(mu_squared: Fraction, delta: Fraction) -> Bounds:
    """Bracket the smallest epsilon >= 0 with delta(epsilon) <= `delta`, for a delta of any size.

    >>> gaussian_epsilon(Fraction(1), Fraction(1, 10**6)).upper
    4.88655411746221...
    """
    if mu_squared == 0:
        return Bounds(0.0, 0.0)
    if delta <= 0:
        return Bounds(math.inf, math.inf)
    if _is_below(mu_squared, 0.0, delta):
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
    step = max(4e-16 * high, SMALLEST)
    lower, upper = low, high
    wide = step
    while not _is_below(mu_squared, upper, delta):
        upper = upper + wide
        wide = wide * 4
    wide = step
    while lower > 0 and _is_below(mu_squared, lower, delta):
        lower = max(0.0, lower - wide)
        wide = wide * 4
    return Bounds(lower, upper)


def _is_below(mu_squared: Fraction, epsilon: float, delta: Fraction) -> bool:
    """Whether delta(epsilon) is at most `delta`, decided with thirty digits; no, where that is not
    certain."""
    value = _delta_mp(mu_squared, Fraction(epsilon))
    with mpmath.workdps(60):
        return bool(value * (1 + mpmath.mpf(10) ** -30) <= read_fraction(delta))


def _log(value: Fraction) -> float:
    return math.log(value.numerator) - math.log(value.denominator)
