"""Numbers that a person gave, as floats or whole numbers of a stated range. The kernel reads exact
ones alone."""

from __future__ import annotations

from fractions import Fraction

from dither.canonical import MOST_FLOAT, Number, exact, number_text, quote
from dither.errors import ParameterError


def as_float(value: Number, name: str) -> float:
    """Return the float nearest to a number from outside.

    Raises ParameterError where floats have none: above 1e300, or below 1e-300.
    """
    number = exact(value, name)
    if number and not 1 <= abs(number) * MOST_FLOAT <= MOST_FLOAT**2:
        raise ParameterError(
            f"{name} must lie between 1e-300 and 1e300, got {number_text(number)}: choose e.g. 1"
        )
    return float(number)


def whole_number(value: int, name: str, most: int = 2**63 - 1, remedy: str = "") -> int:
    """Return a whole number from 1 to `most`.

    Raises ParameterError for truth values, floats and everything else.
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ParameterError(
            f"{name} must be a positive whole number, got {quote(value)}"
            + (f": {remedy}" if remedy else "")
        )
    if value > most:
        more = f": {remedy}" if remedy else ""
        raise ParameterError(
            f"{name} must be at most {most:,}, got {number_text(Fraction(value))}{more}"
        )
    return int(value)
