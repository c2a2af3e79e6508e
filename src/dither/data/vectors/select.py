"""The rows of which vectors are made, as one SQL statement, and its batches as arrays."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from numpy.typing import NDArray

from dither.data.engines.duckdb import name
from dither.data.lower.columns import UNIT, integer
from dither.data.lower.plan import plan_sql
from dither.data.vectors.add_up import UNITS, list_vector_columns
from dither.plan.algebra import UnitVectors
from dither.plan.analyse import Analysed


def vectors_sql(query: UnitVectors, rows: Analysed, sample_key: bytes | None = None) -> str:
    """Write the SELECT of the unit and the columns that a query reads; where a unit may have
    several rows, they follow each other."""
    columns = list_vector_columns(query, rows)
    outputs = [f"CAST({UNIT} AS BIGINT)"] if columns.has_units else []
    outputs += [integer(name(column), rows.columns[column]) for column in columns.names]
    order = f" ORDER BY {UNIT}" if columns.are_grouped else ""
    return f"SELECT {', '.join(outputs)} FROM ({plan_sql(rows, sample_key)}){order}"


def read_batches(
    query: UnitVectors, rows: Analysed, reader: Any
) -> Iterator[dict[str, NDArray[Any]]]:
    """The batches of that statement, each as arrays by column."""
    columns = list_vector_columns(query, rows)
    names = [UNITS, *columns.names] if columns.has_units else columns.names
    for batch in reader:
        yield {
            column: batch.column(position).to_numpy(zero_copy_only=False)
            for position, column in enumerate(names)
        }
