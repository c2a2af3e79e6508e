"""How a typed value of a Parquet or DuckDB source becomes text, and which types cannot.

Decided by the schema alone. A date or time that the calendar does not have (a Parquet file may hold
any 64 bits) becomes a text that is no date, so that it is repaired like any other bad value: DuckDB
itself stops, or fails for good, when it writes such a value as text.
Types that would read two ids as one, or that hold several values, are refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

from dither.catalog import Column, Id, Table
from dither.data.quoting import name
from dither.data.register.clamp import clamp_sql
from dither.errors import DitherError

UNREADABLE = "out of range"
"""The text of a date or time outside the years 1 to 9999, or of a time outside a day."""
_DAYS = ("0001-01-01", "9999-12-31")
_RANGES = {
    "DATE": _DAYS,
    "TIMESTAMP": (f"{_DAYS[0]} 00:00:00", f"{_DAYS[1]} 23:59:59.999999"),
    "TIMESTAMP_S": (f"{_DAYS[0]} 00:00:00", f"{_DAYS[1]} 23:59:59"),
    "TIMESTAMP_MS": (f"{_DAYS[0]} 00:00:00", f"{_DAYS[1]} 23:59:59.999"),
    "TIMESTAMP WITH TIME ZONE": (f"{_DAYS[0]} 00:00:00+00", f"{_DAYS[1]} 23:59:59.999999+00"),
    "TIME": ("00:00:00", "24:00:00"),
    "TIME_NS": ("00:00:00", "24:00:00"),
}
_NESTED = ("STRUCT", "MAP", "UNION", "VARIANT", "GEOMETRY")
_ROUNDED = ("FLOAT", "DOUBLE")
_ONE_TEXT = re.compile(r"VARCHAR|U?(TINY|SMALL|BIG|HUGE)INT|U?INTEGER|DECIMAL\(\d+,\s*0\)")
"""Types of which equal values are one text, also of two of them."""
NO_TYPES: Mapping[str, str] = MappingProxyType({})
"""No column keeps its type: all are read as texts."""


class SourceError(DitherError):
    """The source cannot be read as the catalog says; for the steward."""


def text_of(column: Column, source_type: str, source_name: str) -> str:
    """Write SQL of a value of the source as text, null for null.

    It fails on no value that the type can hold.
    """
    value = name(source_name)
    if source_type not in _RANGES:
        return f"CAST({value} AS VARCHAR)"
    is_inside, clamped = limit_range(value, source_type)
    written = f"CAST({clamped} AS VARCHAR)"
    outside = "NULL" if isinstance(column, Id) else f"'{UNREADABLE}'"
    return f"CASE WHEN {value} IS NULL THEN NULL WHEN {is_inside} THEN {written} ELSE {outside} END"


def limit_range(value: str, source_type: str) -> tuple[str, str]:
    """Write SQL of whether a date or time is one of the calendar, and of the nearest that is.

    The engine may cast all values of a block, also those that a CASE does not choose, so what is
    cast is the nearest.
    """
    low, high = (f"CAST('{end}' AS {source_type})" for end in _RANGES[source_type])
    return f"{value} BETWEEN {low} AND {high}", clamp_sql(value, low, high)


def check_types(table: Table, types: dict[str, str], wide_decimals: frozenset[str]) -> None:
    """Refuse declared columns whose source type cannot be read one value to one text."""
    for column in table.columns:
        source_type = types[column.name]
        where = f"{table.name}.{column.name}"
        if source_type.endswith("]") or source_type.startswith(_NESTED):
            raise SourceError(
                f"{where}: the source has type {source_type}, which holds several values in one: "
                "write one column for each value that you declare"
            )
        if column.name in wide_decimals:
            raise SourceError(
                f"{where}: the source has decimals of more than 38 digits, which are read as "
                "rounded numbers, so two of them may become one: cast the column to decimal(38, 0) "
                "or to text at the source"
            )
        if isinstance(column, Id) and source_type in _ROUNDED:
            raise SourceError(
                f"{where}: an id of type {source_type} is a rounded number, so two people may "
                "share one: cast the column to BIGINT, decimal(38, 0) or text at the source"
            )


def check_ids(table: Table, whole_types: dict[str, str]) -> None:
    """Refuse ids that are written with decimals: 7.00 here and 7 in another table are two texts."""
    for column in table.columns:
        written = re.fullmatch(r"DECIMAL\(\d+,\s*(\d+)\)", whole_types[column.name])
        if isinstance(column, Id) and written is not None and int(written[1]) > 0:
            raise SourceError(
                f"{table.name}.{column.name}: an id of type {whole_types[column.name]} is written "
                "with its decimals, so a person may be two where another table has whole numbers: "
                "cast the column to BIGINT, decimal(38, 0) or text at the source"
            )


def check_mixed_ids(where: str, whole_types: set[str]) -> None:
    """Refuse an id of several types, unless equal values of them are one text.

    >>> check_mixed_ids("visits.patient", {"VARCHAR", "BIGINT", "DECIMAL(38,0)"})
    >>> check_mixed_ids("visits.patient", {"VARCHAR", "DOUBLE"})
    Traceback (most recent call last):
    dither.data.register.source_types.SourceError: visits.patient: ...
    """
    if len(whole_types) > 1 and not all(map(_ONE_TEXT.fullmatch, whole_types)):
        raise SourceError(
            f"{where}: the files have the types {', '.join(sorted(whole_types))} for an id, which "
            "write one value in several ways, so a person may be two: cast the column to text or "
            "to whole numbers in every file"
        )
