"""The samplers: integers, exactly distributed for the parameter given, at the speed of NumPy.

A float parameter means that float, exactly (its binary value); pass a `Fraction` for one tenth.
`size=None` gives one Python int, otherwise an int64 array of that shape. Scales from 1/1000 to
2**60; above 2**52, and for the rare element that leaves int64, the array holds Python integers, so
that no tail is ever cut.

>>> len(discrete_laplace(10, 1000)), discrete_gaussian(Fraction(1, 10), (2, 3)).shape
(1000, (2, 3))
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from numbers import Rational
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dither.canonical import quote
from dither.errors import ParameterError
from dither.privacy.noise.source import Words, check_source
from dither.privacy.noise.table import Family, Law, build
from dither.privacy.noise.wide_tables import Plan, draw

Parameter = int | float | Fraction
Size = int | tuple[int, ...] | None
SMALLEST, LARGEST = Fraction(1, 1000), Fraction(2**60)
_PYTHON_INTEGERS_ABOVE = 2**52
_SPARE_BITS = 24
FEW = 1000
"""So many draws of Laplace noise need no wide table: it takes longer to build than they take."""


def read_number(value: Parameter, name: str) -> Fraction:
    """Read the exact number given; a float means its binary value.

    Raises ParameterError for anything else.
    """
    if isinstance(value, bool) or not isinstance(value, (Rational, float)):
        raise ParameterError(
            f"{name} must be an int, float or Fraction, got {type(value).__name__}"
        )
    if isinstance(value, float) and not math.isfinite(value):
        raise ParameterError(f"{name} must be finite, got {quote(value)}")
    # as_integer_ratio of a NumPy integer holds NumPy integers, which wrap; Python's do not
    return (
        Fraction(value)
        if isinstance(value, float)
        else Fraction(int(value.numerator), int(value.denominator))
    )


def read_scale(value: Parameter, name: str) -> Fraction:
    """Read a scale exactly; refuse one outside of [1/1000, 2**60]."""
    number = read_number(value, name)
    if not SMALLEST <= number <= LARGEST:
        raise ParameterError(
            f"{name} must lie between 1/1000 and 2**60, got {quote(value)}: choose another "
            f"resolution"
        )
    return number


def count_draws(size: Size) -> int:
    """Count the draws that a numpy size asks for; None asks for one."""
    shape = (1,) if size is None else size if isinstance(size, tuple) else (size,)
    if not all(
        isinstance(n, (int, np.integer)) and not isinstance(n, bool) and n >= 0 for n in shape
    ):
        raise ParameterError(
            f"size must be None, a non-negative integer or a tuple of them, got {quote(size)}"
        )
    return math.prod(int(n) for n in shape)


def give_shape(values: NDArray[Any], size: Size) -> Any:
    """Reshape draws to the size asked for: a plain number for None, else an array."""
    return (
        values[0].item()
        if size is None and values.dtype != object
        else values[0]
        if size is None
        else values.reshape(size)
    )


@lru_cache(maxsize=512)
def plan_for(
    family: Family, scale: Fraction, signed: bool, width: int = 64, *, is_few: bool = False
) -> Plan:
    """Choose how noise of one scale (laplace) or sigma (gaussian) is drawn.

    One table up to 64 (256), or 16 for few draws of laplace; cells of width 2**shift above.
    """
    widest = 256 if family == "gaussian" else 16 if is_few else 64
    shift = 0 if scale <= widest else int(scale / widest).bit_length()
    near = scale / (1 << shift)
    rate = 1 / near if family == "laplace" else 1 / (2 * near * near)
    table = build(Law(family, rate, two_sided=signed and shift == 0), width)
    shared = width - shift - 1 >= _SPARE_BITS
    return Plan(table, shift, signed, scale > _PYTHON_INTEGERS_ABOVE, shared)


def sample(family: Family, scale: Fraction, signed: bool, size: Size, source: Words | None) -> Any:
    """Draw from one family of noise, in the shape asked for."""
    count = count_draws(size)
    plan = plan_for(family, scale, signed, is_few=count <= FEW)
    return give_shape(draw(plan, count, check_source(source)), size)


def discrete_laplace(scale: Parameter, size: Size = None, *, source: Words | None = None) -> Any:
    """Draw two-sided geometric noise: P(z) proportional to exp(-|z| / scale)."""
    return sample("laplace", read_scale(scale, "scale"), True, size, source)


def discrete_gaussian(sigma: Parameter, size: Size = None, *, source: Words | None = None) -> Any:
    """Draw discrete Gaussian noise: P(z) proportional to exp(-z**2 / (2 sigma**2)).

    Canonne, Kamath, Steinke 2020.
    """
    return sample("gaussian", read_scale(sigma, "sigma"), True, size, source)


def uniform_below(n: int, size: Size = None, *, source: Words | None = None) -> Any:
    """Draw uniformly from 0, 1, ..., n-1, by rejection of the words past the last multiple of n."""
    if isinstance(n, bool) or not isinstance(n, (int, np.integer)) or n < 1:
        raise ParameterError(f"n must be a positive integer, got {quote(n)}")
    n, count, supply = int(n), count_draws(size), check_source(source)
    if n > 2**63:
        return give_shape(np.array([_wide_below(n, supply) for _ in range(count)], object), size)
    return give_shape(_kept_below(n, count, supply), size)


def _kept_below(n: int, count: int, source: Words, width: int = 64) -> NDArray[np.int64]:
    """Draw `count` uniform integers below n, for n up to 2**63.

    Words from the largest multiple of n on are rejected; the others are reduced mod n.
    """
    whole = (1 << width) // n * n
    kept: list[NDArray[np.uint64]] = []
    missing = count
    while missing > 0 or not kept:
        words = source.words(missing, width)
        if whole < 1 << width:
            words = words[words < np.uint64(whole)]
        kept.append(words)
        missing -= len(words)
    return (np.concatenate(kept) % np.uint64(n)).astype(np.int64)


def _wide_below(n: int, source: Words, width: int = 64) -> int:
    """Draw one uniform integer below n of any size, by rejecting numbers of n's bit length."""
    bits = n.bit_length()
    while True:
        drawn = 0
        for word in source.words(-(-bits // width), width):
            drawn = drawn << width | int(word)
        drawn &= (1 << bits) - 1
        if drawn < n:
            return drawn
