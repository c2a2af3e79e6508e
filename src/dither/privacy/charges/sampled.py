"""Renyi divergence of samples, rounded up in integer arithmetic.

It is what a budget at one order takes for DP-SGD.

Poisson samples (add/remove): theorem 3.33 at integer orders, from the divergences of the unsampled
loss at 2..n; fixed size (replace): Wang, Balle and Kasiviswanathan 2019, theorem 9. Between integer
orders the chord of the convex function order -> (order - 1) D_order. Proofs:
docs/proofs/filters.md, theorem 6. Shuffled reports: lemma 5.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import lru_cache

from dither.privacy.charges.logarithms import log_down, log_two_down, log_two_up, log_up
from dither.privacy.noise.enclosure import exp_minus

Curve = Callable[[Fraction], Fraction]
_BITS = 192
_GRAIN = 10**30
_LARGEST_ORDER = 512


def amplified(epsilon: Fraction, rate: Fraction) -> Fraction:
    """Compute log(1 + rate (e^epsilon - 1)), rounded up: the epsilon of a sample (theorem 3.28).

    Computed as epsilon + log(rate + (1 - rate) e^-epsilon).

    >>> round(float(amplified(Fraction(1), Fraction(1, 100))), 13)
    0.0170368632362
    """
    if rate == 1 or epsilon == 0:
        return epsilon
    factor = rate + (1 - rate) * Fraction(exp_minus(epsilon, _BITS).high, 1 << _BITS)
    return min(epsilon, up(epsilon - log_down(1 / factor))) if factor < 1 else epsilon


def poisson_renyi(rate: Fraction, inner: Curve, alpha: Fraction, unsampled: Fraction) -> Fraction:
    """Bound D_alpha of a Poisson sample, in both directions.

    `inner` is a curve that bounds both directions of the unsampled loss; `unsampled` is its value
    at alpha.

    >>> curve = lambda order: order * Fraction(50, 121)                   # sigma = 1.1
    >>> round(float(poisson_renyi(Fraction(1, 100), curve, Fraction(8), Fraction(4))), 15)
    0.00058407033552
    """
    return (
        unsampled
        if rate == 1
        else _between(alpha, unsampled, lambda n: _poisson(n, rate, _curve(inner, n)))
    )


def fixed_size_renyi(
    rate: Fraction, inner: Curve, alpha: Fraction, unsampled: Fraction
) -> Fraction:
    """Bound D_alpha of a sample of fixed size under replace, never above `unsampled`.

    `inner` is the curve of the unsampled loss, `unsampled` its value at alpha.
    """
    return (
        unsampled
        if rate == 1
        else _between(alpha, unsampled, lambda n: _fixed(n, rate, _curve(inner, n)))
    )


def _curve(inner: Curve, n: int) -> tuple[Fraction, ...]:
    return tuple(inner(Fraction(k)) for k in range(2, n + 1))


def _between(alpha: Fraction, unsampled: Fraction, level: Callable[[int], Fraction]) -> Fraction:
    """Bound D_alpha between two integer orders by the chord, which lies above a convex function.

    `level(n)` bounds (n-1) D_n, a convex function of the order that vanishes at 1.
    """
    low = alpha.numerator // alpha.denominator
    if low + 1 > _LARGEST_ORDER:
        return unsampled
    at_low = level(low) if low > 1 else Fraction(0)
    if alpha == low:
        return min(unsampled, up(at_low / (alpha - 1)))
    share = alpha - low
    return min(unsampled, up(((1 - share) * at_low + share * level(low + 1)) / (alpha - 1)))


@lru_cache(maxsize=4096)
def _poisson(n: int, rate: Fraction, curve: tuple[Fraction, ...]) -> Fraction:
    """log of (1-q)^(n-1) (1 + (n-1) q) + sum over k of C(n,k) (1-q)^(n-k) q^k e^((k-1) D_k)."""
    a, b = rate.as_integer_ratio()
    weights = [(b - a) ** (n - 1) * (b + (n - 1) * a)]
    weights += [math.comb(n, k) * (b - a) ** (n - k) * a**k for k in range(2, n + 1)]
    return _log_sum(
        weights, b**n, [Fraction(0), *((k - 1) * curve[k - 2] for k in range(2, n + 1))]
    )


@lru_cache(maxsize=4096)
def _fixed(n: int, rate: Fraction, curve: tuple[Fraction, ...]) -> Fraction:
    """A bound of (n-1) D_n for a sample of fixed size: the log of 1 + a + b, with q the rate.

    a = q^2 C(n,2) min(4 (e^D_2 - 1), 2 e^D_2); b = sum over k > 2 of 2 q^k C(n,k) e^((k-1) D_k).
    """
    a, b = rate.as_integer_ratio()
    weights = [b**n]
    exponents = [Fraction(0)]
    for k in range(2, n + 1):
        weight = math.comb(n, k) * a**k * b ** (n - k)
        if k == 2 and curve[0] < Fraction(69, 100):  # below log 2 the difference is the smaller
            weights[0] -= 4 * weight
            weight *= 2
        weights.append(2 * weight)
        exponents.append((k - 1) * curve[k - 2])
    return _log_sum(weights, b**n, exponents)


def shuffled(epsilon: Fraction, users: int, delta: Fraction) -> Fraction:
    """Bound the epsilon at `delta` of local reports that a shuffler mixed, rounded up.

    Feldman, McMillan and Talwar 2021, theorem 3.1. log(1 + (E-1)/(E+1) (8 sqrt(E log(4/delta) / n)
    + 8 E/n)) with E = e^epsilon, if 16 E log(2/delta) <= n; never above the local epsilon, which it
    is where the theorem does not apply.

    >>> round(float(shuffled(Fraction(1), 10**6, Fraction(1, 10**6))), 6)
    0.023497
    """
    if epsilon > 60:
        return epsilon
    mantissa, doublings = _exp_up(epsilon)
    grown = Fraction(mantissa << doublings, 1 << _BITS)
    if 16 * grown * log_up(2 / delta) > users:
        return epsilon
    square = grown * log_up(4 / delta) / users
    root = Fraction(
        math.isqrt((square.numerator << 2 * _BITS) // square.denominator) + 1, 1 << _BITS
    )
    return min(epsilon, up(log_up(1 + (grown - 1) / (grown + 1) * 8 * (root + grown / users))))


def _log_sum(weights: Sequence[int], whole: int, exponents: Sequence[Fraction]) -> Fraction:
    """Bound log(sum of weights * e^exponents / whole) from above.

    Only the first weight, at exponent 0, may be below 0.
    """
    terms = [(weights[0] << _BITS, 0)]
    for weight, exponent in zip(weights[1:], exponents[1:], strict=True):
        mantissa, doublings = _exp_up(exponent)
        terms.append((weight * mantissa, doublings))
    # in units of 2^floor: whatever lies 512 bits below the largest term is rounded up to one unit
    floor = max(
        0,
        max(value.bit_length() + doublings for value, doublings in terms)
        - whole.bit_length()
        - 2 * _BITS,
    )
    total = sum(
        value << doublings - floor if doublings >= floor else -(-value >> floor - doublings)
        for value, doublings in terms
    )
    if floor == 0 and total <= whole << _BITS:
        return Fraction(0)
    # both rounded against us, to keep the logarithm's argument short
    shift = max(0, whole.bit_length() - 2 * _BITS)
    return log_up(Fraction(-(-total >> shift), (whole >> shift) << _BITS)) + floor * log_two_up()


def _exp_up(x: Fraction) -> tuple[int, int]:
    """Bound e^x from above, for x >= 0: return (m, k) with e^x <= m 2^k / 2^192.

    Powers of two are taken apart; the rest is by the enclosure of e^-x.
    """
    two = log_two_down()
    doublings = int(x / two)
    rest = x - doublings * two
    return -(-(1 << 2 * _BITS) // exp_minus(rest, _BITS).low), doublings


def up(value: Fraction) -> Fraction:
    """Round a number up to the next multiple of 10^-30, so that sums stay short."""
    return Fraction(-(-value.numerator * _GRAIN // value.denominator), _GRAIN)
