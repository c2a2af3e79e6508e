"""Functions of days and seconds. Days count from 1970-01-01 and lie in the years 1 to 9999, seconds are UTC.

Parts of a timestamp are read at its column's fixed zone. No interval is ever added to a day outside those years: the
result's domain is checked when the plan is made.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, timedelta
from fractions import Fraction

from dither.plan.domain import FIRST_DAY, LAST_DAY, Domain, number
from dither.plan.functions.table import Arguments, Function, NullRule, cast, floor_divided, truth

DAY = 86_400
_EPOCH = date(1970, 1, 1)


def _date(days: int) -> date:
    return _EPOCH + timedelta(days=days)


def _days(day: date) -> int:
    return (day - _EPOCH).days


def _day(low: int, high: int, nullable: bool, a: Arguments) -> Domain:
    if low < FIRST_DAY or high > LAST_DAY:
        raise a.refuse("the day could lie outside the years 1 to 9999: narrow the bounds of its arguments")
    return Domain("date", nullable, low, high)


def _sql_day(sql: str) -> str:
    return f"(DATE '1970-01-01' + CAST({sql} AS INTEGER))"


def _sql_local(a: Arguments) -> str:
    return f"({cast(a.sql[0], a.domains[0].largest)} + ({a.domains[0].offset}))"


def _part(low: int, high: int) -> Callable[[Arguments], Domain]:
    def result(a: Arguments) -> Domain:
        a.expect("date")
        return number(low, high, Fraction(1), a.domains[0].nullable)

    return result


def _year(a: Arguments) -> Domain:
    a.expect("date")
    x = a.domains[0]
    return number(_date(x.low).year, _date(x.high).year, Fraction(1), x.nullable)


def _engine(function: str) -> Callable[[Arguments, Domain], str]:
    return lambda a, result: f"CAST({function}({_sql_day(a.sql[0])}) AS BIGINT)"


def _week_day(a: Arguments, result: Domain) -> str:
    return f"(({cast(a.sql[0], 0)} + 3) % 7 + 7) % 7 + 1"


def _weekend(a: Arguments) -> Domain:
    a.expect("date")
    return truth(a.domains[0].nullable)


def _time_part(high: int) -> Callable[[Arguments], Domain]:
    def result(a: Arguments) -> Domain:
        a.expect("timestamp")
        return number(0, high, Fraction(1), a.domains[0].nullable)

    return result


def _time_sql(size: int, unit: int) -> Callable[[Arguments, Domain], str]:
    """The part of `unit` seconds inside the last `size` seconds."""
    return lambda a, result: f"(({_sql_local(a)} % {size} + {size}) % {size}) // {unit}"


def _date_of(a: Arguments) -> Domain:
    a.expect("timestamp")
    x = a.domains[0]
    return _day((x.low + x.offset) // DAY, (x.high + x.offset) // DAY, x.nullable, a)


def _add_days(a: Arguments) -> Domain:
    a.expect("date", "number")
    x, n = a.domains
    if n.step.denominator != 1:
        raise a.refuse("adds whole days: round the number first")
    return _day(x.low + n.low * int(n.step), x.high + n.high * int(n.step), a.any_null, a)


def _add_days_sql(a: Arguments, result: Domain) -> str:
    n = a.domains[1]
    return f"{cast(a.sql[0], 0)} + {cast(a.sql[1], n.largest * int(n.step))} * {int(n.step)}"


def _between(kind: str) -> Callable[[Arguments], Domain]:
    def result(a: Arguments) -> Domain:
        a.expect(kind, kind)  # type: ignore[arg-type]
        x, y = a.domains
        return number(y.low - x.high, y.high - x.low, Fraction(1), a.any_null)

    return result


def _between_sql(a: Arguments, result: Domain) -> str:
    sizes = (result.largest, *(domain.largest for domain in a.domains))
    return f"{cast(a.sql[1], *sizes)} - {cast(a.sql[0], *sizes)}"


def _plus_months(days: int, months: int) -> int:
    """The same day of another month, or its last."""
    day = _date(days)
    year, month = divmod(day.year * 12 + day.month - 1 + months, 12)
    if not 1 <= year <= 9999:
        return FIRST_DAY - 1 if months < 0 else LAST_DAY + 1
    return _days(date(year, month + 1, 1)) + min(day.day, _month_days(year, month + 1)) - 1


def _month_days(year: int, month: int) -> int:
    if month == 12:
        return 31
    return (date(year, month + 1, 1) - date(year, month, 1)).days


def _add_months(a: Arguments) -> Domain:
    a.expect("date", "number")
    months, x = a.whole(1, -120_000, 120_000), a.domains[0]
    return _day(_plus_months(x.low, months), _plus_months(x.high, months), x.nullable, a)


def _add_months_sql(a: Arguments, result: Domain) -> str:
    months = a.whole(1, -120_000, 120_000)
    return f"CAST({_sql_day(a.sql[0])} + to_months({months}) AS DATE) - DATE '1970-01-01'"


def _truncated(shape: Callable[[date], date]) -> Callable[[Arguments], Domain]:
    def result(a: Arguments) -> Domain:
        a.expect("date")
        x = a.domains[0]
        return _day(_days(shape(_date(x.low))), _days(shape(_date(x.high))), x.nullable, a)

    return result


def _truncated_sql(part: str) -> Callable[[Arguments, Domain], str]:
    return lambda a, result: f"CAST(date_trunc('{part}', {_sql_day(a.sql[0])}) AS DATE) - DATE '1970-01-01'"


def _week(a: Arguments) -> Domain:
    a.expect("date")
    x = a.domains[0]
    return _day(x.low - (x.low + 3) % 7, x.high - (x.high + 3) % 7, x.nullable, a)


def _add_seconds(a: Arguments) -> Domain:
    a.expect("timestamp", "number")
    x, n = a.domains
    if n.step.denominator != 1:
        raise a.refuse("adds whole seconds: round the number first")
    low, high = x.low + n.low * int(n.step), x.high + n.high * int(n.step)
    if low < FIRST_DAY * DAY or high >= (LAST_DAY + 1) * DAY:
        raise a.refuse("the time could lie outside the years 1 to 9999: narrow the bounds of its arguments")
    return Domain("timestamp", a.any_null, low, high, offset=x.offset)


def _ymd(sql: str) -> str:
    return f"(year({_sql_day(sql)}) * 10000 + month({_sql_day(sql)}) * 100 + day({_sql_day(sql)}))"


def _number_of(days: int) -> int:
    day = _date(days)
    return day.year * 10_000 + day.month * 100 + day.day


def _age(a: Arguments) -> Domain:
    a.expect("date", "date")
    born, at = a.domains
    low = (_number_of(at.low) - _number_of(born.high)) // 10_000
    return number(low, (_number_of(at.high) - _number_of(born.low)) // 10_000, Fraction(1), a.any_null)


def _age_sql(a: Arguments, result: Domain) -> str:
    return floor_divided(f"{_ymd(a.sql[1])} - {_ymd(a.sql[0])}", "10000")


_ANY: NullRule = "null if an argument is"
_RANGE = "years 1 to 9999, from the domains"
FUNCTIONS: tuple[Function, ...] = (
    Function("year", "a date", "its year", _ANY, _RANGE, _year, _engine("year")),
    Function("quarter", "a date", "1 to 4", _ANY, _RANGE, _part(1, 4), _engine("quarter")),
    Function("month", "a date", "1 to 12", _ANY, _RANGE, _part(1, 12), _engine("month")),
    Function("week", "a date", "its ISO week, 1 to 53", _ANY, _RANGE, _part(1, 53), _engine("week")),
    Function("day", "a date", "its day of the month", _ANY, _RANGE, _part(1, 31), _engine("day")),
    Function("day_of_week", "a date", "1 (Monday) to 7", _ANY, _RANGE, _part(1, 7), _week_day),
    Function("day_of_year", "a date", "1 to 366", _ANY, _RANGE, _part(1, 366), _engine("dayofyear")),
    Function(
        "days_in_month",
        "a date",
        "28 to 31",
        _ANY,
        _RANGE,
        _part(28, 31),
        lambda a, result: f"CAST(day(last_day({_sql_day(a.sql[0])})) AS BIGINT)",
    ),
    Function(
        "is_weekend",
        "a date",
        "whether it is a Saturday or Sunday",
        _ANY,
        _RANGE,
        _weekend,
        lambda a, result: f"CAST({_week_day(a, result)} >= 6 AS BIGINT)",
    ),
    Function("hour", "a timestamp", "0 to 23, at its zone", _ANY, _RANGE, _time_part(23), _time_sql(DAY, 3600)),
    Function("minute", "a timestamp", "0 to 59, at its zone", _ANY, _RANGE, _time_part(59), _time_sql(3600, 60)),
    Function("second", "a timestamp", "0 to 59", _ANY, _RANGE, _time_part(59), _time_sql(60, 1)),
    Function(
        "date_of",
        "a timestamp",
        "its day, at its zone",
        _ANY,
        _RANGE,
        _date_of,
        lambda a, result: floor_divided(_sql_local(a), str(DAY)),
    ),
    Function("add_days", "a date, whole days", "the day so much later", _ANY, _RANGE, _add_days, _add_days_sql),
    Function(
        "days_between", "two dates", "days from the first to the second", _ANY, _RANGE, _between("date"), _between_sql
    ),
    Function(
        "add_months",
        "a date, whole months (constant)",
        "the same day of that month, or its last",
        _ANY,
        _RANGE,
        _add_months,
        _add_months_sql,
    ),
    Function(
        "trunc_year",
        "a date",
        "the first day of its year",
        _ANY,
        _RANGE,
        _truncated(lambda day: day.replace(month=1, day=1)),
        _truncated_sql("year"),
    ),
    Function(
        "trunc_quarter",
        "a date",
        "the first day of its quarter",
        _ANY,
        _RANGE,
        _truncated(lambda day: day.replace(month=(day.month - 1) // 3 * 3 + 1, day=1)),
        _truncated_sql("quarter"),
    ),
    Function(
        "trunc_month",
        "a date",
        "the first day of its month",
        _ANY,
        _RANGE,
        _truncated(lambda day: day.replace(day=1)),
        _truncated_sql("month"),
    ),
    Function(
        "trunc_week",
        "a date",
        "its Monday",
        _ANY,
        _RANGE,
        _week,
        lambda a, result: f"{cast(a.sql[0], 0)} - (({cast(a.sql[0], 0)} + 3) % 7 + 7) % 7",
    ),
    Function(
        "last_day",
        "a date",
        "the last day of its month",
        _ANY,
        _RANGE,
        _truncated(lambda day: day.replace(day=_month_days(day.year, day.month))),
        lambda a, result: f"last_day({_sql_day(a.sql[0])}) - DATE '1970-01-01'",
    ),
    Function(
        "add_seconds", "a timestamp, whole seconds", "the time so much later", _ANY, _RANGE, _add_seconds, _add_days_sql
    ),
    Function(
        "seconds_between",
        "two timestamps",
        "seconds from the first to the second",
        _ANY,
        _RANGE,
        _between("timestamp"),
        _between_sql,
    ),
    Function("age_years", "a birthday and a date", "whole years from one to the other", _ANY, _RANGE, _age, _age_sql),
)
