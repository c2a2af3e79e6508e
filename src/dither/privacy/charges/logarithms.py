"""Logarithms of rationals, rounded to a chosen side in integer arithmetic.

The digits are the same on every machine.

A charge is recomputed by every auditor and must come out equal to the last digit, so no float and
no libm enters it.

>>> float(log_up(Fraction(2))), float(log_down(Fraction(2)))
(0.6931471805599453, 0.6931471805599453)
>>> log_down(Fraction(10**6)) < log_up(Fraction(10**6)) < log_down(Fraction(10**6)) + Fraction(1,
...     10**25)
True
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache

from dither.privacy.noise.enclosure import fixed, times

_BITS = 128
_ONE = 1 << _BITS
_GRAIN = 10**18


def log_up(x: Fraction) -> Fraction:
    """A rational at or above ln(x), x >= 1, within 2**-100 of it."""
    return _log(x)[1]


def log_down(x: Fraction) -> Fraction:
    """A rational at or below ln(x), x >= 1, within 2**-100 of it."""
    return _log(x)[0]


def log_two_down() -> Fraction:
    """A rational at or below ln 2, within 2**-100 of it."""
    return Fraction(_log_two()[0], _ONE)


def log_two_up() -> Fraction:
    """A rational at or above ln 2, within 2**-100 of it."""
    return Fraction(_log_two()[1], _ONE)


def _log(x: Fraction) -> tuple[Fraction, Fraction]:
    """Enclose ln x, for x >= 1: return a lower and an upper bound.

    ln x = k ln 2 + 2 artanh((m-1)/(m+1)) with x = m 2^k and 1 <= m < 2, and both terms are
    enclosed.
    """
    if x < 1:
        raise ValueError("needs x >= 1")
    k = x.numerator.bit_length() - x.denominator.bit_length()
    k -= x < Fraction(2) ** k
    m = x / Fraction(2) ** k
    low, high = _twice_artanh((m - 1) / (m + 1))
    two_low, two_high = _log_two()
    return Fraction(k * two_low + low, _ONE), Fraction(k * two_high + high, _ONE)


@lru_cache(maxsize=1)
def _log_two() -> tuple[int, int]:
    return _twice_artanh(Fraction(1, 3))


def _twice_artanh(z: Fraction) -> tuple[int, int]:
    """Integers around 2**128 * 2 artanh(z), for 0 <= z <= 1/3.

    By the series of positive terms z^(2j+1)/(2j+1).

    Floor on the low side, ceiling on the high side; what is left out is below the last term / (1 -
    1/9).
    """
    power = fixed(z, _BITS)
    square = times(power, power, _BITS)
    low, high = power
    odd = 1
    while power.high > 1:
        odd += 2
        power = times(power, square, _BITS)
        low += power.low // odd
        high -= -power.high // odd
    return 2 * low, 2 * (high + 2)


@lru_cache(maxsize=4096)
def epsilon_up(rho: Fraction, delta: Fraction) -> Fraction:
    """An epsilon such that rho-zCDP implies (epsilon, delta)-DP.

    It is rounded up to a multiple of 10^-18. min over t > 0 of (t+1) rho + (ln(1/delta) - ln(1+t))
    / t - ln(1 + 1/t): Canonne, Kamath and Steinke 2020, Proposition 12 with alpha = t + 1. Every t
    gives a valid bound; the search is over rationals on a fixed grid.

    >>> float(epsilon_up(Fraction(1, 2), Fraction(1, 10**6)))
    5.2215...
    """
    if rho == 0:
        return Fraction(0)
    log_one_over_delta = log_up(1 / delta)

    def epsilon_at(step: int) -> Fraction:
        t = Fraction(1024 + step % 1024, 1024) * Fraction(2) ** (step // 1024)
        return (t + 1) * rho + (log_one_over_delta - log_down(1 + t)) / t - log_down(1 + 1 / t)

    low, high = -12 * 1024, 24 * 1024
    while high - low > 2:
        third = (high - low) // 3
        if epsilon_at(low + third) <= epsilon_at(high - third):
            high -= third
        else:
            low += third
    return on_grain(max(Fraction(0), min(epsilon_at(step) for step in range(low, high + 1))))


def epsilon_of_order(renyi: Fraction, alpha: Fraction, delta: Fraction) -> Fraction:
    """Compute an epsilon such that (alpha, renyi)-RDP implies (epsilon, delta)-DP, rounded up.

    It is the formula of `epsilon_up` at one order.
    """
    t = alpha - 1
    return on_grain(
        max(Fraction(0), renyi + (log_up(1 / delta) - log_down(1 + t)) / t - log_down(1 + 1 / t))
    )


def on_grain(value: Fraction) -> Fraction:
    """Round a number up to the next multiple of 10^-18."""
    return Fraction(-(-value.numerator * _GRAIN // value.denominator), _GRAIN)
