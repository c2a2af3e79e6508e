"""One Poisson-sampled Gaussian in closed form.

The likelihood ratio is monotone in the noise, so the best event for an attacker is a half-line, and
delta is a difference of normal tails (docs/proofs/few-steps.md, (O1)).
"""

from __future__ import annotations

import math

import mpmath
from scipy.special import log_ndtr

from dither.accounting.bounds import Bounds, down, up
from dither.accounting.sampled import SampledGaussianFactor

_HALVINGS = 60
_LEAST = 1e-15
_LARGEST = 1e6
_ROOM = 700.0


def bound_one_step(law: SampledGaussianFactor, epsilon: float) -> Bounds:
    """A bracket of delta at an epsilon of at least zero."""
    bounds = _evaluate(law, epsilon, 80, 40)
    if bounds.upper - bounds.lower <= 1e-14 * bounds.upper:
        return bounds
    return _evaluate(law, epsilon, 340, 320)


def _evaluate(law: SampledGaussianFactor, epsilon: float, digits: int, certain: int) -> Bounds:
    """The closed form, worked out in `digits` digits of which `certain` are taken for right."""
    with mpmath.workdps(digits):
        q = mpmath.mpf(law.q.numerator) / law.q.denominator
        sigma = mpmath.mpf(law.sigma.numerator) / law.sigma.denominator
        grow = mpmath.exp(mpmath.mpf(epsilon))
        value = _FORMULAS[law.kind](q, sigma, grow)
        if not value:
            return Bounds(0.0, 0.0)
        slack = mpmath.mpf(10) ** -certain
        return Bounds(max(0.0, down(float(value - slack))), min(1.0, up(float(value + slack))))


def _remove(q: mpmath.mpf, sigma: mpmath.mpf, grow: mpmath.mpf) -> mpmath.mpf:
    """P = (1-q) N(0) + q N(1), Q = N(0): P - grow Q of the noise above the edge."""
    edge = mpmath.mpf(1) / 2 + sigma**2 * mpmath.log((grow - 1 + q) / q)
    rest = mpmath.ncdf(-edge / sigma)
    return (1 - q - grow) * rest + q * mpmath.ncdf((1 - edge) / sigma)


def _add(q: mpmath.mpf, sigma: mpmath.mpf, grow: mpmath.mpf) -> mpmath.mpf:
    """The two laws exchanged: the noise below the edge; nothing where no loss is so large."""
    if grow * (1 - q) >= 1:
        return mpmath.mpf(0)
    edge = mpmath.mpf(1) / 2 + sigma**2 * mpmath.log((1 / grow - 1 + q) / q)
    rest = mpmath.ncdf(edge / sigma)
    return rest - grow * ((1 - q) * rest + q * mpmath.ncdf((edge - 1) / sigma))


def _swap(q: mpmath.mpf, sigma: mpmath.mpf, grow: mpmath.mpf) -> mpmath.mpf:
    """P = (1-q) N(0) + q N(1), Q = (1-q) N(0) + q N(-1): with w = e^{edge/sigma^2} and
    b = q e^{-1/2 sigma^2} the edge solves b w^2 - (1-q)(grow-1) w - grow b = 0."""
    b = q * mpmath.exp(-1 / (2 * sigma**2))
    half = (1 - q) * (grow - 1) / 2
    edge = sigma**2 * mpmath.log((half + mpmath.sqrt(half**2 + grow * b**2)) / b)
    rest = (1 - q) * mpmath.ncdf(-edge / sigma)
    moved = mpmath.ncdf((1 - edge) / sigma)
    return rest + q * moved - grow * (rest + q * mpmath.ncdf((-1 - edge) / sigma))


_FORMULAS = {"remove": _remove, "add": _add, "swap": _swap}


def guess_one_step(law: SampledGaussianFactor, log_delta: float) -> tuple[float, float]:
    """Roughly the epsilon at this delta and the slope of log delta there, in plain floats.

    Bisection; zero where delta is larger than that of an epsilon of zero.
    """
    low = math.log(_LEAST)
    high = math.log(_LARGEST)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if _guess_log_delta(law, math.exp(middle)) > log_delta:
            low = middle
        else:
            high = middle
    guess = math.exp(high)
    before = _guess_log_delta(law, guess * (1 - 1e-4))
    slope = (before - log_delta) / (-1e-4 * guess)
    return guess, slope if slope < 0 and math.isfinite(slope) else -2.0


def _guess_log_delta(law: SampledGaussianFactor, epsilon: float) -> float:
    """log delta in floats; a swap starts from the direction that removes."""
    q, sigma, variance = law.floats
    sign = -1.0 if law.kind == "add" else 1.0
    excess = math.expm1(min(sign * epsilon, _ROOM)) / q
    if excess <= -1:
        return -math.inf
    log_odds = math.log1p(excess)
    edge = 0.5 + variance * log_odds
    moved = float(log_ndtr(sign * (1 - edge) / sigma))
    rest = float(log_ndtr(-sign * edge / sigma)) + log_odds
    larger = max(moved, rest)
    share = -math.expm1(-abs(moved - rest))
    if (moved - rest) * sign <= 0 or share <= 0:
        return -math.inf
    return math.log(q) + larger + math.log(share) + (epsilon if sign < 0 else 0.0)
