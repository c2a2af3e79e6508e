"""Keys of a GROUP BY as integers: labels of a CASE by their place, first days of periods by their number.

A key has a list of all its values. A text has none, and the first days of months are few among all days; so such
keys are grouped as integers, and shown as the labels that the integers stand for.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta

from dither.plan.algebra import Call, Expression, Value
from dither.plan.domain import Domain
from dither.plan.functions.calendar import date_of_days, days_of_date
from dither.sql.constants import number

PERIODS = ("trunc_year", "trunc_quarter", "trunc_month", "trunc_week")
_MONDAY = date(1970, 1, 5)


def period_of(value: Expression) -> str:
    """The period whose first day an expression is: "year", "quarter", "month", "week", or nothing."""
    if isinstance(value, Call) and value.function in PERIODS:
        return value.function.removeprefix("trunc_")
    return ""


def coded(value: Expression) -> tuple[Expression, tuple[str, ...]] | None:
    """A choice between text constants as codes, with the texts in the order they are written; else None.

    >>> code, labels = coded(Call("case", (Call("is_null", ()), Value("text", "none"), Value("text", "some"))))
    >>> labels, code.arguments[2]
    (('none', 'some'), Value(kind='number', value=Fraction(1, 1)))
    """
    labels: list[str] = []
    code = _code(value, labels)
    return (code, tuple(labels)) if code is not None and isinstance(value, Call) else None


def _code(value: Expression, labels: list[str]) -> Expression | None:
    if isinstance(value, Value) and value.kind == "text":
        if value.value not in labels:
            labels.append(str(value.value))
        return number(labels.index(str(value.value)))
    if not isinstance(value, Call) or value.function not in ("case", "if", "coalesce"):
        return None
    parts = list(value.arguments)
    last = [len(parts) - 1] if len(parts) % 2 else []
    places = list(range(len(parts))) if value.function == "coalesce" else [*range(1, len(parts), 2), *last]
    for place in places:
        part = _code(parts[place], labels)
        if part is None:
            return None
        parts[place] = part
    return Call(value.function, tuple(parts))


@dataclass(frozen=True)
class Listed:
    """A key as it is grouped by, and the domain that its values are shown from, if another one."""

    of: Expression
    labels: tuple[str, ...] = ()
    dated: bool = False
    first: int = 0

    def shown(self, domain: Domain) -> Domain:
        """The domain to show: labels for codes, first days for numbers of periods."""
        if not self.labels:
            return domain
        low, high = domain.listed
        labels = self.labels[low - self.first : high - self.first + 1]
        return Domain("category", domain.nullable, 0, len(labels) - 1, labels=labels, keys=(0, len(labels) - 1))


def listed(value: Expression, period: str, domain: Domain) -> Listed:
    """How an expression is grouped by. `domain` is its own, `period` what its days are the first of."""
    if found := coded(value):
        return Listed(found[0], found[1])
    if not period or domain.kind != "date":
        return Listed(value)
    first, last = (_number(date_of_days(each), period) for each in (domain.low, domain.high))
    labels = tuple(_first_day(each, period).isoformat() for each in range(first, last + 1))
    return Listed(Call("clamp", (_counted(value, period), number(first), number(last))), labels, True, first)


def _number(day: date, period: str) -> int:
    """Which week, month, quarter or year a day lies in."""
    match period:
        case "year":
            return day.year
        case "quarter":
            return day.year * 4 + (day.month - 1) // 3
        case "month":
            return day.year * 12 + day.month - 1
    return (day - _MONDAY).days // 7


def _first_day(place: int, period: str) -> date:
    match period:
        case "year":
            return date(place, 1, 1)
        case "quarter":
            return date(place // 4, place % 4 * 3 + 1, 1)
        case "month":
            return date(place // 12, place % 12 + 1, 1)
    return _MONDAY + timedelta(days=7 * place)


def _counted(value: Expression, period: str) -> Expression:
    """The number of a day's period, by functions of the table."""
    year = Call("year", (value,))
    match period:
        case "year":
            return year
        case "quarter" | "month":
            per = 12 if period == "month" else 4
            return Call("add", (Call("multiply", (year, number(per))), Call(period, (value,)), number(-1)))
    monday = Value("date", number(days_of_date(_MONDAY)).value)
    days = Call("days_between", (monday, value))
    return Call("integer_divide", (Call("bin", (days, number(7))), number(7)))
