"""The prepared copy in PostgreSQL: written from the file that registration made, and dropped.

Repairs, limits and ranks are registration's own, made by one program for every engine; here the
finished tables are copied, in one transaction, in batches. So a killed registration leaves nothing.
No statistics of people's values are taken, so that a plan does not follow from them
(`planning.py`).
"""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb

from dither.catalog import Catalog
from dither.data.engines.postgres.session import connect, load_psycopg
from dither.data.quoting import name
from dither.data.register.postgres.planning import write_indexes, write_statistics
from dither.errors import DitherError

_ROWS = 1 << 16
_TYPES = {"TINYINT": "SMALLINT", "HUGEINT": "NUMERIC(38, 0)", "VARCHAR": 'TEXT COLLATE "C"'}
LONGEST_NAME = 50
"""PostgreSQL cuts names at 63 bytes; what stands beside a column adds `dither_index_`."""


class CopyError(DitherError):
    """The copy could not be written; quotes no row."""


def list_problems(catalog: Catalog) -> list[str]:
    """List what of a catalog PostgreSQL cannot hold, from the catalog alone."""
    names = [(table.name, table.name) for table in catalog.tables]
    names += [(f"{t.name}.{c.name}", c.name) for t in catalog.tables for c in t.columns]
    return [
        f"{shown} is longer than {LONGEST_NAME} characters, and PostgreSQL cuts long names"
        for shown, identifier in names
        if len(identifier) > LONGEST_NAME
    ]


def write_copy(
    catalog: Catalog,
    location: str,
    schema: str,
    file: Path,
    share: Callable[[float], None] | None,
) -> None:
    """Write all tables of a registered file into a new schema, in place of one left over."""
    library = load_psycopg()
    source = duckdb.connect(str(file), read_only=True)
    try:
        connection = connect(location)
        try:
            connection.execute("SET statement_timeout = 0")
            with connection.transaction():
                connection.execute(f"DROP SCHEMA IF EXISTS {name(schema)} CASCADE")
                connection.execute(f"CREATE SCHEMA {name(schema)}")
                connection.execute(f"REVOKE ALL ON SCHEMA {name(schema)} FROM PUBLIC")
                _write_tables(connection, source, catalog, schema, share)
                write_indexes(connection, schema, catalog)
        except library.Error as error:
            raise CopyError(_describe(error)) from None
        finally:
            connection.close()
    finally:
        source.close()


def drop_copy(location: str, schema: str) -> None:
    """Drop the schema of a copy, if it is there."""
    library = load_psycopg()
    connection = connect(location)
    try:
        connection.execute(f"DROP SCHEMA IF EXISTS {name(schema)} CASCADE")
    except library.Error as error:
        raise CopyError(_describe(error)) from None
    finally:
        connection.close()


def _describe(error: Any) -> str:
    """Name an error by its code: the server's words may quote a row."""
    code = error.sqlstate or "no code"
    return f"the registered copy: PostgreSQL refused it with {type(error).__name__} ({code})"


def _write_tables(
    connection: Any,
    source: duckdb.DuckDBPyConnection,
    catalog: Catalog,
    schema: str,
    share: Callable[[float], None] | None,
) -> None:
    tables = [str(row[0]) for row in source.execute("SHOW TABLES").fetchall()]
    counts = [source.table(name(table)).shape[0] for table in tables]
    written = 0
    for table in tables:
        for rows in _write_table(connection, source, catalog, schema, table):
            written += rows
            if share is not None:
                share(written / max(1, sum(counts)))


def _write_table(
    connection: Any, source: duckdb.DuckDBPyConnection, catalog: Catalog, schema: str, table: str
) -> Any:
    """Write one table by COPY, batch by batch; yields how many rows each batch had."""
    import pyarrow.csv

    described = source.execute(f"DESCRIBE {name(table)}").fetchall()
    columns = [(str(row[0]), str(row[1])) for row in described]
    target = f"{name(schema)}.{name(table)}"
    defined = ", ".join(f"{name(column)} {_TYPES.get(kind, kind)}" for column, kind in columns)
    connection.execute(f"CREATE TABLE {target} ({defined}) WITH (autovacuum_enabled = false)")
    if catalog.table(table).kind == "private":
        write_statistics(connection, schema, catalog, catalog.table(table))
    shown = ", ".join(
        f"CAST({name(column)} AS VARCHAR)" if kind == "HUGEINT" else name(column)
        for column, kind in columns
    )
    options = pyarrow.csv.WriteOptions(include_header=False)
    reader = source.sql(f"SELECT {shown} FROM {name(table)}").to_arrow_reader(_ROWS)
    # a null is an empty field without quotes, an empty text one with them: PostgreSQL reads both so
    with connection.cursor().copy(f"COPY {target} FROM STDIN (FORMAT csv, FREEZE)") as copy:
        for batch in reader:
            buffer = io.BytesIO()
            pyarrow.csv.write_csv(batch, buffer, options)
            copy.write(buffer.getvalue())
            yield batch.num_rows
