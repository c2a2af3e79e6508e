"""Exact parameters of losses.

Each check returns the exact number, or says what is wrong with it.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import wraps
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from dither.canonical import Number, exact, number_text, positive, quote
from dither.errors import DitherError, ParameterError

if TYPE_CHECKING:

    class Exact:
        """A field that is given any number and read as a fraction: what a type checker knows of the
        checks below."""

        def __get__(self, instance: object, owner: object) -> Fraction: ...
        def __set__(self, instance: object, value: Number) -> None: ...
else:
    Exact = Fraction

P = ParamSpec("P")
T = TypeVar("T")


def refuse_beyond_floats(work: Callable[P, T]) -> Callable[P, T]:
    """Give a function a ParameterError where its numbers leave the range of floats.

    That range is about 1e-300 to 1e300. For public doors whose exact parameters are computed with
    in floats: overflow, a division by what became 0, and the domain errors of `math` are all the
    same mistake of the caller's. What is nested too deeply is refused too.

    >>> refuse_beyond_floats(lambda size: 1 / float(size))(Fraction(10) ** 400)
    Traceback (most recent call last):
        ...
    dither.errors.ParameterError: a parameter is too large or too small to compute with ...
    """

    @wraps(work)
    def guarded(*arguments: P.args, **options: P.kwargs) -> T:
        """Run the work; numbers beyond floats, or too deep a nesting, become a ParameterError."""
        try:
            return work(*arguments, **options)
        except DitherError:
            raise
        except RecursionError:
            raise ParameterError("nested too deeply: compose the parts as one sum") from None
        except (ArithmeticError, ValueError) as error:
            if isinstance(error, ValueError) and not str(error).startswith(_OF_FLOATS):
                raise
            raise ParameterError(
                f"a parameter is too large or too small to compute with ({type(error).__name__}): "
                f"choose epsilon, "
                "scale, sigma and sensitivity between 1e-30 and 1e30, and delta above 1e-300"
            ) from None

    return guarded


_OF_FLOATS = (
    "math domain error",
    "cannot convert float",
    "expected a nonnegative input",
    "Exceeds the limit",
    "zero-size array",
)


def not_negative(value: Number, name: str) -> Fraction:
    """Read `value` as an exact number. Raises ParameterError below 0; `name` is for the message."""
    number = exact(value, name)
    if number < 0:
        raise ParameterError(f"{name} must not be negative, got {number_text(number)}")
    return number


def probability(value: Number, name: str) -> Fraction:
    """Read `value` as an exact number. Raises ParameterError outside [0, 1)."""
    number = not_negative(value, name)
    if number >= 1:
        raise ParameterError(f"{name} must lie in [0, 1), got {number_text(number)}")
    return number


def rate(value: Number, name: str) -> Fraction:
    """Read a sampling rate as an exact number. Raises ParameterError outside (0, 1]."""
    number = positive(value, name)
    if number > 1:
        raise ParameterError(f"{name} must lie in (0, 1], got {number_text(number)}")
    return number


def count(value: Number, name: str) -> int:
    """Read `value` as a positive whole number. Raises ParameterError for any other."""
    number = exact(value, name)
    if number.denominator != 1 or number < 1:
        raise ParameterError(f"{name} must be a positive integer, got {number_text(number)}")
    return int(number)


def order(value: Number, name: str) -> Fraction:
    """Read a Renyi order as an exact number. Raises ParameterError unless it is above 1."""
    number = exact(value, name)
    if number <= 1:
        raise ParameterError(f"{name} must be above 1, got {number_text(number)}")
    return number


def theorem(value: object, name: str) -> str:
    """The name of the theorem that a shuffled loss rests on; any other is refused."""
    if value != "FMT21":  # Feldman, McMillan and Talwar 2021
        raise ParameterError(
            f"shuffling is accounted by a named theorem only: {name}='FMT21', got {quote(value)}"
        )
    return str(value)
