"""Days, seconds and offsets as people write them: the opposite of `catalog/scalars.py`."""

from __future__ import annotations

from datetime import datetime, timedelta

_EPOCH = datetime(1970, 1, 1)


def write_days(days: int) -> str:
    """The date so many days after 1970-01-01.

    >>> write_days(1)
    '1970-01-02'
    """
    return (_EPOCH + timedelta(days=days)).date().isoformat()


def write_seconds(seconds: int, offset_seconds: int) -> str:
    """Write the time so many seconds after 1970-01-01T00:00:00 UTC.

    It is the time that a clock at that offset shows.
    """
    return (_EPOCH + timedelta(seconds=seconds + offset_seconds)).isoformat()


def write_offset(offset_seconds: int) -> str:
    """Seconds east of UTC as an offset.

    >>> write_offset(0), write_offset(-5400)
    ('UTC', '-01:30')
    """
    if offset_seconds == 0:
        return "UTC"
    hours, minutes = divmod(abs(offset_seconds) // 60, 60)
    return f"{'+' if offset_seconds > 0 else '-'}{hours:02}:{minutes:02}"
