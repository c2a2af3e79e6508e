"""Connections to the curator's own file, and times as it stores them."""

from __future__ import annotations

import sqlite3
from datetime import UTC, datetime, timedelta
from pathlib import Path

from dither.errors import ParameterError
from dither.identity.tokens import open_private_file


def open_database(home: Path) -> sqlite3.Connection:
    """A connection to the curator's own file; what is committed is on the disk."""
    database = sqlite3.connect(
        open_private_file(home), check_same_thread=False, isolation_level=None, timeout=30
    )
    database.execute("PRAGMA synchronous=FULL")
    return database


def read_clock() -> str:
    """The time now: UTC, to the second."""
    return write_time(datetime.now(UTC))


def write_time(moment: datetime) -> str:
    """A time as it is stored; two of them compare like their texts."""
    return moment.astimezone(UTC).replace(microsecond=0).isoformat()


def read_time(text: str, name: str) -> datetime:
    """A time with its zone; `name` names it in errors."""
    try:
        moment = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        moment = datetime.min
    if moment.tzinfo is None:
        raise ParameterError(f"{name} is a time such as 2026-03-01T12:00:00+00:00")
    return moment


def write_expiry(days: int) -> str:
    """The time so many days from now."""
    return write_time(datetime.now(UTC) + timedelta(days=days))
