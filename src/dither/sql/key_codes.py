"""Keys of a GROUP BY as integers.

Labels of a CASE by their index, first days and first seconds of periods by their number.

A key has a list of all its values. A text has none, and the first days of months are few among all
days; so such keys are grouped as integers, and shown as the labels that the integers stand for.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from fractions import Fraction

from dither.plan.algebra import Call, Expression, Value
from dither.plan.domain import Columns, Domain
from dither.plan.functions.calendar import date_of_days, days_of_date
from dither.sql.constants import number
from dither.sql.derived_labels import derive_labels

PERIODS = ("trunc_year", "trunc_quarter", "trunc_month", "trunc_week")
_MONDAY = date(1970, 1, 5)
SECONDS = {"hour": 3600, "minute": 60}
"""Lengths of the periods of a time that have a first second."""
MOST_TIMES = 100_000
"""More hours or minutes than this are not listed; grouped by, they are refused as too many keys."""


def start_of_period(time: Expression, period: str) -> Expression:
    """Write the first second of the hour or minute that a time lies in, at its own zone."""
    passed: Expression = Call("second", (time,))
    if period == "hour":
        minutes = Call("multiply", (Call("minute", (time,)), number(60)))
        passed = Call("add", (minutes, passed))
    return Call("add_seconds", (time, Call("negate", (passed,))))


def period_of(value: Expression) -> str:
    """The period whose first day or second an expression is.

    It is "year", "quarter", "month", "week", "hour", "minute", or nothing.
    """
    if not isinstance(value, Call):
        return ""
    if value.function in PERIODS:
        return value.function.removeprefix("trunc_")
    if value.function == "add_seconds":
        starts = (
            period for period in SECONDS if value == start_of_period(value.arguments[0], period)
        )
        return next(starts, "")
    return ""


def encode_choice(value: Expression) -> tuple[Expression, tuple[str, ...]] | None:
    """A choice between text constants as codes, with the texts in the order they are written.

    Returns None for any other expression.

    >>> code, labels = encode_choice(Call("case", (Call("is_null", ()), Value("text", "none"),
    ...     Value("text", "some"))))
    >>> labels, code.arguments[2]
    (('none', 'some'), Value(kind='number', value=Fraction(1, 1)))
    """
    labels: list[str] = []
    code = _encode(value, labels)
    return (code, tuple(labels)) if code is not None and isinstance(value, Call) else None


def _encode(value: Expression, labels: list[str]) -> Expression | None:
    """Replace texts by their index in `labels`, which grows; None where a value is no text."""
    if isinstance(value, Value) and value.kind == "text":
        if value.value not in labels:
            labels.append(str(value.value))
        return number(labels.index(str(value.value)))
    if not isinstance(value, Call) or value.function not in ("case", "if", "coalesce"):
        return None
    arguments = list(value.arguments)
    last = [len(arguments) - 1] if len(arguments) % 2 else []
    value_indexes = (
        list(range(len(arguments)))
        if value.function == "coalesce"
        else [*range(1, len(arguments), 2), *last]
    )
    for index in value_indexes:
        code = _encode(arguments[index], labels)
        if code is None:
            return None
        arguments[index] = code
    return Call(value.function, tuple(arguments))


@dataclass(frozen=True)
class KeyEncoding:
    """The expression that a key is grouped by, and the labels or days that its codes stand for."""

    of: Expression
    labels: tuple[str, ...] = ()
    dated: bool = False
    first: int = 0
    scale: Fraction = Fraction(1)

    def show_domain(self, domain: Domain) -> Domain:
        """Return the domain to show: labels for codes, first days for numbers of periods,
        multiples."""
        if not self.labels:
            return domain if self.scale == 1 else replace(domain, step=domain.step * self.scale)
        low, high = domain.listed
        labels = self.labels[low - self.first : high - self.first + 1]
        return Domain(
            "category",
            domain.nullable,
            0,
            len(labels) - 1,
            labels=labels,
            keys=(0, len(labels) - 1),
        )


def encode_key(value: Expression, period: str, domain: Domain, columns: Columns) -> KeyEncoding:
    """Choose how an expression is grouped by: by itself, by codes of labels, or by numbers of
    periods.

    `domain` is its own, `period` what its days are the first of.
    """
    if codes := encode_choice(value) or derive_labels(value, columns):
        return KeyEncoding(codes[0], codes[1])
    if domain.kind == "timestamp" and period in SECONDS:
        return _encode_times(value, period, domain)
    if not period or domain.kind != "date":
        return KeyEncoding(value)
    first, last = (
        _number_period(date_of_days(index), period) for index in (domain.low, domain.high)
    )
    labels = tuple(_first_day(index, period).isoformat() for index in range(first, last + 1))
    return KeyEncoding(
        Call("clamp", (_count_periods(value, period), number(first), number(last))),
        labels,
        True,
        first,
    )


def _encode_times(value: Expression, period: str, domain: Domain) -> KeyEncoding:
    """Group hours or minutes by their number since 1970, at the zone of the column.

    The values are first seconds, so the first of them is the domain's low end rounded up.
    """
    length = SECONDS[period]
    first = -((-domain.low - domain.offset) // length)
    last = (domain.high + domain.offset) // length
    if last - first >= MOST_TIMES:
        return KeyEncoding(value)
    epoch = datetime(1970, 1, 1)
    labels = tuple(
        (epoch + timedelta(seconds=index * length)).isoformat(sep=" ")
        for index in range(first, last + 1)
    )
    days = Call("days_between", (Value("date", Fraction(0)), Call("date_of", (value,))))
    hours = Call("add", (Call("multiply", (days, number(24))), Call("hour", (value,))))
    periods = hours
    if period == "minute":
        minutes = Call("multiply", (hours, number(60)))
        periods = Call("add", (minutes, Call("minute", (value,))))
    code = Call("clamp", (periods, number(first), number(last)))
    return KeyEncoding(code, labels, True, first)


def scale_key(value: Expression) -> KeyEncoding | None:
    """Group a multiple of a constant by what is multiplied, as in FLOOR(x / 50) * 50.

    None for any other expression.
    """
    match value:
        case Call("multiply", (Call() as inner, Value("number", Fraction() as scale))) | Call(
            "multiply", (Value("number", Fraction() as scale), Call() as inner)
        ) if scale > 0:
            return KeyEncoding(inner, scale=scale)
    return None


def _number_period(day: date, period: str) -> int:
    """Compute the number of the week, month, quarter or year that a day lies in."""
    match period:
        case "year":
            return day.year
        case "quarter":
            return day.year * 4 + (day.month - 1) // 3
        case "month":
            return day.year * 12 + day.month - 1
    return (day - _MONDAY).days // 7


def _first_day(index: int, period: str) -> date:
    """Compute the first day of the period of this number: the inverse of `_number_period`."""
    match period:
        case "year":
            return date(index, 1, 1)
        case "quarter":
            return date(index // 4, index % 4 * 3 + 1, 1)
        case "month":
            return date(index // 12, index % 12 + 1, 1)
    return _MONDAY + timedelta(days=7 * index)


def _count_periods(value: Expression, period: str) -> Expression:
    """Write the number of a day's period, by functions of the table."""
    year = Call("year", (value,))
    match period:
        case "year":
            return year
        case "quarter" | "month":
            per_year = 12 if period == "month" else 4
            return Call(
                "add",
                (Call("multiply", (year, number(per_year))), Call(period, (value,)), number(-1)),
            )
    monday = Value("date", number(days_of_date(_MONDAY)).value)
    days = Call("days_between", (monday, value))
    return Call("integer_divide", (Call("bin", (days, number(7))), number(7)))
