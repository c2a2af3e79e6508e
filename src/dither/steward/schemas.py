"""The schema of a source: compared with a catalog, or drafted into one. No value is read."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import duckdb

from dither.catalog import Catalog, Source, Table
from dither.catalog.file.draft import draft
from dither.data.register.connections import open_for_schema
from dither.data.register.server_tables import open_tables
from dither.data.register.source_types import SourceError
from dither.data.register.sources import (
    check_source_types,
    column_names,
    list_source_columns,
    list_source_types,
    missing_columns,
    table_names,
)
from dither.errors import CatalogError, DitherError

Engine = Literal["csv", "parquet", "duckdb"]
_ENDINGS: dict[str, Engine] = {
    ".csv": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".duckdb": "duckdb",
    ".db": "duckdb",
}


@dataclass(frozen=True)
class SourceFiles:
    """A source that was named by a path: where it lies, and its tables as (name, file or table)."""

    engine: Engine
    location: Path
    tables: tuple[tuple[str, str], ...]


def check_source(catalog: Catalog, catalog_file: Path) -> str:
    """Compare the catalog with the names in the source's schema, and say the outcome. Reads no
    value."""
    source_path = catalog_file.parent / catalog.source.location
    if catalog.source.is_path and not source_path.exists():
        return f"the source {source_path} is not here: its columns were not compared"
    errors = list_source_problems(catalog, source_path)
    if errors:
        raise errors[0]
    shown = source_path if catalog.source.is_path else catalog.source.location
    return f"the source {shown} has every declared column"


def list_source_problems(catalog: Catalog, source_path: Path) -> tuple[CatalogError, ...]:
    """List what the source lacks of the catalog, table by table."""
    if not catalog.source.is_path:
        messages = _compare_server(catalog, source_path)
    elif source_path.exists():
        messages = _compare_files(catalog, source_path)
    else:
        return ()
    return tuple(
        CatalogError(f"table {table.name}: {message}", file=catalog.file, line=table.line)
        for table, message in messages
        if message is not None
    )


def _compare_files(catalog: Catalog, source_path: Path) -> list[tuple[Table, str | None]]:
    """Compare every table with the files of the source."""
    connection = open_for_schema()
    try:
        return [
            (table, _compare_table(connection, catalog.source, source_path, table))
            for table in catalog.tables
        ]
    finally:
        connection.close()


def _compare_server(catalog: Catalog, source_path: Path) -> list[tuple[Table, str | None]]:
    """Compare every table with the server's. Raises DitherError where it cannot be reached."""
    tables = open_tables(catalog.source, source_path, source_path)
    assert tables is not None
    messages: list[tuple[Table, str | None]] = []
    try:
        for table in catalog.tables:
            try:
                tables.check_table(table)
                messages.append((table, None))
            except SourceError as error:
                messages.append((table, str(error)))
    finally:
        tables.close()
    return messages


def _compare_table(
    connection: duckdb.DuckDBPyConnection, source: Source, source_path: Path, table: Table
) -> str | None:
    """Compare a table with its source; return the problem as a sentence, None where there is
    none."""
    try:
        missing = missing_columns(column_names(connection, source, source_path, table), table)
        if missing:
            return f"{table.source_name} has no column {', '.join(missing)}"
        if source.engine != "csv":
            check_source_types(connection, source, source_path, table)
    except SourceError as error:
        return str(error)
    return None


def recognise_source(path: Path, engine: Engine | None = None) -> SourceFiles:
    """Recognise the source at a path: a CSV, Parquet or DuckDB file, or a folder of the first two.

    Decided by the endings of names. Raises DitherError where it is none.
    """
    if not path.exists():
        raise DitherError(f"there is no {path}: name a file or a folder of files")
    chosen = engine or _ENDINGS.get(path.suffix.lower())
    if path.is_dir():
        return _recognise_folder(path, engine)
    if chosen is None:
        raise DitherError(
            f"{path} has none of the endings {', '.join(_ENDINGS)}: say --engine csv, parquet or "
            "duckdb"
        )
    if chosen != "duckdb":
        return SourceFiles(chosen, path.parent, ((path.stem, path.name),))
    connection = open_for_schema()
    try:
        names = table_names(connection, path)
    finally:
        connection.close()
    return SourceFiles(chosen, path, tuple((name, name) for name in names))


def _recognise_folder(path: Path, engine: Engine | None) -> SourceFiles:
    """Recognise a folder of CSV files or of Parquet files.

    Raises DitherError where it holds both, or none.
    """
    files = [
        file
        for file in sorted(path.iterdir())
        if (kind := _ENDINGS.get(file.suffix.lower())) is not None
        and kind == (engine or kind)
        and kind != "duckdb"
    ]
    engines = {_ENDINGS[file.suffix.lower()] for file in files}
    if len(engines) != 1:
        problem = "CSV and Parquet files: say --engine" if files else "no CSV or Parquet files"
        raise DitherError(f"{path} holds {problem}")
    return SourceFiles(engines.pop(), path, tuple((file.stem, file.name) for file in files))


def read_column_names(source: Source, location: Path, source_name: str) -> list[str]:
    """Read the names of the columns of one file or table.

    Of a CSV file the header line is read and not a byte more.
    """
    connection = open_for_schema()
    try:
        return list_source_columns(connection, source, location, source_name)
    finally:
        connection.close()


def draft_catalog(path: Path, engine: Engine | None = None) -> str:
    """Draft a catalog for a file, the files in a folder, or the tables of a DuckDB file: names,
    types that the schema says, and ??? to decide."""
    files = recognise_source(path, engine)
    if not files.tables:
        raise DitherError(f"no {files.engine} tables in {path}")
    source = Source(files.engine, str(files.location))
    connection = open_for_schema()
    try:
        tables: list[tuple[str, str, list[tuple[str, str | None]]]] = []
        for table, source_name in files.tables:
            names = list_source_columns(connection, source, files.location, source_name)
            types: dict[str, str] = {}
            if files.engine != "csv":
                types = dict(
                    list_source_types(connection, files.engine, files.location, source_name)
                )
            tables.append((table, source_name, [(column, types.get(column)) for column in names]))
    finally:
        connection.close()
    trim = any(column != column.strip() for _, _, columns in tables for column, _ in columns)
    if trim and files.engine == "csv":
        tables = [
            (table, source_name, [(column.strip(), kind) for column, kind in columns])
            for table, source_name, columns in tables
        ]
    return draft(
        path.resolve().stem,
        files.engine,
        str(files.location),
        tables,
        trim=trim and files.engine == "csv",
    )
