"""Functions that put a number on a coarser grid or between bounds: exact, by integer division."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from dither.plan.domain import Domain, number
from dither.plan.functions.table import (
    Arguments,
    Function,
    NullRule,
    cast,
    clamped,
    common_step,
    floor_divided,
    scaled,
)


def _to_grid(step: Fraction, domain: Domain, shape: str) -> tuple[Callable[[int], int], Callable[[str], str]]:
    """Rounding of grid integers to another step: in Python, and in SQL."""
    ratio = domain.step / step
    n, d = ratio.numerator, ratio.denominator
    most = 2 * domain.largest * n + d

    def wide(sql: str) -> str:
        return f"({cast(sql, most)} * {n})"

    if shape == "floor":
        return lambda x: x * n // d, lambda sql: floor_divided(wide(sql), str(d))
    if shape == "ceil":
        return lambda x: -(-x * n // d), lambda sql: f"-{floor_divided('-' + wide(sql), str(d))}"
    if shape == "trunc":
        return lambda x: int(Fraction(x * n, d)), lambda sql: f"{wide(sql)} // {d}"
    return (
        lambda x: (2 * x * n + d) // (2 * d),
        lambda sql: floor_divided(f"2 * {wide(sql)} + {d}", str(2 * d)),
    )


def _step_of(a: Arguments) -> Fraction:
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


def _rounding(shape: str) -> tuple[Callable[[Arguments], Domain], Callable[[Arguments, Domain], str]]:
    def result(a: Arguments) -> Domain:
        step, x = _step_of(a), a.domains[0]
        at = _to_grid(step, x, shape)[0]
        return number(at(x.low), at(x.high), step, x.nullable)

    return result, lambda a, result: _to_grid(_step_of(a), a.domains[0], shape)[1](a.sql[0])


def _clamp(a: Arguments) -> Domain:
    a.expect("number", "number", "number")
    if a.number(1) > a.number(2):
        raise a.refuse("the lower bound is above the upper one")
    intervals, step, _ = scaled(a)
    (low, high), (floor_at, _), (top, _) = intervals
    return number(max(floor_at, min(top, low)), max(floor_at, min(top, high)), step, a.domains[0].nullable)


def _clamp_sql(a: Arguments, result: Domain) -> str:
    value, low, high = scaled(a)[2]
    return clamped(value, low, high)


def _bucket(a: Arguments) -> Domain:
    a.expect("number", "number", "number", "number")
    if a.number(1) >= a.number(2):
        raise a.refuse("the lower bound must be below the upper one")
    return number(0, a.whole(3, 1, 100_000) + 1, Fraction(1), a.domains[0].nullable)


def _bucket_sql(a: Arguments, result: Domain) -> str:
    low, high, n = a.number(1), a.number(2), a.whole(3, 1, 100_000)
    step = a.domains[0].step
    for constant in (low, high):
        step = common_step(step, constant) if constant else step
    factor, first, last = int(a.domains[0].step / step), int(low / step), int(high / step)
    most = (a.domains[0].largest * factor + abs(first) + abs(last)) * n
    x = f"({cast(a.sql[0], most)} * {factor})"
    inside = f"(({x} - ({first})) * {n}) // {last - first} + 1"
    return (
        f"CASE WHEN {x} < {first} THEN 0 WHEN {x} >= {last} THEN {n + 1} WHEN {a.sql[0]} IS NOT NULL THEN {inside} END"
    )


_ANY: NullRule = "null if an argument is"
_WIDTHS = "widths from the domains"
FUNCTIONS: tuple[Function, ...] = (
    Function("floor", "a number", "the whole number at or below it", _ANY, _WIDTHS, *_rounding("floor")),
    Function("ceil", "a number", "the whole number at or above it", _ANY, _WIDTHS, *_rounding("ceil")),
    Function("trunc", "a number", "it without its decimals", _ANY, _WIDTHS, *_rounding("trunc")),
    Function(
        "round",
        "a number, and how many decimals (0 to 12, constant)",
        "floor(x*m + 0.5)/m",
        _ANY,
        _WIDTHS,
        *_rounding("round"),
    ),
    Function("to_integer", "a number", "floor(x + 0.5)", _ANY, _WIDTHS, *_rounding("round")),
    Function(
        "bin",
        "a number, and a width (constant)",
        "the multiple of the width at or below it",
        _ANY,
        _WIDTHS,
        *_rounding("floor"),
    ),
    Function(
        "clamp",
        "a number, lower and upper bound (constants)",
        "the nearest number between them",
        _ANY,
        "CASE",
        _clamp,
        _clamp_sql,
    ),
    Function(
        "width_bucket",
        "a number, lower and upper bound, n (constants)",
        "0 below, 1 to n inside, n+1 from the upper on",
        _ANY,
        _WIDTHS,
        _bucket,
        _bucket_sql,
    ),
)
