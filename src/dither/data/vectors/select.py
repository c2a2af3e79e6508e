"""The rows of which vectors are made, as one SQL statement, and its batches as arrays."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dither.data.lower.columns import UNIT
from dither.data.lower.plan import plan_sql
from dither.data.quoting import name
from dither.plan.algebra import UnitVectors
from dither.plan.analyse import Analysed
from dither.plan.encodings import resolve_features
from dither.plan.stability.owned import Owned


class VectorColumns(NamedTuple):
    """What is read of each row: the unit's number, where it is needed, and these columns."""

    has_units: bool
    names: tuple[str, ...]


def list_vector_columns(query: UnitVectors, rows: Analysed) -> VectorColumns:
    """What a query for vectors reads of its rows."""
    assert isinstance(rows.node, Owned)
    names = {feature.column for feature in resolve_features(query.features, rows.columns)}
    names.add(getattr(query.function, "label", None))
    columns = tuple(sorted(column for column in names if column is not None))
    return VectorColumns(rows.node.rows > 1 or query.rate is not None or not columns, columns)


def vectors_sql(query: UnitVectors, rows: Analysed, sample_key: bytes | None = None) -> str:
    """Write the SELECT of the unit and the columns that a query reads; where a unit may have
    several rows, they follow each other."""
    columns = list_vector_columns(query, rows)
    assert isinstance(rows.node, Owned)
    outputs = [UNIT] if columns.has_units else []
    outputs += map(name, columns.names)
    order = f" ORDER BY {UNIT}" if rows.node.rows > 1 else ""
    return f"SELECT {', '.join(outputs)} FROM ({plan_sql(rows, sample_key)}){order}"


def read_batches(
    query: UnitVectors, rows: Analysed, reader: Any
) -> Iterator[tuple[NDArray[Any] | None, dict[str, NDArray[Any]]]]:
    """The batches of that statement, each as the numbers of units and values by column."""
    columns = list_vector_columns(query, rows)
    for batch in reader:
        arrays = [_read_integers(column) for column in batch.columns]
        units = arrays.pop(0) if columns.has_units else None
        yield units, dict(zip(columns.names, arrays, strict=True))


def _read_integers(column: Any) -> NDArray[Any]:
    """A column as integers; the engine's widest type arrives as decimals, whose values fit."""
    is_integer = pa.types.is_integer(column.type)
    integers: NDArray[np.int64] = (column if is_integer else column.cast(pa.int64())).to_numpy()
    return integers
