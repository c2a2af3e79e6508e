"""What each scalar function means, in Python, one value at a time. Written from the words of the
function table alone.

Numbers are Fractions, days `datetime.date`, times aware `datetime.datetime`, truth values bool, the
rest text; null is None and makes the result null unless the function says otherwise.
"""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Callable
from fractions import Fraction
from functools import reduce
from typing import Any

from dither.plan.expressions import Call, Column, Value

_EPOCH = datetime.date(1970, 1, 1)
_ZERO = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def apply(expression: Any, row: dict[str, Any]) -> Any:
    """Compute the value of an expression in a row."""
    if isinstance(expression, Column):
        return row[expression.name]
    if isinstance(expression, Value):
        value = expression.value
        if isinstance(value, str) or expression.kind == "number":
            return value
        if expression.kind == "date":
            return _EPOCH + datetime.timedelta(days=int(value))
        return (
            _ZERO + datetime.timedelta(seconds=int(value))
            if expression.kind == "timestamp"
            else bool(value)
        )
    assert isinstance(expression, Call)
    arguments = [apply(argument, row) for argument in expression.arguments]
    if expression.function in WITH_NULLS:
        return WITH_NULLS[expression.function](*arguments)
    return None if None in arguments else PLAIN[expression.function](*arguments)


def compare(operator: str, left: Any, right: Any) -> bool | None:
    """Compare a value with a constant; None where one is null.

    Days and truth values may be given as numbers.
    """
    if left is None or right is None:
        return None
    if isinstance(right, Fraction) and isinstance(left, datetime.datetime):
        left = Fraction(int((left - _ZERO).total_seconds()))
    elif isinstance(right, Fraction) and isinstance(left, datetime.date):
        left = Fraction((left - _EPOCH).days)
    return bool(
        {
            "=": lambda: left == right,
            "<>": lambda: left != right,
            "<": lambda: left < right,
            "<=": lambda: left <= right,
            ">": lambda: left > right,
            ">=": lambda: left >= right,
        }[operator]()
    )


def _round(x: Fraction, digits: Fraction = Fraction(0)) -> Fraction:
    m = 10 ** int(digits)
    return Fraction(math.floor(x * m + Fraction(1, 2)), m)


def _trunc(x: Fraction) -> Fraction:
    return Fraction(math.trunc(x))


def _bucket(x: Fraction, low: Fraction, high: Fraction, n: Fraction) -> Fraction:
    if x < low:
        return Fraction(0)
    return n + 1 if x >= high else Fraction(math.floor((x - low) * n / (high - low)) + 1)


def _sqrt(x: Fraction) -> Fraction | None:
    return None if x < 0 else Fraction(math.floor(math.sqrt(float(x)) * 1000.0 + 0.5), 1000)


def _case_of_letters(text: str, upper: bool) -> str:
    return "".join((c.upper() if upper else c.lower()) if c.isascii() else c for c in text)


def _split(text: str, by: str, n: Fraction) -> str:
    pieces = text.split(by)
    return pieces[int(n) - 1] if n <= len(pieces) else ""


def _like(text: str, pattern: str) -> bool:
    written = "".join(".*" if c == "%" else "." if c == "_" else re.escape(c) for c in pattern)
    return re.fullmatch(written, text, re.DOTALL) is not None


def _parse(text: str, low: Fraction, high: Fraction) -> Fraction | None:
    """Read a text of up to 18 digits as a whole number, clamped to [low, high]; else None."""
    return (
        max(low, min(high, Fraction(int(text))))
        if re.fullmatch(r"[+-]?[0-9]{1,18}", text)
        else None
    )


def _months(day: datetime.date, n: Fraction) -> datetime.date:
    year, month = divmod(day.year * 12 + day.month - 1 + int(n), 12)
    return day.replace(year=year, month=month + 1, day=1) + datetime.timedelta(
        days=min(day.day, _length(year, month + 1)) - 1
    )


def _length(year: int, month: int) -> int:
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    return [31, 29 if leap else 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31][month - 1]


def _age(born: datetime.date, day: datetime.date) -> Fraction:
    return Fraction(day.year - born.year - ((day.month, day.day) < (born.month, born.day)))


def _days(n: Any) -> datetime.timedelta:
    return datetime.timedelta(days=int(n))


def _number(function: Callable[[Any], int]) -> Callable[[Any], Fraction]:
    return lambda value: Fraction(function(value))


PLAIN: dict[str, Callable[..., Any]] = {
    "add": lambda *x: sum(x, Fraction(0)),
    "subtract": lambda x, y: x - y,
    "multiply": lambda x, y: x * y,
    "divide": lambda x, y: _round(x / y, Fraction(6)) if y else None,
    "integer_divide": lambda x, y: _trunc(x / y) if y else None,
    "mod": lambda x, y: x - y * _trunc(x / y) if y else None,
    "negate": lambda x: -x,
    "abs": abs,
    "sign": lambda x: Fraction((x > 0) - (x < 0)),
    "floor": _number(math.floor),
    "ceil": _number(math.ceil),
    "trunc": _trunc,
    "round": _round,
    "to_integer": _round,
    "bin": lambda x, width: math.floor(x / width) * width,
    "clamp": lambda x, low, high: max(low, min(high, x)),
    "width_bucket": _bucket,
    "power": lambda x, n: x ** int(n),
    "sqrt": _sqrt,
    "to_number": Fraction,
    "lower": lambda x: _case_of_letters(x, False),
    "upper": lambda x: _case_of_letters(x, True),
    "trim": lambda x: x.strip(" "),
    "ltrim": lambda x: x.lstrip(" "),
    "rtrim": lambda x: x.rstrip(" "),
    "length": _number(len),
    "byte_length": lambda x: Fraction(len(x.encode())),
    "left": lambda x, n: x[: int(n)],
    "right": lambda x, n: x[-int(n) :] if n else "",
    "substring": lambda x, start, n: x[int(start) - 1 : int(start) - 1 + int(n)],
    "starts_with": lambda x, y: x.startswith(y),
    "ends_with": lambda x, y: x.endswith(y),
    "contains": lambda x, y: y in x,
    "position": lambda x, y: Fraction(x.find(y) + 1),
    "replace": lambda x, old, new: x.replace(old, new),
    "concat": lambda *x: "".join(x),
    "lpad": lambda x, n, c: x[: int(n)].rjust(int(n), c),
    "rpad": lambda x, n, c: x[: int(n)].ljust(int(n), c),
    "split_part": _split,
    "like": _like,
    "label": lambda x: "".join(x),
    "index_in": lambda x, *listed: Fraction(listed.index(x)) if x in listed else None,
    "parse_integer": _parse,
    "year": lambda d: Fraction(d.year),
    "quarter": lambda d: Fraction((d.month + 2) // 3),
    "month": lambda d: Fraction(d.month),
    "week": lambda d: Fraction(d.isocalendar().week),
    "day": lambda d: Fraction(d.day),
    "day_of_week": lambda d: Fraction(d.isoweekday()),
    "day_of_year": lambda d: Fraction(d.timetuple().tm_yday),
    "days_in_month": lambda d: Fraction(_length(d.year, d.month)),
    "is_weekend": lambda d: d.isoweekday() >= 6,
    "hour": lambda t: Fraction(t.hour),
    "minute": lambda t: Fraction(t.minute),
    "second": lambda t: Fraction(t.second),
    "date_of": lambda t: t.date(),
    "add_days": lambda d, n: d + _days(n),
    "days_between": lambda a, b: Fraction((b - a).days),
    "add_months": _months,
    "trunc_year": lambda d: d.replace(month=1, day=1),
    "trunc_quarter": lambda d: d.replace(month=(d.month - 1) // 3 * 3 + 1, day=1),
    "trunc_month": lambda d: d.replace(day=1),
    "trunc_week": lambda d: d - _days(d.isoweekday() - 1),
    "last_day": lambda d: d.replace(day=_length(d.year, d.month)),
    "add_seconds": lambda t, n: t + datetime.timedelta(seconds=int(n)),
    "seconds_between": lambda a, b: Fraction(int((b - a).total_seconds())),
    "age_years": _age,
    "eq": lambda x, y: compare("=", x, y),
    "ne": lambda x, y: compare("<>", x, y),
    "lt": lambda x, y: compare("<", x, y),
    "le": lambda x, y: compare("<=", x, y),
    "gt": lambda x, y: compare(">", x, y),
    "ge": lambda x, y: compare(">=", x, y),
    "in": lambda x, *listed: x in listed,
    "not": lambda x: not x,
    "xor": lambda x, y: x != y,
}


def _and(*truths: bool | None) -> bool | None:
    return False if False in truths else None if None in truths else True


def _or(*truths: bool | None) -> bool | None:
    return True if True in truths else None if None in truths else False


def _between(x: Any, low: Any, high: Any) -> bool | None:
    return _and(compare(">=", x, low), compare("<=", x, high))


def _case(*branches: Any) -> Any:
    for index in range(0, len(branches) - 1, 2):
        if branches[index] is True:
            return branches[index + 1]
    return branches[-1] if len(branches) % 2 else None


def _extreme(choose: Callable[..., Any]) -> Callable[..., Any]:
    """Make a function that returns the extreme of its arguments that are not null.

    `choose` is min or max; if all are null, so is the result.
    """

    def choose_present(*values: Any) -> Any:
        present = [value for value in values if value is not None]
        return reduce(choose, present) if present else None

    return choose_present


WITH_NULLS: dict[str, Callable[..., Any]] = {
    "least": _extreme(min),
    "greatest": _extreme(max),
    "and": _and,
    "or": _or,
    "between": _between,
    "is_null": lambda x: x is None,
    "is_not_null": lambda x: x is not None,
    "is_true": lambda x: x is True,
    "is_false": lambda x: x is False,
    "is_distinct_from": lambda x, y: (x is None) != (y is None) or (x is not None and x != y),
    "if": lambda c, x, y: x if c is True else y,
    "case": _case,
    "coalesce": lambda *x: next((value for value in x if value is not None), None),
    "nullif": lambda x, y: None if x is not None and x == y else x,
}
