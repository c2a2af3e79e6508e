"""Functions of numbers: exact integers on a grid, no float on the way (but for sqrt, which IEEE
rounds correctly)."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from itertools import product
from math import floor, isqrt

from dither.plan.domain import Domain, number
from dither.plan.functions.table import Arguments, Function, NullRule, scaled

DIVISION = Fraction(1, 10**6)
ROOT = Fraction(1, 10**3)
EXACT_DOUBLE = 2**53


def _add(a: Arguments) -> Domain:
    """Compute the domain of a sum: ends add up."""
    a.all_of("number", 2)
    intervals, step = scaled(a)
    return number(
        sum(low for low, _ in intervals), sum(high for _, high in intervals), step, a.any_null
    )


def _subtract(a: Arguments) -> Domain:
    a.expect("number", "number")
    (low, high), (less, more) = scaled(a)[0]
    return number(low - more, high - less, scaled(a)[1], a.any_null)


def _multiply(a: Arguments) -> Domain:
    """Compute the domain of a product: its ends are among the products of ends."""
    a.expect("number", "number")
    x, y = a.domains
    corners = [p * q for p, q in product((x.low, x.high), (y.low, y.high))]
    return number(min(corners), max(corners), x.step * y.step, a.any_null)


def _round_number(ratio: Fraction) -> int:
    return floor(ratio + Fraction(1, 2))


def _divisors(domain: Domain) -> list[int]:
    """The divisors at which a quotient is extreme: ends of the interval and the steps next to 0."""
    near = [divisor for divisor in (-1, 1) if domain.low <= divisor <= domain.high]
    return [divisor for divisor in {domain.low, domain.high, *near} if divisor != 0]


def _quotient(a: Arguments, step: Fraction, shape: Callable[[Fraction], int]) -> Domain:
    """Compute the domain of a quotient on the grid of `step`; null where the divisor is 0.

    `shape` rounds it to the grid.
    """
    x, y = a.domains
    values = [
        shape(Fraction(p, q) * (x.step / y.step / step))
        for p in (x.low, x.high)
        for q in _divisors(y)
    ] or [0]
    return number(min(values), max(values), step, a.any_null or y.low <= 0 <= y.high)


def _divide(a: Arguments) -> Domain:
    a.expect("number", "number")
    return _quotient(a, DIVISION, _round_number)


def _integer_divide(a: Arguments) -> Domain:
    a.expect("number", "number")
    return _quotient(a, Fraction(1), int)


def _mod(a: Arguments) -> Domain:
    """Compute the domain of a remainder: it has the sign of the dividend and is below the
    divisor."""
    a.expect("number", "number")
    (low, high), (less, more) = scaled(a)[0]
    most = max(0, max(abs(less), abs(more)) - 1)
    nullable = a.any_null or less <= 0 <= more
    return number(
        max(low, -most) if low < 0 else 0,
        min(high, most) if high > 0 else 0,
        scaled(a)[1],
        nullable,
    )


def _same_domain(a: Arguments) -> Domain:
    a.expect("number")
    return a.domains[0]


def _abs(a: Arguments) -> Domain:
    x = _same_domain(a)
    low = 0 if x.low <= 0 <= x.high else min(abs(x.low), abs(x.high))
    return number(low, x.largest, x.step, x.nullable)


def _negate(a: Arguments) -> Domain:
    x = _same_domain(a)
    return number(-x.high, -x.low, x.step, x.nullable)


def _sign(a: Arguments) -> Domain:
    x = _same_domain(a)
    return number((x.low > 0) - (x.low < 0), (x.high > 0) - (x.high < 0), Fraction(1), x.nullable)


def _extreme(a: Arguments, least: bool) -> Domain:
    """Compute the domain of LEAST or GREATEST.

    Nulls are skipped, so only arguments that are never null bound both ends.
    """
    a.all_of("number", 2)
    intervals, step = scaled(a)
    sure = [
        interval
        for interval, domain in zip(intervals, a.domains, strict=True)
        if not domain.nullable
    ]
    lows = [low for low, _ in intervals]
    highs = [high for _, high in intervals]
    if least:
        low = min(lows)
        high = min(high for _, high in sure) if sure else max(highs)
    else:
        low = max(low for low, _ in sure) if sure else min(lows)
        high = max(highs)
    return number(low, high, step, not sure)


def _power(a: Arguments) -> Domain:
    """Compute the domain of a power with a constant exponent from 1 to 8."""
    a.expect("number", "number")
    n = a.whole(1, 1, 8)
    x = a.domains[0]
    ends = [x.low**n, x.high**n, *([0] if x.low <= 0 <= x.high else [])]
    return number(min(ends), max(ends), x.step**n, x.nullable)


def _sqrt(a: Arguments) -> Domain:
    """Compute the domain of a square root; null below 0.

    Raises RefusedError for numbers that doubles do not hold exactly.
    """
    x = _same_domain(a)
    if max(x.largest * x.step.numerator, x.step.denominator) >= EXACT_DOUBLE:
        raise a.refuse("takes numbers of fewer than 2^53 steps")
    largest_root = isqrt(int(max(0, x.high) * x.step / ROOT**2) + 1) + 1
    return number(0, largest_root, ROOT, x.nullable or x.low < 0)


def _to_number(a: Arguments) -> Domain:
    a.expect(("boolean", "number"))
    return number(a.domains[0].low, a.domains[0].high, a.domains[0].step, a.domains[0].nullable)


_ANY: NullRule = "null if an argument is"
_WIDTHS = "widths from the domains"
FUNCTIONS: tuple[Function, ...] = (
    Function("add", "two or more numbers", "their sum", _ANY, _WIDTHS, _add),
    Function("subtract", "two numbers", "the first less the second", _ANY, _WIDTHS, _subtract),
    Function("multiply", "two numbers", "their product", _ANY, _WIDTHS, _multiply),
    Function(
        "divide",
        "two numbers",
        "the quotient, rounded to 6 decimals; null if the second is 0",
        "null if it says so",
        "1 in place of a divisor 0",
        _divide,
    ),
    Function(
        "integer_divide",
        "two numbers",
        "the quotient cut towards 0; null if the second is 0",
        "null if it says so",
        "1 in place of a divisor 0",
        _integer_divide,
    ),
    Function(
        "mod",
        "two numbers",
        "what integer_divide leaves, with the sign of the first; null if the second is 0",
        "null if it says so",
        "1 in place of a divisor 0",
        _mod,
    ),
    Function("negate", "a number", "minus it", _ANY, _WIDTHS, _negate),
    Function("abs", "a number", "its absolute value", _ANY, _WIDTHS, _abs),
    Function("sign", "a number", "-1, 0 or 1", _ANY, "none needed", _sign),
    Function(
        "least",
        "two or more numbers",
        "the smallest that is not null",
        "skips nulls",
        _WIDTHS,
        lambda a: _extreme(a, True),
    ),
    Function(
        "greatest",
        "two or more numbers",
        "the largest that is not null",
        "skips nulls",
        _WIDTHS,
        lambda a: _extreme(a, False),
    ),
    Function(
        "power", "a number, and n from 1 to 8 (constant)", "its n-th power", _ANY, _WIDTHS, _power
    ),
    Function(
        "sqrt",
        "a number",
        "its root, rounded to 3 decimals; null if it is negative",
        "null if it says so",
        "clamped argument",
        _sqrt,
    ),
    Function(
        "to_number",
        "a truth value or number",
        "1 for true, 0 for false",
        _ANY,
        "none needed",
        _to_number,
    ),
)
