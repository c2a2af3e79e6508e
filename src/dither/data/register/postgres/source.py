"""Tables of PostgreSQL as rows of text for registration, all from one snapshot.

The server writes each value as text in a fixed style; registration repairs them like any other.
Rows come by COPY, in batches, and are never held together in memory. Types are allowed by name:
one of which two values could be written as one text, or one value as two, is refused for ids.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.csv as pacsv

from dither.catalog import Id, Table
from dither.data.engines.postgres.session import ServerError, connect, load_psycopg
from dither.data.quoting import name
from dither.data.quoting import table as quote_table
from dither.data.register.source_types import SourceError

_CHUNK_BYTES = 1 << 22
_IDS = ("smallint", "integer", "bigint", "text", "character varying", "character", "uuid")
"""Types of which equal values are one text, also of two of them: joined in the database, joined
here. Numeric without decimals is another."""
_EXACT = (*_IDS, "boolean", "date")
_TIMES = re.compile(r"timestamp(\(\d\))? with(out)? time zone|time(\(\d\))? without time zone")
_WHOLE = re.compile(r"numeric\(\d+(,0)?\)")
_NUMBERS = ("real", "double precision", "numeric")


class PostgresSource:
    """The tables of one database as they stood when it was opened."""

    def __init__(self, location: str) -> None:
        """Connect; the snapshot is taken by the first statement and held until `close`."""
        self._errors = load_psycopg().Error
        try:
            self._connection = connect(location)
            self._connection.execute("SET statement_timeout = 0")
            self._connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        except ServerError as error:
            raise SourceError(str(error)) from None

    def list_types(self, source_name: str) -> list[tuple[str, str]]:
        """List names and types of the columns of a table or view; numeric with its scale."""
        rows = self._fetch(
            "SELECT a.attname, format_type(a.atttypid, a.atttypmod) || CASE WHEN "
            "coalesce(c.collisdeterministic, true) THEN '' ELSE ' with a collation in which "
            "different texts are equal' END "
            "FROM pg_attribute a LEFT JOIN pg_collation c ON c.oid = a.attcollation "
            "WHERE a.attrelid = to_regclass(%s) AND a.attnum > 0 AND NOT a.attisdropped "
            "ORDER BY a.attnum",
            (quote_table(source_name),),
        )
        if not rows:
            raise SourceError(
                f"the database has no table {source_name} that this role can see: check the name, "
                "or grant it (dither engine postgres CATALOG --print-grants)"
            )
        return [(str(row[0]), str(row[1])) for row in rows]

    def check_table(self, table: Table) -> list[str]:
        """Return the names of a table's columns at the source, in the catalog's order.

        Raises SourceError where one is missing or has a type that cannot be read.
        """
        types = dict(self.list_types(table.source_name))
        sources = dict(table.source_columns)
        names = [sources.get(column.name, column.name) for column in table.columns]
        missing = [column for column in names if column not in types]
        if missing:
            raise SourceError(f"{table.source_name} has no column {', '.join(missing)}")
        for column, source_column in zip(table.columns, names, strict=True):
            problem = _find_problem(types[source_column], is_id=isinstance(column, Id))
            if problem:
                raise SourceError(f"{table.name}.{column.name}: {problem}")
        return names

    def text_rows(self, connection: duckdb.DuckDBPyConnection, table: Table) -> str:
        """Write SQL of a relation with the declared columns as text, to be read once."""
        names = self.check_table(table)
        shown = ", ".join(f"CAST({name(column)} AS TEXT)" for column in names)
        relation = quote_table(table.source_name)
        schema = pa.schema([(column.name, pa.string()) for column in table.columns])
        batches = self._read_batches(f"SELECT {shown} FROM {relation}", schema)
        view = f"dither_source_{table.name}"
        connection.execute("SELECT 1").fetchall()  # ends a result of which one row was fetched
        connection.register(view, pa.RecordBatchReader.from_batches(schema, batches))
        outputs = ", ".join(
            f"NULLIF({name(column)}, '') AS {name(column)}" for column in table.column_names
        )
        return f"(SELECT {outputs} FROM {name(view)})"

    def _read_batches(self, query: str, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Read the rows of a query by COPY, in chunks of whole rows."""
        written = f"COPY ({query}) TO STDOUT (FORMAT csv, FORCE_QUOTE *)"
        with self._connection.cursor().copy(written) as copy:
            lines: list[bytes] = []
            size = 0
            for line in copy:
                lines.append(bytes(line))
                size += len(line)
                if size >= _CHUNK_BYTES and _is_whole(chunk := b"".join(lines)):
                    yield from _parse_rows(chunk, schema)
                    lines.clear()
                    size = 0
            yield from _parse_rows(b"".join(lines), schema)

    def _fetch(self, sql: str, values: tuple[str, ...]) -> list[tuple[Any, ...]]:
        try:
            return self._connection.execute(sql, values).fetchall()
        except self._errors as error:
            raise SourceError(
                f"cannot read the schema of the source: {type(error).__name__}"
            ) from None

    def close(self) -> None:
        """Give up the snapshot and the connection."""
        with suppress(self._errors):
            self._connection.close()


def _is_whole(chunk: bytes) -> bool:
    """Whether bytes that the server wrote end where a row ends: all their quotes are in pairs.

    >>> _is_whole(b'"a","b"\\n'), _is_whole(b'"a","b\\n')
    (True, False)
    """
    return chunk.endswith(b"\n") and chunk.count(b'"') % 2 == 0


def _parse_rows(chunk: bytes, schema: pa.Schema) -> list[pa.RecordBatch]:
    """Parse rows as the server writes them: every value in quotes, a null without.

    A person's text cannot end its own quotes, since the server doubles those inside. So no text
    can add a row or a value.
    """
    if not chunk:
        return []
    reading = pacsv.ReadOptions(column_names=schema.names, block_size=max(_CHUNK_BYTES, len(chunk)))
    parsing = pacsv.ParseOptions(
        double_quote=True, escape_char=False, newlines_in_values=True, ignore_empty_lines=False
    )
    converting = pacsv.ConvertOptions(
        column_types=schema,
        strings_can_be_null=True,
        null_values=[""],
        quoted_strings_can_be_null=False,
    )
    table = pacsv.read_csv(pa.BufferReader(chunk), reading, parsing, converting)
    return list(table.to_batches())


def _find_problem(kind: str, *, is_id: bool) -> str | None:
    """Say why a column of a type cannot be read exactly; None if it can."""
    word = re.sub(r"\(\d+\)$", "", kind)
    if word in _IDS or _WHOLE.fullmatch(kind):
        return None
    is_number = kind in _NUMBERS or re.fullmatch(r"numeric\(\d+,-?\d+\)", kind)
    if is_id and (is_number or word in _EXACT or _TIMES.fullmatch(kind)):
        return (
            f"an id of type {kind} may be written in two ways, or two people share one: cast it to "
            "BIGINT, numeric(38, 0) or text in a view"
        )
    if is_number or word in _EXACT or _TIMES.fullmatch(kind):
        return None
    return (
        f'the source has type {kind}, which is not read: cast the column to text (COLLATE "C"), '
        "a number, a date or a timestamp in a view"
    )
