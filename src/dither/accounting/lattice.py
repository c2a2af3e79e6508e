"""delta(epsilon) of one integer mechanism, from its own lattice law; never from the continuous
curve beside it.

For noise with log-concave weights the best event is a half-line {x >= t} (the likelihood ratio is
monotone), so delta(eps) = P(Z >= t - D) - e^eps P(Z >= t) at the first integer t whose log-ratio
exceeds eps, and it grows with the shift D: a unit that moves the count by less than D is covered.
Every result is a bracket whose width holds all that float64 can lose. docs/proofs/integer-noise.md,
theorems 1 to 4.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from scipy.special import erfcx

from dither.accounting.bounds import Bounds, down, up
from dither.canonical import Number, exact, quote
from dither.errors import ParameterError
from dither.privacy.noise.enclosure import exp_minus

_BITS = 512
_SUMMED_UP_TO = 1 << 12  # sigma up to which the sums are taken term by term
_TINY = 1e-300  # more than all that underflow and cut tails can hold
_ROUNDING = (
    2.0**-44
)  # 256 units in the last place, far above what NumPy's exp, expm1 and pairwise sums lose
_LARGEST_EPSILON = Fraction(2**40)  # beyond, delta is only bounded from above, by monotonicity


def _epsilon(value: Number) -> Fraction:
    epsilon = exact(value, "epsilon")
    if epsilon < 0:
        raise ParameterError(f"epsilon must not be negative, got {value}")
    return epsilon


def _sensitivity(value: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ParameterError(f"sensitivity must be a non-negative integer, got {quote(value)}")
    return value


def delta_discrete_laplace(scale: Fraction, sensitivity: int, epsilon: Number) -> Bounds:
    """Bracket delta(epsilon) of integer Laplace noise on a count.

    One unit moves the count by at most `sensitivity`.

    >>> delta_discrete_laplace(Fraction(10), 1, 0.1)
    Bounds(lower=0.0, upper=0.0)
    """
    eps = _epsilon(epsilon)
    shift = _sensitivity(sensitivity)
    scale = Fraction(scale)
    if eps >= shift / scale:
        return Bounds(0.0, 0.0)
    threshold = (eps * scale + shift) / 2
    t = threshold.numerator // threshold.denominator + 1
    step = exp_minus(1 / scale, _BITS)
    # P(Z >= t - D) = 1 - a^(D-t+1) / (1+a) and e^eps P(Z >= t) = e^(eps - t/scale) / (1+a), a =
    # e^(-1/scale)
    lost = exp_minus((shift - t + 1) / scale, _BITS)
    gain = exp_minus(t / scale - eps, _BITS)
    full = 1 << _BITS
    low = Fraction(full + step.low - lost.high - gain.high, full + step.high)
    high = Fraction(full + step.high - lost.low - gain.low, full + step.low)
    return Bounds(max(0.0, down(float(low))), min(1.0, up(float(high))))


def delta_discrete_gaussian(sigma: Fraction, sensitivity: int, epsilon: Number) -> Bounds:
    """Bracket delta(epsilon) of integer Gaussian noise on a count.

    One unit moves the count by at most `sensitivity`.

    >>> lower, upper = delta_discrete_gaussian(Fraction("3.73063"), 1, 1)
    >>> 1.0345e-5 < lower <= upper < 1.0346e-5
    True
    """
    eps = _epsilon(epsilon)
    shift = _sensitivity(sensitivity)
    sigma = Fraction(sigma)
    if shift == 0:
        return Bounds(0.0, 0.0)
    if eps > _LARGEST_EPSILON:
        return Bounds(0.0, delta_discrete_gaussian(sigma, shift, _LARGEST_EPSILON).upper)
    threshold = (2 * sigma * sigma * eps + shift * shift) / (2 * shift)
    t = threshold.numerator // threshold.denominator + 1
    if (
        t - shift > 39 * sigma + 2
    ):  # P(Z >= t - D) is below the sum of e^(-x^2 / 2 sigma^2) from 39 sigma on
        return Bounds(0.0, _TINY)
    bounds = (
        _by_sums(sigma, shift, eps, t)
        if sigma <= _SUMMED_UP_TO
        else _by_integrals(sigma, shift, eps, t)
    )
    return Bounds(max(0.0, bounds.lower), min(1.0, bounds.upper))


def _by_sums(sigma: Fraction, shift: int, eps: Fraction, t: int) -> Bounds:
    """Bracket delta by summing term by term, over x = shift + y.

    Terms left out lie past 40 sigma and weigh less than 1e-300 together.
    """
    s = float(sigma)
    d = float(shift)
    reach = math.ceil(40 * s) + 1
    y = np.arange(max(t - shift, -reach), max(t - shift, 0) + reach + 1, dtype=np.float64)
    power = y * y / (2 * s * s)
    # log-ratio minus epsilon at x is (x - threshold) D / sigma^2: positive from t on, and exact at
    # its start
    excess = float((t * shift - Fraction(shift * shift, 2)) / sigma**2 - eps)
    over = excess + (y - float(t - shift)) * (d / (s * s))
    weight = np.exp(-power)
    gained = float(np.sum(weight * -np.expm1(-over)))
    k = np.arange(1, reach + 1, dtype=np.float64)
    total = 1.0 + 2.0 * float(np.sum(np.exp(-k * k / (2 * s * s))))
    # exponents err by a few units in the last place of themselves, so weights by that times the
    # exponent
    slack = _ROUNDING * float(np.sum(weight * (1.0 + power) * -np.expm1(-over))) + _TINY
    return Bounds(
        (gained - slack) / total * (1 - _ROUNDING), (gained + slack) / total * (1 + _ROUNDING)
    )


def _by_integrals(sigma: Fraction, shift: int, eps: Fraction, t: int) -> Bounds:
    """Bracket delta by the midpoint rule: a sum from n on is the integral from a = n - 1/2 plus
    f'(a) / 24.

    It errs by at most 1/384 of the variation of the third derivative. The total is sigma sqrt(2 pi)
    (1 + 2 sum exp(-2 pi^2 sigma^2 k^2)), whose second factor is below 1 + 1e-300 here.
    """
    s = float(sigma)
    e = float(eps)
    near = float((t - shift - Fraction(1, 2)) / sigma)
    far = float((t - Fraction(1, 2)) / sigma)
    near_tail, far_tail = (
        _tail(*end) - _slope(*end) / (24 * s * s) for end in ((0.0, near), (e, far))
    )
    curved = (_variation(0.0, near) + _variation(e, far)) / (384 * s**4) * (1 + _ROUNDING)
    slack = 2 * _ROUNDING * ((1 + near * near) * near_tail + (1 + e + far * far) * far_tail) + _TINY
    return Bounds(near_tail - far_tail - curved - slack, near_tail - far_tail + curved + slack)


def _tail(e: float, z: float) -> float:
    """e^e P(N(0,1) >= z), with the exponents joined before they can overflow."""
    if z < 0:
        return math.exp(e) - _tail(e, -z)
    return 0.5 * float(erfcx(z / math.sqrt(2))) * math.exp(e - z * z / 2)


def _slope(e: float, z: float) -> float:
    """e^e z phi(z): minus the slope of the normal density."""
    return z * math.exp(e - z * z / 2) / math.sqrt(2 * math.pi)


def _variation(e: float, z: float) -> float:
    """e^e times the total variation on [z, inf) of the density's third derivative (3 z - z^3)
    phi(z), or above it.

    That is monotone from sqrt(3 + sqrt(6)) = 2.334 on; on the whole line it varies by 2.801.
    """
    return _slope(e, z) * (z * z - 3) if z >= 2.34 else 2.81 * math.exp(e)
