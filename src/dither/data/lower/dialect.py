"""The dialect of SQL that a statement is written in: what engines write differently, and no more.

Everything else that the lowering writes means the same on every engine. A dialect names types,
divides whole numbers, makes truth values integers, and may have SQL of its own for functions of the
table (`functions/`). What it cannot write with the same meaning it refuses, by the widths of
domains, before anything is read or paid for.

A statement is written in one dialect from its first word to its last: whoever asks for SQL says
which (`writing_in`), and the helpers at the leaves ask for it (`dialect`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from dither.data.quoting import text

WIDE = 2**62
"""From here on an integer is computed in the wide type."""


class Dialect:
    """DuckDB's words; another engine's dialect overrides what it writes differently."""

    engine = "duckdb"
    wide_type = "HUGEINT"
    """Holds integers of 38 digits exactly."""
    flag_type = "TINYINT"
    """Holds 0 and 1."""
    float_type = "DOUBLE"
    """64-bit floats of IEEE 754, for square roots alone."""
    has_narrow_codes = True
    """Whether codes of few cells are made narrow, by which the engine counts in an array."""
    counts_outside = True
    """Whether rows may be handed to this process to be counted in an array."""
    looks_up_groups = False
    """Whether a join computes the groups of its right side one by one, as left rows meet them."""
    reduces_groups = True
    """Whether a join leaves groups that no left row meets out before it groups any rows."""
    functions: Mapping[str, Callable[..., str]] = {}
    """SQL of functions that this engine writes in its own way, by name."""

    def text(self, value: str) -> str:
        """Write a text constant; texts are equal and ordered by their bytes."""
        return text(value)

    def integer_type(self, largest: int) -> str:
        """Name the type that holds every integer up to `largest`, and the null after it."""
        return "BIGINT" if largest < WIDE else self.wide_type

    def type_name(self, kind: str) -> str:
        """Name the type of a stored column, given DuckDB's word for it."""
        return kind

    def full_match(self, value: str, pattern: str) -> str:
        """Write whether all of a text matches a regular expression."""
        return f"regexp_full_match({value}, {text(pattern)})"

    def truth(self, condition: str, kind: str = "BIGINT") -> str:
        """Write 1 for true and 0 for false; unknown stays null."""
        return f"CAST({condition} AS {kind})"

    def divide(self, top: str, bottom: str, largest: int) -> str:
        """Write a quotient of integers up to `largest`, cut towards zero; `bottom` is not 0."""
        return f"{top} // {bottom}"

    def sign(self, value: str) -> str:
        """Write 1, 0 or -1, an integer."""
        return f"sign({value})"

    def sum(self, value: str, largest: int) -> str:
        """Write an exact sum of integers up to `largest` each."""
        return f"sum({value})"

    def to_date(self, days: str) -> str:
        """Write the date so many days after 1970-01-01."""
        return f"(DATE '1970-01-01' + CAST({days} AS INTEGER))"

    def count_days(self, date: str) -> str:
        """Write the days from 1970-01-01 to a date."""
        return f"{date} - DATE '1970-01-01'"

    def date_part(self, field: str, date: str) -> str:
        """Write the year, quarter, month, week (of ISO), day or dayofyear of a date."""
        return f"{field}({date})"

    def truncate_date(self, field: str, date: str) -> str:
        """Write the first day of a date's year, quarter or month."""
        return f"CAST(date_trunc('{field}', {date}) AS DATE)"

    def last_day(self, date: str) -> str:
        """Write the last day of a date's month."""
        return f"last_day({date})"

    def add_months(self, date: str, months: int) -> str:
        """Write the same day so many months later, or the last one of that month."""
        return f"CAST({date} + to_months({months}) AS DATE)"


DUCKDB = Dialect()
_current: ContextVar[Any] = ContextVar("dialect", default=DUCKDB)


def dialect() -> Dialect:
    """The dialect of the statement that is being written."""
    current: Dialect = _current.get()
    return current


@contextmanager
def writing_in(chosen: Dialect) -> Iterator[None]:
    """Write all SQL of a block in one dialect."""
    token = _current.set(chosen)
    try:
        yield
    finally:
        _current.reset(token)
