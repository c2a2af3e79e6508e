"""Functions of days and seconds. Days count from 1970-01-01 and lie in the years 1 to 9999, seconds
are UTC.

Parts of a timestamp are read at its column's fixed zone. No interval is ever added to a day outside
those years: the result's domain is checked when the plan is made.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from fractions import Fraction

from dither.plan.domain import FIRST_DAY, LAST_DAY, Domain, number
from dither.plan.functions.calendar import date_of_days, days_of_date, month_days, plus_months
from dither.plan.functions.table import Arguments, Function, NullRule, truth

DAY = 86_400


def _day(low: int, high: int, nullable: bool, a: Arguments) -> Domain:
    """Make the domain of a date. Raises RefusedError where it could leave the years 1 to 9999."""
    if low < FIRST_DAY or high > LAST_DAY:
        raise a.refuse(
            "the day could lie outside the years 1 to 9999: narrow the bounds of its arguments"
        )
    return Domain("date", nullable, low, high)


def _date_field(low: int, high: int) -> Callable[[Arguments], Domain]:
    """Make the rule for a field of a date, such as the month: a number from `low` to `high`."""

    def result(a: Arguments) -> Domain:
        a.expect("date")
        return number(low, high, Fraction(1), a.domains[0].nullable)

    return result


def _year(a: Arguments) -> Domain:
    a.expect("date")
    x = a.domains[0]
    return number(date_of_days(x.low).year, date_of_days(x.high).year, Fraction(1), x.nullable)


def _weekend(a: Arguments) -> Domain:
    a.expect("date")
    return truth(a.domains[0].nullable)


def _time_part(high: int) -> Callable[[Arguments], Domain]:
    """Make the rule for a field of a time, such as the hour: a number from 0 to `high`."""

    def result(a: Arguments) -> Domain:
        a.expect("timestamp")
        return number(0, high, Fraction(1), a.domains[0].nullable)

    return result


def _date_of(a: Arguments) -> Domain:
    a.expect("timestamp")
    x = a.domains[0]
    return _day((x.low + x.offset) // DAY, (x.high + x.offset) // DAY, x.nullable, a)


def _add_days(a: Arguments) -> Domain:
    """Compute the domain of a date plus a whole number of days."""
    a.expect("date", "number")
    x, n = a.domains
    if n.step.denominator != 1:
        raise a.refuse("adds whole days: round the number first")
    return _day(x.low + n.low * int(n.step), x.high + n.high * int(n.step), a.any_null, a)


def _elapsed(kind: str) -> Callable[[Arguments], Domain]:
    """Make the rule for the days or seconds from the first date or time to the second."""

    def result(a: Arguments) -> Domain:
        a.expect(kind, kind)  # type: ignore[arg-type]
        start, end = a.domains
        return number(end.low - start.high, end.high - start.low, Fraction(1), a.any_null)

    return result


def _add_months(a: Arguments) -> Domain:
    """Compute the domain of a date plus a constant number of months."""
    a.expect("date", "number")
    months = a.whole(1, -120_000, 120_000)
    x = a.domains[0]
    return _day(plus_months(x.low, months), plus_months(x.high, months), x.nullable, a)


def _truncated(shape: Callable[[date], date]) -> Callable[[Arguments], Domain]:
    """Make the rule for a date that `shape` moves to the first or last day of a period."""

    def result(a: Arguments) -> Domain:
        a.expect("date")
        x = a.domains[0]
        return _day(
            days_of_date(shape(date_of_days(x.low))),
            days_of_date(shape(date_of_days(x.high))),
            x.nullable,
            a,
        )

    return result


def _week(a: Arguments) -> Domain:
    a.expect("date")
    x = a.domains[0]
    return _day(x.low - (x.low + 3) % 7, x.high - (x.high + 3) % 7, x.nullable, a)


def _add_seconds(a: Arguments) -> Domain:
    """Compute the domain of a time plus a whole number of seconds."""
    a.expect("timestamp", "number")
    x, n = a.domains
    if n.step.denominator != 1:
        raise a.refuse("adds whole seconds: round the number first")
    low = x.low + n.low * int(n.step)
    high = x.high + n.high * int(n.step)
    if low < FIRST_DAY * DAY or high >= (LAST_DAY + 1) * DAY:
        raise a.refuse(
            "the time could lie outside the years 1 to 9999: narrow the bounds of its arguments"
        )
    return Domain("timestamp", a.any_null, low, high, offset=x.offset)


def _number_of(days: int) -> int:
    day = date_of_days(days)
    return day.year * 10_000 + day.month * 100 + day.day


def _age(a: Arguments) -> Domain:
    """Compute the domain of full years between two dates."""
    a.expect("date", "date")
    born, day = a.domains
    low = (_number_of(day.low) - _number_of(born.high)) // 10_000
    return number(
        low, (_number_of(day.high) - _number_of(born.low)) // 10_000, Fraction(1), a.any_null
    )


_ANY: NullRule = "null if an argument is"
_RANGE = "years 1 to 9999, from the domains"
FUNCTIONS: tuple[Function, ...] = (
    Function("year", "a date", "its year", _ANY, _RANGE, _year),
    Function("quarter", "a date", "1 to 4", _ANY, _RANGE, _date_field(1, 4)),
    Function("month", "a date", "1 to 12", _ANY, _RANGE, _date_field(1, 12)),
    Function("week", "a date", "its ISO week, 1 to 53", _ANY, _RANGE, _date_field(1, 53)),
    Function("day", "a date", "its day of the month", _ANY, _RANGE, _date_field(1, 31)),
    Function("day_of_week", "a date", "1 (Monday) to 7", _ANY, _RANGE, _date_field(1, 7)),
    Function("day_of_year", "a date", "1 to 366", _ANY, _RANGE, _date_field(1, 366)),
    Function("days_in_month", "a date", "28 to 31", _ANY, _RANGE, _date_field(28, 31)),
    Function("is_weekend", "a date", "whether it is a Saturday or Sunday", _ANY, _RANGE, _weekend),
    Function("hour", "a timestamp", "0 to 23, at its zone", _ANY, _RANGE, _time_part(23)),
    Function("minute", "a timestamp", "0 to 59, at its zone", _ANY, _RANGE, _time_part(59)),
    Function("second", "a timestamp", "0 to 59", _ANY, _RANGE, _time_part(59)),
    Function("date_of", "a timestamp", "its day, at its zone", _ANY, _RANGE, _date_of),
    Function("add_days", "a date, whole days", "the day so much later", _ANY, _RANGE, _add_days),
    Function(
        "days_between",
        "two dates",
        "days from the first to the second",
        _ANY,
        _RANGE,
        _elapsed("date"),
    ),
    Function(
        "add_months",
        "a date, whole months (constant)",
        "the same day of that month, or its last",
        _ANY,
        _RANGE,
        _add_months,
    ),
    Function(
        "trunc_year",
        "a date",
        "the first day of its year",
        _ANY,
        _RANGE,
        _truncated(lambda day: day.replace(month=1, day=1)),
    ),
    Function(
        "trunc_quarter",
        "a date",
        "the first day of its quarter",
        _ANY,
        _RANGE,
        _truncated(lambda day: day.replace(month=(day.month - 1) // 3 * 3 + 1, day=1)),
    ),
    Function(
        "trunc_month",
        "a date",
        "the first day of its month",
        _ANY,
        _RANGE,
        _truncated(lambda day: day.replace(day=1)),
    ),
    Function("trunc_week", "a date", "its Monday", _ANY, _RANGE, _week),
    Function(
        "last_day",
        "a date",
        "the last day of its month",
        _ANY,
        _RANGE,
        _truncated(lambda day: day.replace(day=month_days(day.year, day.month))),
    ),
    Function(
        "add_seconds",
        "a timestamp, whole seconds",
        "the time so much later",
        _ANY,
        _RANGE,
        _add_seconds,
    ),
    Function(
        "seconds_between",
        "two timestamps",
        "seconds from the first to the second",
        _ANY,
        _RANGE,
        _elapsed("timestamp"),
    ),
    Function(
        "age_years",
        "a birthday and a date",
        "whole years from one to the other",
        _ANY,
        _RANGE,
        _age,
    ),
)
