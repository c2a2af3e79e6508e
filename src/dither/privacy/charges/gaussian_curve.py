"""The exact privacy curve of Gaussian noise alone, from above, in integer arithmetic.

Proof: docs/proofs/fixed-plans.md#gaussian-noise-alone.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from math import isqrt

from dither.privacy.charges.normal import BITS, normal_below
from dither.privacy.noise.enclosure import exp_minus

SMALLEST_DELTA = Fraction(1, 1 << (BITS - 24))
"""Below this the rounding of what is enclosed would be most of a delta."""
_ROOT_BITS = 64
GRAINS = 1 << 32


@lru_cache(maxsize=256)
def find_gaussian_epsilon(square: Fraction, delta: Fraction) -> Fraction:
    """Find the epsilon of Gaussian noise alone at `delta`, rounded up to a multiple of 2**-32.

    `square` is (sensitivity / sigma)^2; `delta` is at least SMALLEST_DELTA.

    >>> float(find_gaussian_epsilon(Fraction(1), Fraction(1, 10**6)))
    4.88655...
    """
    low, high = -1, GRAINS
    while not is_gaussian_within(square, Fraction(high, GRAINS), delta):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        fits = is_gaussian_within(square, Fraction(middle, GRAINS), delta)
        low, high = (low, middle) if fits else (middle, high)
    return Fraction(high, GRAINS)


def is_gaussian_within(square: Fraction, epsilon: Fraction, delta: Fraction) -> bool:
    """Whether Gaussian noise alone is certainly (epsilon, delta)-DP.

    Its delta is P(N <= m/2 - epsilon/m) - e^epsilon P(N <= -m/2 - epsilon/m), m = sensitivity /
    sigma (Balle and Wang 2018, theorem 8).
    """
    mean = root_up(square)
    largest = normal_below(mean / 2 - epsilon / mean).high
    least = times_exponential(normal_below(-mean / 2 - epsilon / mean).low, epsilon)
    return largest - least <= delta * (1 << BITS)


def root_up(square: Fraction) -> Fraction:
    """Compute a square root, rounded up."""
    return Fraction(isqrt(int(square * 4**_ROOT_BITS)) + 1, 1 << _ROOT_BITS)


def times_exponential(value: int, exponent: Fraction) -> int:
    """Compute value * e^exponent, rounded down."""
    power = exp_minus(abs(exponent), BITS)
    return value * power.low >> BITS if exponent < 0 else (value << BITS) // power.high
