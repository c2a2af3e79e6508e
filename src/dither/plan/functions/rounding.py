"""Functions that put a number on a coarser grid or between bounds: exact, by integer division."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from dither.plan.domain import Domain, number
from dither.plan.functions.table import (
    Arguments,
    Function,
    NullRule,
    scaled,
)


def round_grid(x: int, ratio: Fraction, shape: str) -> int:
    """Multiply a grid integer by `ratio` and round it: floor, ceil, trunc, else half up."""
    top = x * ratio.numerator
    bottom = ratio.denominator
    if shape == "floor":
        return top // bottom
    if shape == "ceil":
        return -(-top // bottom)
    if shape == "trunc":
        return int(Fraction(top, bottom))
    return (2 * top + bottom) // (2 * bottom)


def step_of(a: Arguments) -> Fraction:
    """Return the step that a call rounds to. Raises RefusedError for arguments that do not fit."""
    if a.function == "bin":
        a.expect("number", "number")
        if a.number(1) <= 0:
            raise a.refuse("the width must be positive")
        return a.number(1)
    if a.function == "round" and len(a.domains) == 2:
        a.expect("number", "number")
        return Fraction(1, 10) ** a.whole(1, 0, 12)
    a.expect("number")
    return Fraction(1)


def _rounding(shape: str) -> Callable[[Arguments], Domain]:
    """Make the rule for a function that rounds by `shape`."""

    def result(a: Arguments) -> Domain:
        step = step_of(a)
        x = a.domains[0]
        ratio = x.step / step
        return number(
            round_grid(x.low, ratio, shape), round_grid(x.high, ratio, shape), step, x.nullable
        )

    return result


def _clamp(a: Arguments) -> Domain:
    """Compute the domain of CLAMP(x, lowest, highest)."""
    a.expect("number", "number", "number")
    if a.number(1) > a.number(2):
        raise a.refuse("the lower bound is above the upper one")
    intervals, step = scaled(a)
    (low, high), (floor_at, _), (top, _) = intervals
    return number(
        max(floor_at, min(top, low)), max(floor_at, min(top, high)), step, a.domains[0].nullable
    )


def _bucket(a: Arguments) -> Domain:
    """Compute the domain of WIDTH_BUCKET(x, low, high, n): 0 to n + 1."""
    a.expect("number", "number", "number", "number")
    if a.number(1) >= a.number(2):
        raise a.refuse("the lower bound must be below the upper one")
    return number(0, a.whole(3, 1, 100_000) + 1, Fraction(1), a.domains[0].nullable)


_ANY: NullRule = "null if an argument is"
_WIDTHS = "widths from the domains"
FUNCTIONS: tuple[Function, ...] = (
    Function(
        "floor", "a number", "the whole number at or below it", _ANY, _WIDTHS, _rounding("floor")
    ),
    Function(
        "ceil", "a number", "the whole number at or above it", _ANY, _WIDTHS, _rounding("ceil")
    ),
    Function("trunc", "a number", "it without its decimals", _ANY, _WIDTHS, _rounding("trunc")),
    Function(
        "round",
        "a number, and how many decimals (0 to 12, constant)",
        "floor(x*m + 0.5)/m",
        _ANY,
        _WIDTHS,
        _rounding("round"),
    ),
    Function("to_integer", "a number", "floor(x + 0.5)", _ANY, _WIDTHS, _rounding("round")),
    Function(
        "bin",
        "a number, and a width (constant)",
        "the multiple of the width at or below it",
        _ANY,
        _WIDTHS,
        _rounding("floor"),
    ),
    Function(
        "clamp",
        "a number, lower and upper bound (constants)",
        "the nearest number between them",
        _ANY,
        "CASE",
        _clamp,
    ),
    Function(
        "width_bucket",
        "a number, lower and upper bound, n (constants)",
        "0 below, 1 to n inside, n+1 from the upper on",
        _ANY,
        _WIDTHS,
        _bucket,
    ),
)
