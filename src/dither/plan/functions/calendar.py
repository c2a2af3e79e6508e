"""Days and dates of the proleptic Gregorian calendar, for the ends of domains."""

from __future__ import annotations

from datetime import date, timedelta

from dither.plan.domain import FIRST_DAY, LAST_DAY

_EPOCH = date(1970, 1, 1)


def date_of_days(days: int) -> date:
    return _EPOCH + timedelta(days=days)


def days_of_date(day: date) -> int:
    return (day - _EPOCH).days


def plus_months(days: int, months: int) -> int:
    """Add months to a day: the same day of another month, or its last.

    Beyond the years 1 to 9999 it gives a day just outside.
    """
    day = date_of_days(days)
    year, month = divmod(day.year * 12 + day.month - 1 + months, 12)
    if not 1 <= year <= 9999:
        return FIRST_DAY - 1 if months < 0 else LAST_DAY + 1
    return days_of_date(date(year, month + 1, 1)) + min(day.day, month_days(year, month + 1)) - 1


def month_days(year: int, month: int) -> int:
    if month == 12:
        return 31
    return (date(year, month + 1, 1) - date(year, month, 1)).days
