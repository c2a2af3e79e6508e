"""k equal continuous Laplace mechanisms, exactly: residues of the inversion integral in integer
arithmetic.

Expanding M(s)^k binomially and closing each contour around s = -1/2 (docs/proofs/composition.md,
section 4),

    delta(eps) = sum over j with tau = (2j - k) e - eps > 0 of C(k, j) e^{-(k-j) e} r_j(tau),
    r_j(tau)   = residues of (s+1)^{j-1} s^{k-j-1} e^{s tau} / (2s+1)^k,

alternating sums that lose up to k bits: they are taken in fixed-point integers with so many to
spare, and the roundoff is bounded and added. (e = sensitivity / scale of one mechanism.)
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

import mpmath

from dither.accounting.bounds import Bounds, down, up

MOST = 500


@lru_cache(maxsize=16)
def _rows(count: int) -> dict[int, list[int]]:
    """Map each j from count // 2 up to the coefficients of (x+1)^{j-1} (x-1)^{count-j-1}.

    The highest power comes first. From one j to the next a factor x - 1 is taken out and x + 1 put
    in; j = count has a series up to x^{count-1}.
    """
    last = []
    running = 0
    for power in range(count):
        running += math.comb(
            count - 1, power
        )  # (x+1)^{count-1} / (x-1): minus the partial binomial sums
        last.append(-running)
    rows = {count: last[::-1]}
    row = [math.comb(count - 2, power) for power in range(count - 1)]
    for j in range(count - 1, max(1, count // 2) - 1, -1):
        rows[j] = row[::-1]
        if j == 1:
            break
        quotient = []
        carry = 0
        for value in reversed(row):  # division by x + 1, from the highest power down
            carry = value - carry
            quotient.append(carry)
        quotient = quotient[-2::-1]
        row = [
            (quotient[i - 1] if i else 0) - (quotient[i] if i < len(quotient) else 0)
            for i in range(len(quotient) + 1)
        ]
    return rows


def _coefficient(row: list[int], count: int, half_tau: Fraction, bits: int) -> int:
    """Compute 2^bits times the coefficient of x^{count-1} in row(x) e^{x tau/2}, for tau > 0.

    With x = 2s + 1 the residue at s = -1/2 is e^{-tau/2} 2^{1-count} times it.
    """
    point = (half_tau.numerator << bits) // half_tau.denominator
    term = 1 << bits
    total = 0
    first = count - len(row)
    for i in range(count):
        if i:
            term = (term * point >> bits) // i
            if not term:
                break
        if i >= first:
            total += row[i - first] * term
    return total


def laplace_delta(query_epsilon: Fraction, count: int, epsilon: Fraction) -> Bounds:
    """delta at epsilon >= 0 of `count` continuous Laplace mechanisms of sensitivity/scale =
    `query_epsilon`.

    >>> round(laplace_delta(Fraction(1), 1, Fraction(1, 2)).upper, 14)   # 1 - exp(-1/4)
    0.2211992169286
    """
    if epsilon >= count * query_epsilon:
        return Bounds(0.0, 0.0)
    bounds = _delta(query_epsilon, count, epsilon, 160)
    return bounds if bounds.lower > 2.0**-100 else _delta(query_epsilon, count, epsilon, 1200)


def _delta(query_epsilon: Fraction, count: int, epsilon: Fraction, exactness: int) -> Bounds:
    """Bracket delta of `count` Laplace queries to an absolute error of 2^-exactness."""
    bits = exactness + count + 4 * count.bit_length() + int(count * query_epsilon).bit_length() + 8
    total = 0
    for j in range(count, count // 2 - 1, -1):
        tau = (2 * j - count) * query_epsilon - epsilon
        if tau <= 0:
            break
        total += math.comb(count, j) * _coefficient(_rows(count)[j], count, tau / 2, bits)
    with mpmath.workprec(bits):
        # e^{-(count-j) e} e^{-tau/2} is the same for every j; the pole at 0, for j = count, adds
        # one
        rest = (count * query_epsilon - epsilon) / 2
        common = mpmath.ldexp(
            mpmath.exp(-mpmath.mpf(rest.numerator) / rest.denominator), 1 - count - bits
        )
        slack = mpmath.mpf(2) ** -exactness
        low = float(1 + common * total - slack)
        high = float(1 + common * total + slack)
    return Bounds(max(0.0, down(low)), min(1.0, up(high)))
