"""Values that a user holds, read from whatever a program gives: indices, numbers, integers.

Every client refuses the same values, in every language (tests/local/conformance.json holds them): a
report that no value of the domain could have made would identify its sender. Messages never repeat
a value.
"""

from __future__ import annotations

from decimal import Decimal
from math import inf
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dither.errors import ParameterError


def read_value(value: Any, domain: int) -> int:
    """Read one value as an index below `domain`.

    Raises ParameterError, whose message never repeats the value.
    """
    if (
        not isinstance(value, (int, np.integer))
        or isinstance(value, bool)
        or not 0 <= value < domain
    ):
        raise ParameterError(
            f"a value must be an integer in the public domain 0..{domain - 1}: map unknown values "
            f"to 'other'"
        )
    return int(value)


def read_values(values: Any, domain: int) -> NDArray[np.int64]:
    """Read values as indices below `domain`.

    Raises ParameterError, whose message never repeats a value.
    """
    array = np.asarray(values)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise ParameterError("values must be a list of integers (positions in the public domain)")
    indices = array.astype(np.int64)
    if len(indices) and (indices.min() < 0 or indices.max() >= domain):
        raise ParameterError(
            f"a value lies outside the public domain 0..{domain - 1}: map unknown values to 'other'"
        )
    return indices


def read_number(value: Any) -> float:
    """Read one real number as a float, beyond the range of floats an infinity.

    Refuses texts, truth values and nan; the message never repeats the value.
    """
    is_number = isinstance(value, (Real, Decimal)) and not isinstance(value, (bool, np.bool_))
    if not is_number:
        raise ParameterError("a value must be a number: report a public number for what is missing")
    try:
        number = float(value)
    except OverflowError:
        number = inf if value > 0 else -inf
    if number != number:
        raise ParameterError("a value is nan: report a public number for what is missing")
    return number


def read_numbers(values: Any) -> NDArray[np.float64]:
    """Read real numbers of any shape, each by the rule of `read_number`."""
    array = np.asarray(values)
    if array.dtype.kind in "iuf" and (isinstance(values, np.ndarray) or array.ndim == 0):
        numbers = array.astype(np.float64)
        if np.isnan(numbers).any():
            raise ParameterError("a value is nan: report a public number for what is missing")
        return numbers
    elements = np.asarray(values, object)
    flat = [read_number(element) for element in elements.ravel()]
    return np.array(flat, np.float64).reshape(elements.shape)


def saturate_integers(values: Any) -> NDArray[np.int64]:
    """Read integers of any size and shape as int64, those beyond its range at its ends.

    Raises ParameterError for anything else.
    """
    elements = np.asarray(values, object)
    if any(
        isinstance(element, (bool, np.bool_)) or not isinstance(element, (int, np.integer))
        for element in elements.ravel()
    ):
        raise ParameterError("values must be integers: report a public one for what is missing")
    limits = np.iinfo(np.int64)
    clipped = [min(max(int(element), limits.min), limits.max) for element in elements.ravel()]
    return np.array(clipped, np.int64).reshape(elements.shape)


def one_row(value: Any) -> Any:
    """A batch of one value."""
    return repeat_value(value, 1)


def repeat_value(value: Any, count: int) -> Any:
    """A batch of `count` equal values."""
    if isinstance(value, (str, dict, tuple, list)):
        return [value] * count
    return np.repeat(np.asarray(value)[None], count, axis=0)
