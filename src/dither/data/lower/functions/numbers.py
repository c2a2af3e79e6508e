"""SQL of the functions of numbers: exact integers on a grid, no float on the way (but for sqrt,
which IEEE rounds)."""

from __future__ import annotations

from collections.abc import Callable

from dither.data.lower.dialect import dialect
from dither.data.lower.functions.sql import (
    FunctionSql,
    SqlArguments,
    cast,
    clamp_value,
    divide_floor,
    scaled_sql,
)
from dither.plan.domain import Domain
from dither.plan.functions.numbers import DIVISION, ROOT
from dither.plan.functions.rounding import step_of
from dither.plan.functions.table import common_step, scaled


def _add_sql(a: SqlArguments, result: Domain) -> str:
    intervals, _ = scaled(a)
    largest = sum(max(abs(low), abs(high)) for low, high in intervals)
    return " + ".join(cast(term, largest) for term in scaled_sql(a))


def _subtract_sql(a: SqlArguments, result: Domain) -> str:
    """Write the SQL of a difference, in a type that holds it."""
    intervals, _ = scaled(a)
    left, right = scaled_sql(a)
    largest = sum(max(abs(low), abs(high)) for low, high in intervals)
    return f"{cast(left, largest)} - {cast(right, largest)}"


def _multiply_sql(a: SqlArguments, result: Domain) -> str:
    sizes = (result.largest, *(domain.largest for domain in a.domains))
    return f"{cast(a.sql[0], *sizes)} * {cast(a.sql[1], *sizes)}"


def _by_zero(a: SqlArguments) -> str:
    return f"{a.sql[1]} = 0"


def _zero(a: SqlArguments) -> str:
    """SQL: 1 where the divisor is 0, else 0."""
    return dialect().truth(_by_zero(a))


def _divide_sql(a: SqlArguments, result: Domain) -> str:
    """Write the SQL of a quotient, rounded half up to the grid of divisions.

    By 0 it is `result.low`: the null flag tells it apart.
    """
    x, y = a.domains
    ratio = a.domains[0].step / a.domains[1].step / DIVISION
    largest = 2 * x.largest * ratio.numerator + 2 * y.largest * ratio.denominator
    p = cast(a.sql[0], largest)
    q = cast(a.sql[1], largest)
    sign = dialect().sign(a.sql[1])
    top = f"{sign} * (2 * {p} * {ratio.numerator} + {q} * {ratio.denominator})"
    bottom = f"2 * abs({q}) * {ratio.denominator} + {_zero(a)}"
    quotient = divide_floor(top, bottom, largest)
    return f"{quotient} + {_zero(a)} * ({result.low})"  # by 0: 0 // 1 + low


def _integer_divide_sql(a: SqlArguments, result: Domain) -> str:
    """Write the SQL of a quotient whose decimals are cut off.

    By 0 it is `result.low`: the null flag tells it apart.
    """
    x, y = a.domains
    ratio = a.domains[0].step / a.domains[1].step
    largest = max(x.largest * ratio.numerator, y.largest * ratio.denominator)
    bottom = f"({cast(a.sql[1], largest)} * {ratio.denominator} + {_zero(a)})"
    top = f"({cast(a.sql[0], largest)} * {ratio.numerator} * (1 - {_zero(a)}))"
    quotient = dialect().divide(top, bottom, largest)
    return f"{quotient} + {_zero(a)} * ({result.low})"  # by 0: 0 // 1 + low


def _mod_sql(a: SqlArguments, result: Domain) -> str:
    left, right = scaled_sql(a)
    return f"{left} % ({right} + {_zero(a)})"  # by 0: x % 1, and 0 is always in the domain


def _same(sql: str) -> FunctionSql:
    return lambda a, result: sql.format(cast(a.sql[0], a.domains[0].largest))


def _sign_sql(a: SqlArguments, result: Domain) -> str:
    return f"CAST({dialect().sign(cast(a.sql[0], a.domains[0].largest))} AS BIGINT)"


def _extreme_sql(a: SqlArguments, result: Domain) -> str:
    return f"{a.function}({', '.join(scaled_sql(a))})"


def _power_sql(a: SqlArguments, result: Domain) -> str:
    return " * ".join([cast(a.sql[0], result.largest, a.domains[0].largest)] * a.whole(1, 1, 8))


def _sqrt_sql(a: SqlArguments, result: Domain) -> str:
    """Write the SQL of a square root, rounded to its grid."""
    step = a.domains[0].step
    real = dialect().float_type
    value = f"CAST(greatest(0, {a.sql[0]}) AS {real}) * CAST({step.numerator} AS {real})"
    root = f"sqrt({value} / CAST({step.denominator} AS {real}))"
    scaled_root = f"{root} * CAST({ROOT.denominator} AS {real}) + CAST(0.5 AS {real})"
    grid = f"CAST(floor({scaled_root}) AS BIGINT)"
    return clamp_value(grid, result.low, result.high)


def _rounding(shape: str) -> FunctionSql:
    """Round grid integers to another step, as `plan.functions.rounding.round_grid` does."""

    def write_sql(a: SqlArguments, result: Domain) -> str:
        ratio = a.domains[0].step / step_of(a)
        n = ratio.numerator
        d = ratio.denominator
        largest = 2 * a.domains[0].largest * n + d
        wide = f"({cast(a.sql[0], largest)} * {n})"
        if shape == "floor":
            return divide_floor(wide, str(d), largest)
        if shape == "ceil":
            return f"-{divide_floor('-' + wide, str(d), largest)}"
        if shape == "trunc":
            return dialect().divide(wide, str(d), largest)
        return divide_floor(f"2 * {wide} + {d}", str(2 * d), largest)

    return write_sql


def _clamp_sql(a: SqlArguments, result: Domain) -> str:
    value, low, high = scaled_sql(a)
    return clamp_value(value, low, high)


def _bucket_sql(a: SqlArguments, result: Domain) -> str:
    """Write WIDTH_BUCKET: 0 below the first bucket, n + 1 above the last; all in whole grid
    steps."""
    low = a.number(1)
    high = a.number(2)
    n = a.whole(3, 1, 100_000)
    step = a.domains[0].step
    for constant in (low, high):
        step = common_step(step, constant) if constant else step
    factor = int(a.domains[0].step / step)
    first = int(low / step)
    last = int(high / step)
    largest = (a.domains[0].largest * factor + abs(first) + abs(last)) * n
    x = f"({cast(a.sql[0], largest)} * {factor})"
    above = f"(({x} - ({first})) * {n})"
    inside = f"{dialect().divide(above, str(last - first), largest)} + 1"
    return (
        f"CASE WHEN {x} < {first} THEN 0 WHEN {x} >= {last} THEN {n + 1} WHEN "
        f"{a.sql[0]} IS NOT NULL THEN {inside} END"
    )


FUNCTIONS: dict[str, FunctionSql] = {
    "add": _add_sql,
    "subtract": _subtract_sql,
    "multiply": _multiply_sql,
    "divide": _divide_sql,
    "integer_divide": _integer_divide_sql,
    "mod": _mod_sql,
    "negate": _same("-{}"),
    "abs": _same("abs({})"),
    "sign": _sign_sql,
    "least": _extreme_sql,
    "greatest": _extreme_sql,
    "power": _power_sql,
    "sqrt": _sqrt_sql,
    "to_number": _same("{}"),
    "floor": _rounding("floor"),
    "ceil": _rounding("ceil"),
    "trunc": _rounding("trunc"),
    "round": _rounding("round"),
    "to_integer": _rounding("round"),
    "bin": _rounding("floor"),
    "clamp": _clamp_sql,
    "width_bucket": _bucket_sql,
}
UNDEFINED: dict[str, Callable[[SqlArguments], str]] = {
    "divide": _by_zero,
    "integer_divide": _by_zero,
    "mod": _by_zero,
    "sqrt": lambda a: f"({a.sql[0]} < 0)",
}
"""Where a function is null though no argument is; its SQL then gives some value of the domain
there, no null."""
