"""Parquet read through Arrow, for files at which DuckDB's own reader stops.

DuckDB stops at a time outside a day, at a time in milliseconds that is none in microseconds, and at
a text that is no UTF-8. Arrow reads all of them; here they become values that `text_of` can show.
Every other value arrives with the type that DuckDB's reader gives it, which `sources.py` checks: so
one person's bad value does not change how other people's are read.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

_ROWS = 1 << 16
_MOST = 2**63 - 1


def open_reader(files: list[Path], columns: list[str]) -> pa.RecordBatchReader:
    """Open a reader of the columns of some files, batch by batch, every value readable."""
    first = _open_file(files[0]).schema_arrow
    schema = pa.schema([_readable_field(first.field(column)) for column in columns])

    def read() -> Iterator[pa.RecordBatch]:
        for file in files:
            for batch in _open_file(file).iter_batches(_ROWS, columns=columns):
                arrays = [make_readable(batch.column(column)) for column in columns]
                yield pa.RecordBatch.from_arrays(arrays, schema=schema)

    return pa.RecordBatchReader.from_batches(schema, read())


def _open_file(file: Path) -> pq.ParquetFile:
    return pq.ParquetFile(file, coerce_int96_timestamp_unit="us")


def _readable_field(field: pa.Field) -> pa.Field:
    return pa.field(field.name, make_readable(pa.array([], field.type)).type)


def make_readable(values: pa.Array) -> pa.Array:
    """Bring values to types that DuckDB takes from Arrow as it takes them from Parquet.

    >>> bad = pa.array([2**62, 5], pa.timestamp("ms"))
    >>> make_readable(bad).cast(pa.int64()).to_pylist() == [2**63 - 1, 5000]
    True
    """
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    if pa.types.is_timestamp(values.type) and values.type.unit in ("s", "ms"):
        return _make_microseconds(values)
    if pa.types.is_duration(values.type):
        return values.view(pa.int64())
    if pa.types.is_float16(values.type):
        return values.cast(pa.float32())
    if pa.types.is_decimal256(values.type) and values.type.precision <= 38:
        return values.cast(pa.decimal128(values.type.precision, values.type.scale))
    if pa.types.is_string(values.type) or pa.types.is_large_string(values.type):
        return _make_text(values)
    return values


def _make_microseconds(values: pa.Array) -> pa.Array:
    """Bring times to microseconds.

    What is no such time becomes the greatest one, which DuckDB takes for infinity.
    """
    factor = {"s": 10**6, "ms": 10**3}[values.type.unit]
    numbers = values.view(pa.int64())
    largest = _MOST // factor - 1
    is_inside = pc.and_(pc.less_equal(numbers, largest), pc.greater_equal(numbers, -largest))
    scaled = pc.multiply(pc.if_else(is_inside, numbers, 0), factor)
    return pc.if_else(is_inside, scaled, _MOST).view(pa.timestamp("us", values.type.tz))


def _make_text(values: pa.Array) -> pa.Array:
    """Turn what is no UTF-8 into null, which follows the column's null rule.

    Spelt out it could be another person's own text, and two ids would be one.
    """
    try:
        values.validate(full=True)
        return values
    except pa.ArrowInvalid:
        raw = values.cast(pa.large_binary())
    return pa.array([_decode(text) for text in raw.to_pylist()], values.type)


def _decode(raw: bytes | None) -> str | None:
    try:
        return None if raw is None else raw.decode("utf-8")
    except UnicodeDecodeError:
        return None
