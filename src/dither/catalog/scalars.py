"""Text to value: the only place where a scalar of a catalog gets a type.

>>> number("0.01"), number("1e3"), days("1970-01-02"), offset("+01:00")
(Fraction(1, 100), Fraction(1000, 1), 1, 3600)
>>> number("1e9999999"), number("0o7"), days("2024-02-30"), offset("Europe/Berlin")
(None, None, None, None)

Each reader answers None for a text it does not accept; each writer gives the one text that is read
back as the same.
"""

from __future__ import annotations

import re
from datetime import date, datetime, timedelta
from fractions import Fraction

_DECIMAL = re.compile(r"[+-]?([0-9]{1,60}(\.[0-9]{1,60})?|\.[0-9]{1,60})([eE][+-]?[0-9]{1,3})?")
_RATIO = re.compile(r"[+-]?[0-9]{1,60}/0*[1-9][0-9]{0,59}")
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_SECOND = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2}")
_OFFSET = re.compile(r"([+-])([0-9]{2}):([0-9]{2})")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")
_EPOCH = datetime(1970, 1, 1)


def number(text: str) -> Fraction | None:
    """The number a decimal text denotes, exactly; exponents have at most three digits, so no text
    is a bomb."""
    return Fraction(text) if _DECIMAL.fullmatch(text) or _RATIO.fullmatch(text) else None


def days(text: str) -> int | None:
    """Count the days from 1970-01-01 to a date written as YYYY-MM-DD; None for other texts."""
    if not _DAY.fullmatch(text):
        return None
    try:
        return (date.fromisoformat(text) - _EPOCH.date()).days
    except ValueError:
        return None


def seconds(text: str, offset_seconds: int) -> int | None:
    """Count the seconds from 1970-01-01T00:00:00 UTC to a time at that offset; None for other
    texts.

    The time is written as YYYY-MM-DDTHH:MM:SS.
    """
    if not _SECOND.fullmatch(text):
        return None
    try:
        return (datetime.fromisoformat(text) - _EPOCH) // timedelta(seconds=1) - offset_seconds
    except ValueError:
        return None


def offset(text: str) -> int | None:
    """Read the seconds east of UTC: `UTC` or a fixed offset; None for other texts.

    Named zones change by law, so they are no public constant.
    """
    if text == "UTC":
        return 0
    match = _OFFSET.fullmatch(text)
    if not match or int(match[2]) > 14 or int(match[3]) > 59:
        return None
    return (1 if match[1] == "+" else -1) * (int(match[2]) * 3600 + int(match[3]) * 60)


def is_name(text: str) -> bool:
    """A name that SQL takes without quotes; `dither_` is ours."""
    return _NAME.fullmatch(text) is not None and not text.lower().startswith("dither_")
