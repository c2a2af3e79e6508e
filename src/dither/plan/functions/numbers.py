"""Functions of numbers: exact integers on a grid, no float on the way (but for sqrt, which IEEE rounds correctly)."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from itertools import product
from math import floor, isqrt

from dither.plan.domain import Domain, number
from dither.plan.functions.table import Arguments, Function, NullRule, cast, clamped, floor_divided, scaled

DIVISION = Fraction(1, 10**6)
ROOT = Fraction(1, 10**3)
EXACT_DOUBLE = 2**53


def _add(a: Arguments) -> Domain:
    a.all_of("number", 2)
    intervals, step, _ = scaled(a)
    return number(sum(low for low, _ in intervals), sum(high for _, high in intervals), step, a.any_null)


def _add_sql(a: Arguments, result: Domain) -> str:
    intervals, _, sql = scaled(a)
    most = sum(max(abs(low), abs(high)) for low, high in intervals)
    return " + ".join(cast(part, most) for part in sql)


def _subtract(a: Arguments) -> Domain:
    a.expect("number", "number")
    (low, high), (less, more) = scaled(a)[0]
    return number(low - more, high - less, scaled(a)[1], a.any_null)


def _subtract_sql(a: Arguments, result: Domain) -> str:
    intervals, _, (left, right) = scaled(a)
    most = sum(max(abs(low), abs(high)) for low, high in intervals)
    return f"{cast(left, most)} - {cast(right, most)}"


def _multiply(a: Arguments) -> Domain:
    a.expect("number", "number")
    x, y = a.domains
    corners = [p * q for p, q in product((x.low, x.high), (y.low, y.high))]
    return number(min(corners), max(corners), x.step * y.step, a.any_null)


def _multiply_sql(a: Arguments, result: Domain) -> str:
    sizes = (result.largest, *(domain.largest for domain in a.domains))
    return f"{cast(a.sql[0], *sizes)} * {cast(a.sql[1], *sizes)}"


def _rounded(ratio: Fraction) -> int:
    return floor(ratio + Fraction(1, 2))


def _divisors(domain: Domain) -> list[int]:
    """The divisors at which a quotient is extreme: ends of the interval and the steps next to 0."""
    near = [each for each in (-1, 1) if domain.low <= each <= domain.high]
    return [each for each in {domain.low, domain.high, *near} if each != 0]


def _quotient(a: Arguments, step: Fraction, shape: Callable[[Fraction], int]) -> Domain:
    x, y = a.domains
    values = [shape(Fraction(p, q) * (x.step / y.step / step)) for p in (x.low, x.high) for q in _divisors(y)] or [0]
    return number(min(values), max(values), step, a.any_null or y.low <= 0 <= y.high)


def _by_zero(a: Arguments) -> str:
    return f"{a.sql[1]} = 0"


def _zero(a: Arguments) -> str:
    """SQL: 1 where the divisor is 0, else 0."""
    return f"CAST({_by_zero(a)} AS BIGINT)"


def _divide(a: Arguments) -> Domain:
    a.expect("number", "number")
    return _quotient(a, DIVISION, _rounded)


def _divide_sql(a: Arguments, result: Domain) -> str:
    (x, y), ratio = a.domains, a.domains[0].step / a.domains[1].step / DIVISION
    most = 2 * x.largest * ratio.numerator + 2 * y.largest * ratio.denominator
    p, q = cast(a.sql[0], most), cast(a.sql[1], most)
    top = f"sign({a.sql[1]}) * (2 * {p} * {ratio.numerator} + {q} * {ratio.denominator})"
    bottom = f"2 * abs({q}) * {ratio.denominator} + {_zero(a)}"
    return f"{floor_divided(top, bottom)} + {_zero(a)} * ({result.low})"  # by 0: 0 // 1 + low


def _integer_divide(a: Arguments) -> Domain:
    a.expect("number", "number")
    return _quotient(a, Fraction(1), int)


def _integer_divide_sql(a: Arguments, result: Domain) -> str:
    (x, y), ratio = a.domains, a.domains[0].step / a.domains[1].step
    most = max(x.largest * ratio.numerator, y.largest * ratio.denominator)
    bottom = f"({cast(a.sql[1], most)} * {ratio.denominator} + {_zero(a)})"
    top = f"({cast(a.sql[0], most)} * {ratio.numerator} * (1 - {_zero(a)}))"
    return f"{top} // {bottom} + {_zero(a)} * ({result.low})"  # by 0: 0 // 1 + low


def _mod(a: Arguments) -> Domain:
    a.expect("number", "number")
    (low, high), (less, more) = scaled(a)[0]
    most = max(0, max(abs(less), abs(more)) - 1)
    nullable = a.any_null or less <= 0 <= more
    return number(max(low, -most) if low < 0 else 0, min(high, most) if high > 0 else 0, scaled(a)[1], nullable)


def _mod_sql(a: Arguments, result: Domain) -> str:
    left, right = scaled(a)[2]
    return f"{left} % ({right} + {_zero(a)})"  # by 0: x % 1, and 0 is always in the domain


def _one(a: Arguments) -> Domain:
    a.expect("number")
    return a.domains[0]


def _abs(a: Arguments) -> Domain:
    x = _one(a)
    low = 0 if x.low <= 0 <= x.high else min(abs(x.low), abs(x.high))
    return number(low, x.largest, x.step, x.nullable)


def _negate(a: Arguments) -> Domain:
    x = _one(a)
    return number(-x.high, -x.low, x.step, x.nullable)


def _sign(a: Arguments) -> Domain:
    x = _one(a)
    return number((x.low > 0) - (x.low < 0), (x.high > 0) - (x.high < 0), Fraction(1), x.nullable)


def _same(sql: str) -> Callable[[Arguments, Domain], str]:
    return lambda a, result: sql.format(cast(a.sql[0], a.domains[0].largest))


def _extreme(a: Arguments, least: bool) -> Domain:
    a.all_of("number", 2)
    intervals, step, _ = scaled(a)
    sure = [each for each, domain in zip(intervals, a.domains, strict=True) if not domain.nullable]
    lows, highs = [low for low, _ in intervals], [high for _, high in intervals]
    if least:
        low, high = min(lows), min(high for _, high in sure) if sure else max(highs)
    else:
        low, high = max(low for low, _ in sure) if sure else min(lows), max(highs)
    return number(low, high, step, not sure)


def _extreme_sql(a: Arguments, result: Domain) -> str:
    return f"{a.function}({', '.join(scaled(a)[2])})"


def _power(a: Arguments) -> Domain:
    a.expect("number", "number")
    n, x = a.whole(1, 1, 8), a.domains[0]
    ends = [x.low**n, x.high**n, *([0] if x.low <= 0 <= x.high else [])]
    return number(min(ends), max(ends), x.step**n, x.nullable)


def _power_sql(a: Arguments, result: Domain) -> str:
    return " * ".join([cast(a.sql[0], result.largest, a.domains[0].largest)] * a.whole(1, 1, 8))


def _sqrt(a: Arguments) -> Domain:
    x = _one(a)
    if max(x.largest * x.step.numerator, x.step.denominator) >= EXACT_DOUBLE:
        raise a.refuse("takes numbers of fewer than 2^53 steps")
    most = isqrt(int(max(0, x.high) * x.step / ROOT**2) + 1) + 1
    return number(0, most, ROOT, x.nullable or x.low < 0)


def _sqrt_sql(a: Arguments, result: Domain) -> str:
    step = a.domains[0].step
    real = f"CAST(greatest(0, {a.sql[0]}) AS DOUBLE) * CAST({step.numerator} AS DOUBLE)"
    root = f"sqrt({real} / CAST({step.denominator} AS DOUBLE))"
    grid = f"CAST(floor({root} * CAST({ROOT.denominator} AS DOUBLE) + CAST(0.5 AS DOUBLE)) AS BIGINT)"
    return clamped(grid, result.low, result.high)


def _to_number(a: Arguments) -> Domain:
    a.expect(("boolean", "number"))
    return number(a.domains[0].low, a.domains[0].high, a.domains[0].step, a.domains[0].nullable)


_ANY: NullRule = "null if an argument is"
_WIDTHS = "widths from the domains"
FUNCTIONS: tuple[Function, ...] = (
    Function("add", "two or more numbers", "their sum", _ANY, _WIDTHS, _add, _add_sql),
    Function("subtract", "two numbers", "the first less the second", _ANY, _WIDTHS, _subtract, _subtract_sql),
    Function("multiply", "two numbers", "their product", _ANY, _WIDTHS, _multiply, _multiply_sql),
    Function(
        "divide",
        "two numbers",
        "the quotient, rounded to 6 decimals; null if the second is 0",
        "null if it says so",
        "1 in place of a divisor 0",
        _divide,
        _divide_sql,
        _by_zero,
    ),
    Function(
        "integer_divide",
        "two numbers",
        "the quotient cut towards 0; null if the second is 0",
        "null if it says so",
        "1 in place of a divisor 0",
        _integer_divide,
        _integer_divide_sql,
        _by_zero,
    ),
    Function(
        "mod",
        "two numbers",
        "what integer_divide leaves, with the sign of the first; null if the second is 0",
        "null if it says so",
        "1 in place of a divisor 0",
        _mod,
        _mod_sql,
        _by_zero,
    ),
    Function("negate", "a number", "minus it", _ANY, _WIDTHS, _negate, _same("-{}")),
    Function("abs", "a number", "its absolute value", _ANY, _WIDTHS, _abs, _same("abs({})")),
    Function("sign", "a number", "-1, 0 or 1", _ANY, "none needed", _sign, _same("CAST(sign({}) AS BIGINT)")),
    Function(
        "least",
        "two or more numbers",
        "the smallest that is not null",
        "skips nulls",
        _WIDTHS,
        lambda a: _extreme(a, True),
        _extreme_sql,
    ),
    Function(
        "greatest",
        "two or more numbers",
        "the largest that is not null",
        "skips nulls",
        _WIDTHS,
        lambda a: _extreme(a, False),
        _extreme_sql,
    ),
    Function("power", "a number, and n from 1 to 8 (constant)", "its n-th power", _ANY, _WIDTHS, _power, _power_sql),
    Function(
        "sqrt",
        "a number",
        "its root, rounded to 3 decimals; null if it is negative",
        "null if it says so",
        "clamped argument",
        _sqrt,
        _sqrt_sql,
        lambda a: f"({a.sql[0]} < 0)",
    ),
    Function(
        "to_number", "a truth value or number", "1 for true, 0 for false", _ANY, "none needed", _to_number, _same("{}")
    ),
)
