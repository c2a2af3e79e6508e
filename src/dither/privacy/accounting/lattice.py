"""delta(epsilon) of one integer mechanism, from its own lattice law; never from the continuous curve beside it.

For noise with log-concave weights the best event is a half-line {x >= t} (the likelihood ratio is monotone), so
delta(eps) = P(Z >= t - D) - e^eps P(Z >= t) at the first integer t whose log-ratio exceeds eps, and it grows with the
shift D: a unit that moves the count by less than D is covered. docs/proofs/integer-noise.md.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from scipy.special import erfcx

from dither.canonical import Number, exact
from dither.errors import ParameterError
from dither.privacy.accounting.bounds import Bounds, down, up
from dither.privacy.noise.enclosure import exp_minus

_BITS = 512
_SUMMED_UP_TO = 1 << 17  # sigma beyond which sums are replaced by integrals on both sides


def _epsilon(value: Number) -> Fraction:
    epsilon = exact(value, "epsilon")
    if epsilon < 0:
        raise ParameterError(f"epsilon must not be negative, got {value}")
    return epsilon


def delta_discrete_laplace(scale: Fraction, sensitivity: int, epsilon: Number) -> Bounds:
    """delta(epsilon) of integer Laplace noise on a count that one unit moves by at most `sensitivity`.

    >>> delta_discrete_laplace(Fraction(10), 1, 0.1)
    Bounds(lower=0.0, upper=0.0)
    """
    eps = _epsilon(epsilon)
    if eps >= sensitivity / scale:
        return Bounds(0.0, 0.0)
    threshold = (eps * scale + sensitivity) / 2
    t = threshold.numerator // threshold.denominator + 1
    step = exp_minus(1 / scale, _BITS)
    # P(Z >= t - D) = 1 - a^(D-t+1) / (1+a) and e^eps P(Z >= t) = e^(eps - t/scale) / (1+a), a = e^(-1/scale)
    lost = exp_minus((sensitivity - t + 1) / scale, _BITS)
    gain = exp_minus(t / scale - eps, _BITS)
    one = 1 << _BITS
    low = Fraction(one + step.low - lost.high - gain.high, one + step.high)
    high = Fraction(one + step.high - lost.low - gain.low, one + step.low)
    return Bounds(max(0.0, down(float(low))), up(float(high)))


def delta_discrete_gaussian(sigma: Fraction, sensitivity: int, epsilon: Number) -> Bounds:
    """delta(epsilon) of integer Gaussian noise on a count that one unit moves by at most `sensitivity`.

    >>> lower, upper = delta_discrete_gaussian(Fraction("3.73063"), 1, 1)
    >>> 1.0345e-5 < lower <= upper < 1.0346e-5
    True
    """
    eps = _epsilon(epsilon)
    threshold = (2 * sigma * sigma * eps + sensitivity * sensitivity) / (2 * sensitivity)
    t = threshold.numerator // threshold.denominator + 1
    if sigma > _SUMMED_UP_TO:
        return _by_integrals(float(sigma), sensitivity, float(eps), t)
    s, d, e = float(sigma), float(sensitivity), float(eps)
    reach = math.ceil(40 * s) + 1
    x = np.arange(t, max(t, sensitivity) + reach + 1, dtype=np.float64)
    weight = np.exp(-((x - d) ** 2) / (2 * s * s))
    ratio = (2 * x * d - d * d) / (2 * s * s)
    gained = float(np.sum(weight * -np.expm1(e - ratio)))
    reached = float(np.sum(weight))
    k = np.arange(1, reach + 1, dtype=np.float64)
    total = 1.0 + 2.0 * float(np.sum(np.exp(-(k**2) / (2 * s * s))))
    # every operation above errs by less than 2^-48 of the terms; what is cut off has weight below e^-800
    slack = 2.0**-44 * (1.0 + e + float(ratio[0])) * reached + 1e-300
    return Bounds(max(0.0, (gained - slack) / total * (1 - 2.0**-44)), (gained + slack) / total * (1 + 2.0**-44))


def _by_integrals(s: float, d: int, e: float, t: int) -> Bounds:
    """Sums of a decreasing function lie between its integrals; the total is at least sigma * sqrt(2 pi)."""
    if t - 1 - d < 0:
        raise ParameterError("sigma is too small for this sensitivity: choose a larger epsilon or a coarser resolution")
    upper = _tail((t - 1 - d) / s) - _scaled_tail(e, t / s)
    lower = _tail((t - d) / s) - _scaled_tail(e, (t - 1) / s)
    slack = 2.0**-40 * _tail((t - 1 - d) / s) * (1 + e)
    # sum over all integers is sigma sqrt(2 pi) (1 + 2 sum e^(-2 pi^2 sigma^2 k^2)), the factor below 1 + 1e-300 here
    return Bounds(max(0.0, lower - slack), upper + slack)


def _tail(z: float) -> float:
    """P(N(0,1) >= z), z >= 0."""
    return 0.5 * float(erfcx(z / math.sqrt(2))) * math.exp(-z * z / 2)


def _scaled_tail(e: float, z: float) -> float:
    """e^e P(N(0,1) >= z), with the exponents joined before they can overflow."""
    return 0.5 * float(erfcx(z / math.sqrt(2))) * math.exp(e - z * z / 2)
