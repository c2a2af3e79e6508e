"""Data frames as Parquet files that registration can read: pandas, polars and Arrow.

Only declared columns are copied. Types and categories of a frame are no domain: what a value may be
is said by the catalog. A column of Python objects becomes text value by value, so one person's
value does not change how another's is read.
"""

from __future__ import annotations

import os
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dither.data.register.source_types import SourceError

_KINDS = ("pandas", "polars", "pyarrow")


def is_frame(value: object) -> bool:
    """Whether a value is a data frame that can be copied; imports none of the libraries."""
    return _library_of(value) in _KINDS and hasattr(value, "columns")


def write_frame(frame: Any, columns: list[str], target: Path) -> None:
    """Write the columns of a frame into a new Parquet file, mode 0600."""
    names = [str(name) for name in _list_names(frame)]
    missing = [column for column in columns if names.count(column) != 1]
    if missing:
        raise SourceError(
            f"the data frame must have every declared column once; missing or twice: "
            f"{', '.join(missing)}; it has {', '.join(names)}"
        )
    arrays = [_plain_array(_read_column(frame, column), column) for column in columns]
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        pq.write_table(pa.table(arrays, names=columns), file)


def _library_of(value: object) -> str:
    return type(value).__module__.partition(".")[0]


def _list_names(frame: Any) -> list[Any]:
    return list(frame.column_names if _library_of(frame) == "pyarrow" else frame.columns)


def _read_column(frame: Any, column: str) -> pa.ChunkedArray | pa.Array:
    """Read one column as Arrow; what Arrow cannot take is text, value by value.

    Raises SourceError, which quotes no value.
    """
    library = _library_of(frame)
    if library == "pyarrow":
        return frame.column(column)
    series = frame[column]
    is_objects = library == "pandas" and str(series.dtype) == "object"
    if is_objects or str(series.dtype) == "Object":
        return pa.array([_write_text(value) for value in series.to_list()], pa.string())
    try:
        if library == "polars":
            return series.to_arrow()
        return pa.array(series, from_pandas=True)
    except (pa.ArrowException, TypeError, ValueError):  # its message may quote a value
        raise SourceError(
            f"column {column} of the data frame has a type that Arrow does not take: cast it to "
            "text or numbers"
        ) from None


def _write_text(value: Any) -> str | None:
    """Write a Python object as the text that registration reads; what is none of these is a
    null."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return value
    if isinstance(value, datetime):
        return value.isoformat(" ") if value == value else None
    if isinstance(value, (int, Decimal, date)):
        return str(value)
    return repr(value) if isinstance(value, float) and value == value else None


def _plain_array(values: pa.ChunkedArray | pa.Array, column: str) -> pa.Array:
    """Bring values to a plain type: dictionaries decoded, so that their labels are nothing but
    values."""
    array = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    if isinstance(array, pa.ChunkedArray):
        array = pa.concat_arrays(array.chunks)
    if pa.types.is_dictionary(array.type):
        array = pc.cast(array, array.type.value_type)
    if pa.types.is_null(array.type):
        array = array.cast(pa.string())
    is_text = pa.types.is_string_view(array.type) or pa.types.is_large_string(array.type)
    return array.cast(pa.string()) if is_text else array
