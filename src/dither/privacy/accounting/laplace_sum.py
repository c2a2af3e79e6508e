"""k equal continuous Laplace mechanisms, exactly: residues of the inversion integral in integer arithmetic.

Expanding M(s)^k binomially and closing each contour around s = -1/2 (docs/proofs/composition.md, section 4),

    delta(eps) = sum over j with tau = (2j - k) e - eps > 0 of C(k, j) e^{-(k-j) e} r_j(tau),
    r_j(tau)   = residues of (s+1)^{j-1} s^{k-j-1} e^{s tau} / (2s+1)^k,

alternating sums that lose about k digits: they are taken in fixed-point integers with 6k spare bits, and the roundoff
of each is bounded and added. (e = sensitivity / scale of one mechanism.)
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

import mpmath

from dither.privacy.accounting.bounds import Bounds, down, up

MOST = 300


@lru_cache(maxsize=4096)
def _coefficients(count: int, j: int) -> tuple[int, ...]:
    """Coefficients of (x+1)^{j-1} (x-1)^{count-j-1}, lowest power first, for 1 <= j <= count-1."""
    row = [1]
    for root, power in ((1, j - 1), (-1, count - j - 1)):
        for _ in range(power):
            row = [(row[i - 1] if i else 0) + root * (row[i] if i < len(row) else 0) for i in range(len(row) + 1)]
    return tuple(row)


@lru_cache(maxsize=4096)
def _last_coefficients(count: int) -> tuple[int, ...]:
    """Coefficients of (x+1)^{count-1} / (x-1) up to x^{count-1}: minus the partial binomial sums."""
    running, row = 0, []
    for power in range(count):
        running += math.comb(count - 1, power)
        row.append(-running)
    return tuple(row)


def _coefficient(count: int, j: int, half_tau: Fraction, bits: int) -> int:
    """2^bits times the coefficient of x^{count-1} in row(x) e^{x tau/2}, for tau > 0 and j >= 1.

    With x = 2s + 1 the residue at s = -1/2 is e^{-tau/2} 2^{1-count} times it.
    """
    row = _coefficients(count, j) if j < count else _last_coefficients(count)
    point = (half_tau.numerator << bits) // half_tau.denominator
    term, total = 1 << bits, 0
    for i in range(count):
        if i:
            term = (term * point >> bits) // i
        if count - 1 - i < len(row):
            total += row[count - 1 - i] * term
    return total


def laplace_delta(one: Fraction, count: int, epsilon: Fraction) -> Bounds:
    """delta at epsilon >= 0 of `count` continuous Laplace mechanisms of sensitivity/scale = `one`.

    >>> round(laplace_delta(Fraction(1), 1, Fraction(1, 2)).upper, 14)   # 1 - exp(-1/4)
    0.2211992169286
    """
    if epsilon >= count * one:
        return Bounds(0.0, 0.0)
    bounds = _delta(one, count, epsilon, 260)
    return bounds if bounds.lower > 2.0**-100 else _delta(one, count, epsilon, 1300)


def _delta(one: Fraction, count: int, epsilon: Fraction, spare: int) -> Bounds:
    """With `spare` bits beyond those that alternating sums of `count` may lose; errs by 2^(100 - spare)."""
    bits = spare + 6 * count
    total = size = 0
    for j in range(count, count // 2 - 1, -1):
        tau = (2 * j - count) * one - epsilon
        if tau <= 0:
            break
        term = math.comb(count, j) * _coefficient(count, j, tau / 2, bits)
        total, size = total + term, size + abs(term)
    with mpmath.workprec(bits):
        # e^{-(count-j) e} e^{-tau/2} is the same for every j; the pole at 0, for j = count, adds one
        rest = (count * one - epsilon) / 2
        common = mpmath.ldexp(mpmath.exp(-mpmath.mpf(rest.numerator) / rest.denominator), 1 - count - bits)
        # |row| sums to 2^count, the terms to e^{tau/2}: roundoff is below count^2 2^(2 count + 4) 2^-bits per residue
        slack = (common * size + 2) * mpmath.mpf(2) ** (100 - spare)
        low, high = float(1 + common * total - slack), float(1 + common * total + slack)
    return Bounds(max(0.0, down(low)), min(1.0, up(high)))
