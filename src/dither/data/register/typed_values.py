"""Values of a Parquet or DuckDB source that become registered values without a text between.

Only where the text could make no difference: `parse_typed_sql` gives the value that `parse_sql`
reads in the text that `text_of` writes, for every value that the type can hold. All other types go
through text. A test compares the two on the edges of every type.
"""

from __future__ import annotations

import re

from dither.catalog import (
    Boolean,
    Catalog,
    Column,
    Date,
    Decimal,
    Integer,
    OwnerReference,
    Table,
    Timestamp,
)
from dither.data.lower.dialect import DUCKDB
from dither.data.lower.functions.sql import divide_floor
from dither.data.quoting import name
from dither.data.register.source_types import limit_range

_NARROW = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER")
_INTEGERS = (*_NARROW, "UBIGINT")
_TIMES = ("TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP WITH TIME ZONE")
_EXACT_DIGITS = 15
"""An integer of so many digits is a float, and so is its quotient by a power of ten, rounded once:
the float that its decimal text is read as."""


def list_typed(catalog: Catalog, table: Table, types: dict[str, str]) -> dict[str, str]:
    """List the declared columns that are read by their type, with that type.

    `types` are the whole types at the source, by declared name. Columns that name an owner, or the
    window of one, are texts: they are compared with those of other tables.
    """
    texts = {catalog.unit.column, catalog.owner_column(table) if table.owner else None}
    if isinstance(table.owner, OwnerReference):
        texts |= {child_column for child_column, _ in table.owner.by}
    return {
        column.name: types[column.name]
        for column in table.columns
        if column.name not in texts and _is_readable(column, types[column.name])
    }


def _is_readable(column: Column, source_type: str) -> bool:
    """Whether values of a type are read as they are for a column."""
    if isinstance(column, Integer):
        return source_type in _INTEGERS
    if isinstance(column, Decimal):
        written = re.fullmatch(r"DECIMAL\((\d+),\s*(\d+)\)", source_type)
        is_exact = written is not None and int(written[1]) <= _EXACT_DIGITS
        return source_type in (*_INTEGERS, "DOUBLE") or is_exact
    if isinstance(column, Boolean):
        return source_type == "BOOLEAN"
    if isinstance(column, Date):
        return source_type == "DATE"
    return isinstance(column, Timestamp) and source_type in _TIMES


def parse_typed_sql(column: Column, source_type: str) -> str:
    """Write SQL of a source's value as a value of the column's type, null if it is none."""
    value = name(column.name)
    if isinstance(column, Integer):
        return f"CAST({value} AS {'BIGINT' if source_type in _NARROW else 'HUGEINT'})"
    if isinstance(column, Decimal):
        return f"NULLIF(CAST({value} AS DOUBLE), CAST('nan' AS DOUBLE))"
    if isinstance(column, Boolean):
        return f"CAST({value} AS INTEGER)"
    is_inside, clamped = limit_range(value, source_type)
    if isinstance(column, Date):
        return f"CASE WHEN {is_inside} THEN {DUCKDB.count_days(clamped)} END"
    assert isinstance(column, Timestamp)
    is_absolute = source_type == "TIMESTAMP WITH TIME ZONE"
    time = clamped if is_absolute else f"CAST({clamped} AS TIMESTAMP)"
    offset = 0 if is_absolute else column.offset_seconds
    seconds = divide_floor(f"epoch_us({time})", "1000000")
    return f"CASE WHEN {is_inside} THEN {seconds} - ({offset}) END"
