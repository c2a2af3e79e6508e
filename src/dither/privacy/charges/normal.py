"""The standard normal distribution function, enclosed in integer arithmetic.

P(N <= x) - 1/2 = density(x) * (x + x^3/3 + x^5/15 + ...), a series of positive terms: the next one
is x^2 / (2k + 1) times the last; and P(N > x) <= e^(-x^2/2). Proof: docs/proofs/fixed-plans.md,
lemma 1.
"""

from __future__ import annotations

from fractions import Fraction

from dither.privacy.noise.enclosure import Enclosure, exp_minus, fixed, times

BITS = 224
HALF = 1 << (BITS - 1)
_FAR = 13
_DENSITY_AT_0 = Fraction(
    398942280401432677939946059934381868475858631164934657665925829670657925899, 10**75
)
"""The first 75 digits of 1 / sqrt(2 pi)."""


def normal_below(x: Fraction) -> Enclosure:
    """Enclose 2**224 * P(N <= x) for a standard normal N.

    >>> round(normal_below(Fraction(1)).high / 2**224, 9)
    0.841344746
    """
    central = _enclose_central(abs(x))
    if x < 0:
        return Enclosure(HALF - central.high, HALF - central.low)
    return Enclosure(HALF + central.low, HALF + central.high)


def _enclose_central(x: Fraction) -> Enclosure:
    """Enclose 2**224 * P(0 <= N <= x), never above one half."""
    decay = exp_minus(x * x / 2, BITS)
    if x > _FAR:
        return Enclosure(max(0, HALF - decay.high), HALF)
    square = fixed(x * x, BITS)
    term = total = fixed(x, BITS)
    odd = 1
    # once a term is below one unit and each further one below half of the last, all of them
    # together are below two units
    while term.high > 1 or 2 * (square.high >> BITS) >= odd:
        odd += 2
        product = times(term, square, BITS)
        term = Enclosure(product.low // odd, -(-product.high // odd))
        total = Enclosure(total.low + term.low, total.high + term.high)
    series = Enclosure(total.low, total.high + 2)
    at_0 = Enclosure(
        fixed(_DENSITY_AT_0, BITS).low, fixed(_DENSITY_AT_0 + Fraction(1, 10**75), BITS).high
    )
    central = times(times(decay, at_0, BITS), series, BITS)
    return Enclosure(min(central.low, HALF), min(central.high, HALF))
