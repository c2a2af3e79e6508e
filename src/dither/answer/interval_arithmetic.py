"""Interval arithmetic on pairs of arrays: the ends of an operation, from the ends of its operands.

If every operand lies between its ends, so does the result between those that a function here
returns, whether the operands depend on each other or not. A missing end is infinite.

>>> square_low, square_high = raise_ends((np.array([-3.0]), np.array([2.0])), np.array(2.0))
>>> float(square_low[0]), float(square_high[0])
(0.0, 9.0)
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ends = tuple[Floats, Floats]

MONOTONE: dict[str, Callable[[Floats], Floats]] = {
    "sqrt": lambda x: np.sqrt(np.maximum(x, 0)),
    "exp": np.exp,
    "ln": lambda x: np.where(x > 0, np.log(np.maximum(x, 1e-300)), -np.inf),
    "floor": np.floor,
    "ceil": np.ceil,
    "sign": np.sign,
}


def open_ends(ends: Ends) -> Ends:
    """Replace missing ends by infinite ones."""
    low, high = ends
    return np.where(np.isnan(low), -np.inf, low), np.where(np.isnan(high), np.inf, high)


def no_ends() -> Ends:
    """No bound on either side."""
    return np.full(1, -np.inf), np.full(1, np.inf)


def negate_ends(ends: Ends) -> Ends:
    low, high = ends
    return -high, -low


def add_ends(left: Ends, right: Ends) -> Ends:
    return left[0] + right[0], left[1] + right[1]


def multiply_ends(left: Ends, right: Ends) -> Ends:
    """The least and the largest product of two ends; 0 times no bound is 0."""
    corners = [_product(first, second) for first in left for second in right]
    return np.minimum.reduce(corners), np.maximum.reduce(corners)


def _product(first: Floats, second: Floats) -> Floats:
    with np.errstate(invalid="ignore"):
        return np.where((first == 0) | (second == 0), 0.0, first * second)


def invert_ends(ends: Ends) -> Ends:
    """1 / x: no bounds where x may be 0."""
    low, high = ends
    is_apart = (low > 0) | (high < 0)
    return np.where(is_apart, 1 / high, -np.inf), np.where(is_apart, 1 / low, np.inf)


def absolute_ends(ends: Ends) -> Ends:
    low, high = ends
    return np.maximum(0, np.maximum(low, -high)), np.maximum(np.abs(low), np.abs(high))


def raise_ends(base: Ends, exponent: Floats) -> Ends:
    """Raise an interval to a public power.

    Even powers have their least value at 0, roots need x >= 0, negative powers invert.
    """
    size = np.abs(exponent)
    is_even = size % 2 == 0
    is_odd = size % 2 == 1
    distance_low, distance_high = absolute_ends(base)
    inner_low = np.where(is_even, distance_low, np.where(is_odd, base[0], np.maximum(base[0], 0)))
    inner_high = np.where(is_even, distance_high, np.where(is_odd, base[1], np.maximum(base[1], 0)))
    low = np.power(inner_low, size)
    high = np.power(inner_high, size)
    inverse_low, inverse_high = invert_ends((low, high))
    return np.where(exponent < 0, inverse_low, low), np.where(exponent < 0, inverse_high, high)


def exponential_ends(base: Floats, exponent: Ends) -> Ends:
    """A public number to the power x: monotone for a positive number, without bounds for others."""
    logarithm = np.log(np.where(base > 0, base, np.nan))
    low, high = multiply_ends(exponent, (logarithm, logarithm))
    return np.exp(low), np.exp(high)


def remainder_ends(ends: Ends, divisor: Floats) -> Ends:
    """Bound x % divisor, which has the sign of x.

    Between two multiples the ends are shifted; across a multiple it is the whole range.
    """
    low, high = ends
    size = np.abs(divisor)
    quotient = np.trunc(low / size)
    is_between = np.isfinite(quotient) & (quotient == np.trunc(high / size))
    widest_low = np.where(low < 0, np.maximum(low, -size), 0.0)
    widest_high = np.where(high > 0, np.minimum(high, size), 0.0)
    shift = np.where(is_between, quotient * size, 0.0)
    return (
        np.where(is_between, low - shift, widest_low),
        np.where(is_between, high - shift, widest_high),
    )


COMPARISONS: dict[str, Callable[[Floats, Floats], tuple[NDArray[np.bool_], NDArray[np.bool_]]]] = {
    "lt": lambda low, high: (high < 0, low < 0),
    "le": lambda low, high: (high <= 0, low <= 0),
    "gt": lambda low, high: (low > 0, high > 0),
    "ge": lambda low, high: (low >= 0, high >= 0),
    "eq": lambda low, high: ((low == 0) & (high == 0), (low <= 0) & (high >= 0)),
    "ne": lambda low, high: ((low > 0) | (high < 0), (low != 0) | (high != 0)),
}
"""Whether a difference in [low, high] compares so with 0: surely, and perhaps."""


def compare_ends(name: str, difference: Ends) -> Ends:
    """Bound a truth value by two, as 0 and 1.

    The first is "true for all numbers in doubt", the second "true for one of them".
    """
    surely, perhaps = COMPARISONS[name](*difference)
    return surely.astype(np.float64), perhaps.astype(np.float64)


def connect_ends(name: str, ends: list[Ends]) -> Ends:
    """Combine intervals of truth values (0 to 1) by AND, OR or NOT.

    One that is unknown may be either.
    """
    truths = [(np.clip(low, 0, 1), np.clip(high, 0, 1)) for low, high in ends]
    if name == "not":
        ((low, high),) = truths
        return 1 - high, 1 - low
    return extreme_ends(np.minimum if name == "and" else np.maximum, truths)


def extreme_ends(keep: Callable[[Floats, Floats], Floats], ends: list[Ends]) -> Ends:
    """Take the least or the largest of several intervals.

    `keep` picks of two ends, as np.minimum or np.maximum does.
    """
    low, high = ends[0]
    for other_low, other_high in ends[1:]:
        low = keep(low, other_low)
        high = keep(high, other_high)
    return low, high
