"""e**epsilon as a rational that is certainly no larger: the one place where a local protocol meets
a real number.

`odds(epsilon)` is 2**b / ceil(2**b * e**-epsilon) with b = 40 + ceil(1.5 epsilon), so R <=
e**epsilon holds by integer arithmetic alone and R misses e**epsilon by a relative 2**-39 at most.
Every probability of `dither.local` is a rational function of R, hence every ratio of probabilities
is *exactly* R or less. docs/proofs/local.md, lemma 1.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from math import ceil

from dither.canonical import Number, positive, quote
from dither.errors import ParameterError
from dither.privacy.noise.enclosure import exp_minus

SMALLEST = Fraction(1, 1000)
LARGEST = Fraction(32)
_BITS = 40
_LOG_BITS = 40


def read_epsilon(value: Number) -> Fraction:
    """Read the exact epsilon given. Raises ParameterError outside [1/1000, 32]."""
    epsilon = positive(
        value, "epsilon", "choose e.g. epsilon=1; `dither local simulate` shows what it buys"
    )
    if not SMALLEST <= epsilon <= LARGEST:
        raise ParameterError(
            f"epsilon of a local protocol must lie between 1/1000 and 32, got {value}"
        )
    return epsilon


@lru_cache(maxsize=512)
def odds(epsilon: Fraction) -> Fraction:
    """A rational R <= e**epsilon, within a relative 2**-39.

    >>> odds(Fraction(1))
    Fraction(4398046511104, 1617950892751)
    """
    bits = _BITS + ceil(Fraction(3, 2) * epsilon)
    return Fraction(1 << bits, -(-exp_minus(epsilon, bits + 64).high >> 64))


def at_most_exp(ratio: Fraction, epsilon: Fraction, bits: int = 256) -> bool:
    """Whether ratio <= e**epsilon *certainly* (by an enclosure of e**-epsilon in integers).

    >>> at_most_exp(odds(Fraction(1)), Fraction(1)), at_most_exp(Fraction(2719, 1000), Fraction(1))
    (True, False)
    """
    return ratio * exp_minus(epsilon, bits).high <= 1 << bits


def log_above(ratio: Fraction) -> Fraction:
    """Find a rational epsilon with ratio <= e**epsilon, certified; within 2**-38 of the logarithm.

    >>> float(log_above(Fraction(3)))
    1.0986122886...
    """
    if ratio < 1:
        raise ParameterError(f"a ratio of probabilities is at least 1, got {quote(ratio)}")
    if ratio > 1 << 64:  # e^32 < 2^47; beyond 2^256 the enclosure of at_most_exp could never tell
        raise ParameterError(
            "these probabilities have a loss beyond 44: a local protocol takes at most 32"
        )
    low, high = 0, 1 << _LOG_BITS
    while not at_most_exp(ratio, Fraction(high, 1 << _LOG_BITS)):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (
            (low, middle)
            if at_most_exp(ratio, Fraction(middle, 1 << _LOG_BITS))
            else (middle, high)
        )
    return Fraction(high, 1 << _LOG_BITS)
