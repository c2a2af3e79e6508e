"""Coins and one-sided noise, exactly distributed: for mechanisms that no request can reach.

Parameters and sizes are those of `samplers`.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from dither.canonical import quote
from dither.errors import ParameterError
from dither.privacy.noise.enclosure import exp_minus
from dither.privacy.noise.samplers import (
    Parameter,
    Size,
    count_draws,
    give_shape,
    read_number,
    read_scale,
    sample,
)
from dither.privacy.noise.source import Words, check_source
from dither.privacy.noise.wide_tables import below_exp


def geometric(scale: Parameter, size: Size = None, *, source: Words | None = None) -> Any:
    """Draw g on 0, 1, 2, ... with P(g) proportional to exp(-g / scale)."""
    return sample("laplace", read_scale(scale, "scale"), False, size, source)


def bernoulli(probability: Parameter, size: Size = None, *, source: Words | None = None) -> Any:
    """Draw True with exactly the rational probability given.

    >>> bernoulli(0), bernoulli(1)
    (False, True)
    """
    p = read_number(probability, "probability")
    if not 0 <= p <= 1:
        raise ParameterError(f"probability must lie in [0, 1], got {quote(probability)}")
    return _threshold(
        (p.numerator << 64) // p.denominator, lambda word, more: _below(p, word, more), size, source
    )


def bernoulli_exp(x: Parameter, size: Size = None, *, source: Words | None = None) -> Any:
    """Draw True with probability e**-x, x >= 0 rational.

    >>> bernoulli_exp(0)
    True
    """
    number = read_number(x, "x")
    if number < 0:
        raise ParameterError(f"x must not be negative, got {quote(x)}")
    return _threshold(
        _exp_floor(number), lambda word, more: below_exp(number, word, 64, more), size, source
    )


@lru_cache(maxsize=512)
def _exp_floor(x: Fraction, width: int = 64) -> int:
    """Compute floor(2**width * e**-x) exactly, for x >= 0.

    A coin of probability e**-x draws one random word of `width` bits: True below this number,
    False above; the word equal to it is decided with more bits.
    """
    if x == 0:
        return 1 << width
    extra = 64
    # For x > 0 the floor is at most 2**width - 1, also where the upper bound is rounded up to 1.
    last = 2**width - 1
    while (bound := exp_minus(x, width + extra)).low >> extra != min(bound.high >> extra, last):
        extra += 64
    return bound.low >> extra


def _below(p: Fraction, word: int, source: Words, width: int = 64) -> bool:
    """Whether a uniform with the given first word lies below a rational p."""
    bits = width
    while True:
        if (word + 1) * p.denominator <= p.numerator << bits:
            return True
        if word * p.denominator >= p.numerator << bits:
            return False
        word = word << width | int(source.words(1, width)[0])
        bits += width


def _threshold(
    words_for_true: int,
    decide: Callable[[int, Words], bool],
    size: Size,
    source: Words | None,
    width: int = 64,
) -> Any:
    """Draw True for words below the threshold, False above.

    The one word at it is decided with more bits.
    """
    supply = check_source(source)
    words = supply.words(count_draws(size), width)
    if words_for_true == 1 << width:
        return give_shape(np.ones(len(words), np.bool_), size)
    values = words < np.uint64(words_for_true)
    for i in np.flatnonzero(words == np.uint64(words_for_true)):
        values[i] = decide(int(words[i]), supply)
    return give_shape(values, size)
