"""Exact parameters of losses: each check returns the exact number, or says what is wrong with it."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from dither.canonical import Number, exact, positive
from dither.errors import ParameterError

if TYPE_CHECKING:

    class Exact:
        """A field that is given any number and read as a fraction: what a type checker knows of the checks below."""

        def __get__(self, instance: object, owner: object) -> Fraction: ...
        def __set__(self, instance: object, value: Number) -> None: ...
else:
    Exact = Fraction


def not_negative(value: Number, name: str) -> Fraction:
    number = exact(value, name)
    if number < 0:
        raise ParameterError(f"{name} must not be negative, got {value}")
    return number


def probability(value: Number, name: str) -> Fraction:
    number = not_negative(value, name)
    if number >= 1:
        raise ParameterError(f"{name} must lie in [0, 1), got {value}")
    return number


def rate(value: Number, name: str) -> Fraction:
    number = positive(value, name)
    if number > 1:
        raise ParameterError(f"{name} must lie in (0, 1], got {value}")
    return number


def count(value: Number, name: str) -> int:
    number = exact(value, name)
    if number.denominator != 1 or number < 1:
        raise ParameterError(f"{name} must be a positive integer, got {value}")
    return int(number)


def order(value: Number, name: str) -> Fraction:
    number = exact(value, name)
    if number <= 1:
        raise ParameterError(f"{name} must be above 1, got {value}")
    return number
