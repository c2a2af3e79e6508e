"""Columns as reports: the noisy value and the interval of its noise, as GoogleSQL writes them.

The interval is that of the *noise*: value less exact answer. It lies around 0, and covers the noise
as often as the interval of the exact answer covers that. As JSON the names are those of the message
`AnonOutputWithReport`; as PROTO it is that message itself, in base64.
"""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import date
from fractions import Fraction
from functools import cached_property
from typing import Any, NoReturn

import pyarrow as pa

from dither.answer.column_info import ResultColumn
from dither.answer.result import Result
from dither.errors import ParameterError
from dither.sql.dialect_reports import ReportColumn

VALUE_FIELD = 1
INTERVAL_FIELD = 4
_VARINT = 0
_DOUBLE = 1
_BYTES = 2


@dataclass(frozen=True, repr=False)
class ReportedResult(Result):
    """A result with reports in the place of some values; the ends of intervals stay beside them."""

    @cached_property
    def columns(self) -> tuple[ResultColumn, ...]:
        """Every column of the table; a report is a text, which no public bounds hold."""
        described = super().columns
        texts = {name for name in self.table.column_names if self._is_text(name)}
        return tuple(
            replace(column, bounds=None) if column.name in texts else column for column in described
        )

    def _is_text(self, name: str) -> bool:
        return bool(pa.types.is_string(self.table.schema.field(name).type))

    def nonnegative(self, *columns: str) -> Result:
        """Refused: a report is no number."""
        _refuse("nonnegative()")

    def consistent(self) -> Result:
        """Refused: a report is no number."""
        _refuse("consistent()")

    def plot(self, column: str | None = None, ax: Any = None) -> Any:
        """Refused: a report is no number."""
        _refuse("plot()")


def _refuse(act: str) -> NoReturn:
    raise ParameterError(
        f"{act} is of numbers, and this result has reports: leave report_format out"
    )


def add_reports(result: Result, reports: Sequence[ReportColumn]) -> Result:
    """The result with reports in the place of the values of these columns.

    Another level of the intervals changes the reports too.
    """

    def derive(other: Result) -> Result:
        return _write_reports(other, reports)

    return replace(derive(result), _derived=(*result._derived, derive))


def _write_reports(result: Result, reports: Sequence[ReportColumn]) -> Result:
    """Write the reports of all rows into a copy of the result's table."""
    table = result.table
    level = result._level
    for report in reports:
        names = result._recipe.outputs[report.position].names
        rows = zip(*(result.table[name].to_pylist() for name in names), strict=True)
        write = WRITERS[report.format]
        texts = [write(value, _noise_ends(value, low, high), level) for value, low, high in rows]
        position = table.schema.get_field_index(names[0])
        table = table.set_column(position, names[0], pa.array(texts, pa.string()))
    return ReportedResult(
        result.info,
        result._release,
        result._recipe,
        level,
        result._bands,
        result.notes,
        result._certify,
        _changed=table.replace_schema_metadata(result.table.schema.metadata),
    )


def _noise_ends(value: Any, low: Any, high: Any) -> tuple[Any, Any] | None:
    """The ends of the interval of the noise; None where the value has no interval of numbers.

    >>> _noise_ends(10, 7, 14)
    (-4, 3)
    """
    is_number = all(isinstance(number, (int, float)) for number in (value, low, high))
    return (value - high, value - low) if is_number else None


def write_json(value: Any, ends: tuple[Any, Any] | None, level: Fraction) -> str:
    """Write one report as JSON.

    >>> write_json(10, (-4, 3), Fraction(1, 2))
    '{"result":{"value":10,"noise_confidence_interval":{"lower_bound":-4,"upper_bound":3,\
"confidence_level":0.5}}}'
    """
    shown = value.isoformat() if isinstance(value, date) else value
    report: dict[str, Any] = {"value": shown}
    if ends is not None:
        report["noise_confidence_interval"] = {
            "lower_bound": ends[0],
            "upper_bound": ends[1],
            "confidence_level": float(level),
        }
    return json.dumps({"result": report}, separators=(",", ":"), default=float)


def write_proto(value: Any, ends: tuple[Any, Any] | None, level: Fraction) -> str:
    """Write one report as the message AnonOutputWithReport, in base64.

    >>> base64.b64decode(write_proto(10, None, Fraction(1, 2))).hex()
    '0a02080a'
    """
    body = _write_value(value)
    if ends is not None:
        numbers = (float(ends[0]), float(ends[1]), float(level))
        interval = b"".join(
            bytes([field << 3 | _DOUBLE]) + struct.pack("<d", number)
            for field, number in enumerate(numbers, 1)
        )
        body += bytes([INTERVAL_FIELD << 3 | _BYTES, len(interval)]) + interval
    message = bytes([VALUE_FIELD << 3 | _BYTES]) + _write_varint(len(body)) + body
    return base64.b64encode(message).decode()


def _write_value(value: Any) -> bytes:
    """Write the value as int_value (1), float_value (2) or string_value (3); nothing for null."""
    if value is None:
        return b""
    if isinstance(value, int):
        return bytes([1 << 3 | _VARINT]) + _write_varint(value % 2**64)
    if isinstance(value, date):
        text = value.isoformat().encode()
        return bytes([3 << 3 | _BYTES]) + _write_varint(len(text)) + text
    return bytes([2 << 3 | _DOUBLE]) + struct.pack("<d", float(value))


def _write_varint(number: int) -> bytes:
    """Write a whole number of at least 0 in groups of seven bits, the lowest first."""
    groups = []
    while number > 127:
        groups.append(number % 128 | 128)
        number //= 128
    return bytes([*groups, number])


WRITERS: dict[str, Callable[[Any, tuple[Any, Any] | None, Fraction], str]] = {
    "JSON": write_json,
    "PROTO": write_proto,
}
