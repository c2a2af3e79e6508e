"""Functions of numbers: exact integers on a grid, no float on the way (but for sqrt, which IEEE rounds correctly)."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from itertools import product
from math import floor, isqrt

from dither.plan.domain import Domain, number
from dither.plan.functions.table import Arguments, Function, NullRule, cast, clamped, common_step, floor_divided

DIVISION = Fraction(1, 10**6)
ROOT = Fraction(1, 10**3)
EXACT_DOUBLE = 2**53


def _scaled(a: Arguments) -> tuple[list[tuple[int, int]], Fraction, list[str]]:
    """All arguments on their common grid: intervals, step, SQL."""
    step, factors = a.common()
    intervals = [(d.low * f, d.high * f) for d, f in zip(a.domains, factors, strict=True)]
    most = max(abs(end) for interval in intervals for end in interval)
    sql = [f"({cast(s, most)} * {f})" for s, f in zip(a.sql, factors, strict=False)]
    return intervals, step, sql


def _add(a: Arguments) -> Domain:
    a.all_of("number", 2)
    intervals, step, _ = _scaled(a)
    return number(sum(low for low, _ in intervals), sum(high for _, high in intervals), step, a.any_null)


def _add_sql(a: Arguments, result: Domain) -> str:
    intervals, _, sql = _scaled(a)
    most = sum(max(abs(low), abs(high)) for low, high in intervals)
    return " + ".join(cast(part, most) for part in sql)


def _subtract(a: Arguments) -> Domain:
    a.expect("number", "number")
    (low, high), (less, more) = _scaled(a)[0]
    return number(low - more, high - less, _scaled(a)[1], a.any_null)


def _subtract_sql(a: Arguments, result: Domain) -> str:
    intervals, _, (left, right) = _scaled(a)
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


def _divide(a: Arguments) -> Domain:
    a.expect("number", "number")
    return _quotient(a, DIVISION, _rounded)


def _divide_sql(a: Arguments, result: Domain) -> str:
    (x, y), ratio = a.domains, a.domains[0].step / a.domains[1].step / DIVISION
    most = 2 * x.largest * ratio.numerator + 2 * y.largest * ratio.denominator
    p, q = cast(a.sql[0], most), cast(a.sql[1], most)
    top = f"sign({a.sql[1]}) * (2 * {p} * {ratio.numerator} + {q} * {ratio.denominator})"
    bottom = f"NULLIF(2 * abs({q}) * {ratio.denominator}, 0)"
    return floor_divided(top, bottom)


def _integer_divide(a: Arguments) -> Domain:
    a.expect("number", "number")
    return _quotient(a, Fraction(1), int)


def _integer_divide_sql(a: Arguments, result: Domain) -> str:
    (x, y), ratio = a.domains, a.domains[0].step / a.domains[1].step
    most = max(x.largest * ratio.numerator, y.largest * ratio.denominator)
    bottom = f"NULLIF({cast(a.sql[1], most)} * {ratio.denominator}, 0)"
    return f"({cast(a.sql[0], most)} * {ratio.numerator}) // {bottom}"


def _mod(a: Arguments) -> Domain:
    a.expect("number", "number")
    (low, high), (less, more) = _scaled(a)[0]
    most = max(0, max(abs(less), abs(more)) - 1)
    nullable = a.any_null or less <= 0 <= more
    return number(max(low, -most) if low < 0 else 0, min(high, most) if high > 0 else 0, _scaled(a)[1], nullable)


def _mod_sql(a: Arguments, result: Domain) -> str:
    left, right = _scaled(a)[2]
    return f"{left} % NULLIF({right}, 0)"


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
    intervals, step, _ = _scaled(a)
    sure = [each for each, domain in zip(intervals, a.domains, strict=True) if not domain.nullable]
    lows, highs = [low for low, _ in intervals], [high for _, high in intervals]
    if least:
        low, high = min(lows), min(high for _, high in sure) if sure else max(highs)
    else:
        low, high = max(low for low, _ in sure) if sure else min(lows), max(highs)
    return number(low, high, step, not sure)


def _extreme_sql(a: Arguments, result: Domain) -> str:
    return f"{a.function}({', '.join(_scaled(a)[2])})"


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
    intervals, step, _ = _scaled(a)
    (low, high), (floor_at, _), (top, _) = intervals
    return number(max(floor_at, min(top, low)), max(floor_at, min(top, high)), step, a.domains[0].nullable)


def _clamp_sql(a: Arguments, result: Domain) -> str:
    value, low, high = _scaled(a)[2]
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
    return f"CASE WHEN {a.sql[0]} >= 0 THEN {clamped(grid, result.low, result.high)} END"


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
        "NULLIF on the divisor",
        _divide,
        _divide_sql,
    ),
    Function(
        "integer_divide",
        "two numbers",
        "the quotient cut towards 0; null if the second is 0",
        "null if it says so",
        "NULLIF on the divisor",
        _integer_divide,
        _integer_divide_sql,
    ),
    Function(
        "mod",
        "two numbers",
        "what integer_divide leaves, with the sign of the first; null if the second is 0",
        "null if it says so",
        "NULLIF on the divisor",
        _mod,
        _mod_sql,
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
    Function("power", "a number, and n from 1 to 8 (constant)", "its n-th power", _ANY, _WIDTHS, _power, _power_sql),
    Function(
        "sqrt",
        "a number",
        "its root, rounded to 3 decimals; null if it is negative",
        "null if it says so",
        "CASE, clamped argument",
        _sqrt,
        _sqrt_sql,
    ),
    Function(
        "to_number", "a truth value or number", "1 for true, 0 for false", _ANY, "none needed", _to_number, _same("{}")
    ),
)
