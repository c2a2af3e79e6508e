"""Constants of a question, and arithmetic on constants alone."""

from __future__ import annotations

from fractions import Fraction

from sqlglot import exp

from dither.catalog import scalars, written
from dither.plan.algebra import Expression, Value

MONTHS = {"MONTH": 1, "QUARTER": 3, "YEAR": 12}
_MOST = 10**2000
"""No constant grows beyond this: two literals of the longest kind still multiply."""
DAYS = {"DAY": 1, "WEEK": 7}
SECONDS = {"SECOND": 1, "MINUTE": 60, "HOUR": 3600, "DAY": 86_400, "WEEK": 604_800}


def number(value: Fraction | int) -> Value:
    return Value("number", Fraction(value))


def truth(value: bool) -> Value:
    return Value("boolean", Fraction(int(value)))


def read_literal(node: exp.Literal) -> Value | None:
    """A number or a text; None for what is neither."""
    if node.is_string:
        return Value("text", str(node.this))
    value = scalars.number(str(node.this))
    return None if value is None else number(value)


def as_kind(value: Value, kind: str, offset: int = 0) -> Value | None:
    """Read a text constant as a day, a second at a zone, or a truth value, as SQL reads it.

    Returns None where it is none of these.
    """
    text = str(value.value).strip()
    if kind == "date":
        days = scalars.days(text)
        return None if days is None else Value("date", Fraction(days))
    if kind == "timestamp":
        seconds = scalars.seconds(text if len(text) > 10 else f"{text}T00:00:00", offset)
        return None if seconds is None else Value("timestamp", Fraction(seconds))
    if kind == "boolean":
        flag = written.boolean(text.lower())
        return None if flag is None else truth(flag)
    return None


def fold_constants(function: str, arguments: tuple[Expression, ...]) -> Value | None:
    """Compute arithmetic on constants exactly.

    None where an argument is no constant, or the result has too many digits.
    """
    values = [
        argument.value
        for argument in arguments
        if isinstance(argument, Value) and argument.kind == "number"
    ]
    if len(values) != len(arguments) or not all(isinstance(value, Fraction) for value in values):
        return None
    result = _compute(function, [Fraction(value) for value in values])
    if result is None or max(abs(result.numerator), result.denominator) >= _MOST:
        return None
    return number(result)


def _compute(function: str, numbers: list[Fraction]) -> Fraction | None:
    """Compute one arithmetic function of numbers; None where it is not defined."""
    match function, numbers:
        case "add", [*_]:
            return sum(numbers, Fraction(0))
        case "subtract", [left, right]:
            return left - right
        case "multiply", [left, right]:
            return left * right
        case "divide", [left, right] if right:
            return left / right
        case "negate", [only]:
            return -only
    return None


def read_interval(node: exp.Interval) -> tuple[int, str] | None:
    """Read INTERVAL 3 DAY or INTERVAL '3 days' as (3, "DAY"). None where it cannot be read."""
    amount = node.this
    unit = node.args.get("unit")
    negative = isinstance(amount, exp.Neg)
    amount = amount.this if isinstance(amount, exp.Neg) else amount
    if not isinstance(amount, exp.Literal):
        return None
    words = str(amount.this).split()
    if unit is None and len(words) == 2:
        name = words.pop().upper()
    else:
        name = str(unit.name if unit is not None else "").upper()
    whole = written.whole(words[0]) if len(words) == 1 else None
    name = name.removesuffix("S")
    return None if whole is None or not name else ((-whole if negative else whole), name)
