"""What every mechanism that adds integer noise shares: exact input, exact sum, rounding of scales against us."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dither.errors import ParameterError

_DIGITS = 20


def exact_integers(values: Any) -> NDArray[Any]:
    """`values` as an int64 or Python-integer array; floats are refused, since their rounding depends on data."""
    if isinstance(values, (int, np.integer)) and not isinstance(values, bool):
        values = [values]
    given = np.asarray(values)
    if given.dtype.kind == "i":
        return given.astype(np.int64)
    if given.dtype.kind == "u" or given.dtype == object:
        flat = given.ravel().tolist()
        if all(isinstance(value, int) and not isinstance(value, bool) for value in flat):
            return np.array([*flat, None], object)[:-1].reshape(given.shape)
    raise ParameterError(f"a mechanism takes exact integers, got {given.dtype}: round to the grid in the data layer")


def add(values: NDArray[Any], noise: NDArray[Any]) -> NDArray[Any]:
    """values + noise, exactly: int64 if every *sum* fits, else Python integers; a function of the sums alone."""
    if values.dtype == object or noise.dtype == object:
        return _narrow(values.astype(object) + noise.astype(object))
    total: NDArray[Any] = values + noise
    if (((values ^ total) & (noise ^ total)) < 0).any():
        total = values.astype(object) + noise.astype(object)
    return total


def _narrow(total: NDArray[Any]) -> NDArray[Any]:
    if all(-(1 << 63) <= value < 1 << 63 for value in total.ravel()):
        return total.astype(np.int64)
    return total


def round_up(number: Fraction) -> Fraction:
    """The smallest number with 20 significant bits that is at least `number`: more noise, and tables can be re-used.

    >>> round_up(Fraction(1, 3)) >= Fraction(1, 3), round_up(Fraction(10))
    (True, Fraction(10, 1))
    """
    return _grid(number, up=True)


def round_down(number: Fraction) -> Fraction:
    """The largest number with 20 significant bits that is at most `number` (which is positive)."""
    return _grid(number, up=False)


def _grid(number: Fraction, *, up: bool) -> Fraction:
    exponent = number.numerator.bit_length() - number.denominator.bit_length() - _DIGITS
    step = Fraction(2) ** exponent
    steps = number / step
    whole = -(-steps.numerator // steps.denominator) if up else steps.numerator // steps.denominator
    return whole * step
