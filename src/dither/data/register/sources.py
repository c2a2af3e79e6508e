"""Sources: every engine's rows as text, by declared column name. Types are never sniffed, values
never looked at.

CSV is read with declared columns as text; Parquet and DuckDB values become the text that DuckDB
writes for their type, dates and times outside the calendar a text that is none (source_types.py).
An empty text is a null. Names of columns are schema; everything else of a source is data.

In CSV one line is one row and is read by itself. A file with a quote in it is read by one thread
from the start: a parallel reader guesses whether its part begins inside quotes, and guesses by
other people's rows. A file without one is read by all threads, and once more by one thread unless
every line gave a row. Every line is accounted for: a record that spans lines stops registration,
since an unclosed quote would silently swallow the rows after it, and so does a carriage return
inside a line. So nobody's row can change how another's is read (rule rows-read-apart).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import duckdb

from dither.catalog import Id, Source, Table
from dither.data.quoting import name, text
from dither.data.register.csv_lines import LineCounts, count_lines
from dither.data.register.csv_source import (
    csv_relation,
    csv_text,
    list_fields,
    read_header,
    rejects_table,
)
from dither.data.register.csv_threads import open_lines
from dither.data.register.parquet import open_reader
from dither.data.register.source_types import (
    NO_TYPES,
    SourceError,
    check_ids,
    check_mixed_ids,
    check_types,
    text_of,
)


def column_names(
    connection: duckdb.DuckDBPyConnection, source: Source, location: Path, table: Table
) -> list[str]:
    """The names of a source table's columns: schema, not data."""
    return list_source_columns(connection, source, location, table.source_name)


def list_source_columns(
    connection: duckdb.DuckDBPyConnection, source: Source, location: Path, source_name: str
) -> list[str]:
    """List the names of the columns of one file or table."""
    if source.engine == "csv":
        return read_header(location / source_name, source)
    return [
        column for column, _ in list_source_types(connection, source.engine, location, source_name)
    ]


def name_at_source(table: Table, column: str) -> str:
    """What the source calls a declared column."""
    return dict(table.source_columns).get(column, column)


def list_source_types(
    connection: duckdb.DuckDBPyConnection, engine: str, location: Path, source_name: str
) -> list[tuple[str, str]]:
    """List names and type words of a Parquet file or DuckDB table.

    Labels of an ENUM are values and are left out.
    """
    described = _describe(connection, engine, location, source_name)
    return [(column, kind.split("(")[0]) for column, kind in described]


def _describe(
    connection: duckdb.DuckDBPyConnection, engine: str, location: Path, source_name: str
) -> list[tuple[str, str]]:
    """Names and whole types of the columns of a Parquet file or DuckDB table."""
    try:
        relation = _relation(connection, engine, location, source_name)
        rows = connection.execute(f"DESCRIBE SELECT * FROM {relation}").fetchall()
    except duckdb.Error as error:
        raise SourceError(
            f"cannot read the schema of {source_name} in {location}: {type(error).__name__}"
        ) from None
    return [(str(row[0]), str(row[1])) for row in rows]


def missing_columns(names: list[str], table: Table) -> list[str]:
    """Declared columns that the source does not have."""
    declared = [name_at_source(table, column) for column in table.column_names]
    return [column for column in declared if column not in names]


def check_columns(
    connection: duckdb.DuckDBPyConnection, source: Source, location: Path, table: Table
) -> list[str]:
    """List the names of the source's columns.

    Raises SourceError unless every declared one is there once.
    """
    names = column_names(connection, source, location, table)
    missing = missing_columns(names, table)
    if missing or len(set(names)) != len(names):
        where = (
            f"the first line of {table.source_name}"
            if source.engine == "csv"
            else table.source_name
        )
        raise SourceError(
            f"{table.name}: {where} must name every declared column once; "
            f"missing: {', '.join(missing) or 'none'}; found: {', '.join(names)}"
        )
    return names


def check_source_types(
    connection: duckdb.DuckDBPyConnection, source: Source, location: Path, table: Table
) -> dict[str, str]:
    """Map the declared columns to their type words at the source.

    Raises SourceError where one cannot be read exactly.
    """
    described = dict(_describe(connection, source.engine, location, table.source_name))
    types = {column: kind.split("(")[0] for column, kind in described.items()}
    wide: frozenset[str] = frozenset()
    if source.engine == "parquet":
        _check_files(connection, location, table)
        rows = connection.execute(
            f"SELECT name FROM parquet_schema({text(str(location / table.source_name))}) WHERE "
            f"precision > 38"
        ).fetchall()
        wide = frozenset(str(row[0]) for row in rows if types.get(str(row[0])) == "DOUBLE")
    sources = {column: name_at_source(table, column) for column in table.column_names}
    declared = {column: types[source_name] for column, source_name in sources.items()}
    wide_columns = frozenset(column for column in sources if sources[column] in wide)
    check_types(table, declared, wide_columns)
    check_ids(table, {column: described[source_name] for column, source_name in sources.items()})
    return declared


def _check_files(connection: duckdb.DuckDBPyConnection, location: Path, table: Table) -> None:
    """Refuse ids that the files of a wildcard write in several ways, by one file of each schema.

    The engine casts all files to the types of the first. Where that one has texts, a number with
    decimals of another file would be a text of its own: another person.
    """
    pattern = text(str(location / table.source_name))
    files = connection.execute(
        "SELECT min(file) FROM (SELECT file_name AS file, list(concat_ws(' ', name, type, "
        "converted_type, logical_type, precision, scale)) AS schema "
        f"FROM parquet_schema({pattern}) GROUP BY file_name) GROUP BY schema ORDER BY 1"
    ).fetchall()
    schemas = [
        dict(_describe(connection, "parquet", Path(file).parent, Path(file).name))
        for (file,) in files
    ]
    for column in table.columns:
        if isinstance(column, Id):
            source_name = name_at_source(table, column.name)
            check_mixed_ids(
                f"{table.name}.{column.name}",
                {schema[source_name] for schema in schemas if source_name in schema},
            )


def list_whole_types(
    connection: duckdb.DuckDBPyConnection, source: Source, location: Path, table: Table
) -> dict[str, str]:
    """Map the declared columns to their whole types at the source; nothing for CSV."""
    if source.engine == "csv":
        return {}
    check_columns(connection, source, location, table)
    described = dict(_describe(connection, source.engine, location, table.source_name))
    return {column: described[name_at_source(table, column)] for column in table.column_names}


def text_rows(
    connection: duckdb.DuckDBPyConnection,
    source: Source,
    location: Path,
    table: Table,
    *,
    types: Mapping[str, str] = NO_TYPES,
    through_arrow: bool = False,
    by_all_threads: bool = False,
) -> str:
    """Write SQL of a relation with the declared columns as text, empty texts as null.

    Columns in `types` are left as they are (`typed_values.py`). A CSV file without quotes may be
    read `by_all_threads`, once for each call. A Parquet file at which the
    engine's reader stops is read `through_arrow`, once for each call.
    """
    names = check_columns(connection, source, location, table)
    sources = [name_at_source(table, column) for column in table.column_names]
    if source.engine == "csv":
        texts = [csv_text(source, names.index(column)) for column in sources]
        path = location / table.source_name
        if by_all_threads:
            relation = name(f"dither_lines_{table.name}")
            lines = open_lines(path, source.delimiter, list_fields(len(names)))
            connection.register(f"dither_lines_{table.name}", lines)
        else:
            relation = csv_relation(source, path, table, len(names))
    else:
        words = check_source_types(connection, source, location, table)
        texts = [
            text_of(column, words[column.name], source_name)
            for column, source_name in zip(table.columns, sources, strict=True)
        ]
        relation = _relation(connection, source.engine, location, table.source_name)
        if through_arrow:
            by_source = dict(zip(sources, words.values(), strict=True))
            relation = _arrow_relation(connection, relation, location, table, by_source)
    may_be_empty = source.trim or not by_all_threads
    values = [
        name(source_name)
        if column in types
        else (f"NULLIF({text_sql}, '')" if may_be_empty else text_sql)
        for text_sql, source_name, column in zip(texts, sources, table.column_names, strict=True)
    ]
    outputs = ", ".join(
        f"{value} AS {name(column)}"
        for value, column in zip(values, table.column_names, strict=True)
    )
    return f"(SELECT {outputs} FROM {relation})"


def _arrow_relation(
    connection: duckdb.DuckDBPyConnection,
    relation: str,
    location: Path,
    table: Table,
    types: dict[str, str],
) -> str:
    """Read the declared columns by Arrow, and return the name of that relation.

    It is `relation` itself where a type differs, since a text might then differ too.
    """
    files = connection.execute(
        f"SELECT file FROM glob({text(str(location / table.source_name))}) ORDER BY 1"
    ).fetchall()
    view = f"dither_arrow_{table.name}"
    try:
        reader = open_reader([Path(row[0]) for row in files], list(types))
        connection.register(view, reader)
        described = connection.execute(f"DESCRIBE SELECT * FROM {name(view)}").fetchall()
    except (KeyError, OSError, ValueError, duckdb.Error):  # Arrow's own errors are ValueErrors
        return relation
    is_same = all(types[str(row[0])] == str(row[1]).split("(")[0] for row in described)
    return name(view) if is_same else relation


def check_lines(source: Source, location: Path, table: Table) -> LineCounts:
    """Count the lines of a table's CSV file.

    Raises SourceError where a carriage return does not end a line.
    """
    path = location / table.source_name
    try:
        counts = count_lines(path, source.quote)
    except OSError as error:
        raise SourceError(f"cannot read {path}: {type(error).__name__}") from None
    if counts.lone_returns:
        raise SourceError(
            f"{table.name}: {path.name} holds {counts.lone_returns} carriage returns that do not "
            "end a line. Nothing was registered: they end a row for one reader and not for "
            "another, so remove line breaks inside fields at the source"
        )
    return counts


def count_unread(
    connection: duckdb.DuckDBPyConnection,
    source: Source,
    location: Path,
    table: Table,
    counts: LineCounts,
    rows_read: int,
) -> int:
    """Count the lines that were no CSV, after `rows_read` rows were read by one thread.

    Raises SourceError if any line is unaccounted for.
    """
    ((unread,),) = connection.execute(
        f"SELECT count(DISTINCT line) FROM {name(rejects_table(table))}"
    ).fetchall()
    path = location / table.source_name
    if lost := counts.count_rows(len(read_header(path, source))) - rows_read - unread:
        raise SourceError(
            f"{table.name}: {abs(lost)} lines of {path.name} are inside records that span several "
            "lines, because of a line break inside quotes or a quote that is never closed. Nothing "
            "was registered: such a quote swallows other people's rows, so remove line breaks "
            "inside fields at the source"
        )
    return int(unread)


def table_names(connection: duckdb.DuckDBPyConnection, location: Path) -> list[str]:
    """List the tables of a DuckDB file, by name."""
    try:
        _attach(connection, location)
        rows = connection.execute(
            "SELECT table_name FROM duckdb_tables() "
            "WHERE database_name = 'dither_source' AND schema_name = 'main' ORDER BY 1"
        ).fetchall()
    except duckdb.Error as error:
        raise SourceError(f"cannot read {location}: {type(error).__name__}") from None
    return [str(row[0]) for row in rows]


def _attach(connection: duckdb.DuckDBPyConnection, location: Path) -> None:
    """Attach a DuckDB file for reading, unless it is attached already."""
    attached = connection.execute(
        "SELECT 1 FROM duckdb_databases() WHERE database_name = 'dither_source'"
    ).fetchall()
    if not attached:
        connection.execute(f"ATTACH {text(str(location))} AS dither_source (READ_ONLY)")


def _relation(
    connection: duckdb.DuckDBPyConnection, engine: str, location: Path, source_name: str
) -> str:
    """Write SQL of the relation that a Parquet file or a DuckDB table is."""
    if engine == "parquet":
        return f"read_parquet({text(str(location / source_name))})"
    _attach(connection, location)
    identifiers = source_name.split(".")
    return ".".join(
        name(identifier)
        for identifier in [
            "dither_source",
            *(identifiers if len(identifiers) == 2 else ["main", *identifiers]),
        ]
    )
