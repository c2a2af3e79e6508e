"""The prepared copy as Parquet: a folder a table, clustered by owner, and a manifest of our own.

Private tables are there already where Spark registered them (`register.py`); this writes the
others, and the manifest.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb

from dither.catalog import Catalog, Decimal
from dither.data.engines.spark.dialect import SPARK
from dither.data.engines.spark.session import open_session
from dither.data.engines.spark.tables import (
    MANIFEST,
    digest_file,
    measure_files,
    write_schema,
)
from dither.data.lower.columns import UNIT
from dither.data.quoting import name, text

_LARGEST_DECIMAL = 10**18
"""A decimal is rounded from a float to a long, which must hold it with room to spare."""


def list_problems(catalog: Catalog) -> list[str]:
    """List what of a catalog Spark cannot round exactly, from the catalog alone."""
    return [
        f"{table.name}.{column.name} has decimals of more than 18 digits on its grid, which Spark "
        "cannot round exactly"
        for table in catalog.tables
        for column in table.columns
        if isinstance(column, Decimal)
        and max(abs(column.lower_grid), abs(column.upper_grid)) >= _LARGEST_DECIMAL
    ]


def write_copy(folder: Path, file: Path, share: Callable[[float], None] | None) -> None:
    """Write all tables of a registered file beside those that Spark has written there itself."""
    folder.mkdir(mode=0o700, exist_ok=True)
    session = open_session()
    source = duckdb.connect(str(file), read_only=True)
    try:
        tables = [str(row[0]) for row in source.execute("SHOW TABLES").fetchall()]
        for number, table in enumerate(tables, 1):
            plain = folder / f"{table}.plain"
            columns = _write_plain(source, table, plain)
            _write_clustered(session, columns, plain, folder / table)
            plain.unlink()
            if share is not None:
                share(number / len(tables))
    finally:
        source.close()
    _write_manifest(session, folder)


def _write_plain(
    source: duckdb.DuckDBPyConnection, table: str, file: Path
) -> list[tuple[str, str]]:
    """Write a table of the file as Parquet; return names and types of its columns in Spark."""
    described = source.execute(f"DESCRIBE {name(table)}").fetchall()
    columns = [(str(row[0]), str(row[1])) for row in described]
    # DuckDB writes its widest integers into Parquet as floats
    shown = ", ".join(
        f"CAST({name(column)} AS DECIMAL(38, 0)) AS {name(column)}"
        if kind == "HUGEINT"
        else name(column)
        for column, kind in columns
    )
    target = text(str(file))
    source.execute(f"COPY (SELECT {shown} FROM {name(table)}) TO {target} (FORMAT parquet)")
    return [(column, SPARK.type_name(kind)) for column, kind in columns]


def _write_clustered(
    session: Any, columns: list[tuple[str, str]], plain: Path, target: Path
) -> None:
    """Write a table again with all rows of an owner in one file, side by side."""
    rows = session.read.schema(write_schema(columns)).parquet(str(plain))
    if UNIT in dict(columns):
        rows = rows.repartition(UNIT).sortWithinPartitions(UNIT)
    rows.write.mode("error").parquet(str(target))


def _write_manifest(session: Any, folder: Path) -> None:
    """Write which files a copy has, what is in them, and the types of its columns."""
    tables = {}
    for table in sorted(path.name for path in folder.iterdir() if path.is_dir()):
        fields = session.read.parquet(str(folder / table)).schema.fields
        tables[table] = {
            "columns": [[field.name, field.dataType.simpleString()] for field in fields],
            "files": measure_files(folder, table),
            "digests": _digest_files(folder, table),
        }
    (folder / MANIFEST).write_text(json.dumps({"v": 1, "tables": tables}), encoding="utf-8")


def _digest_files(folder: Path, table: str) -> dict[str, str]:
    """The files of a table, with the digests of their contents."""
    return {file.name: digest_file(file) for file in (folder / table).glob("*.parquet")}
