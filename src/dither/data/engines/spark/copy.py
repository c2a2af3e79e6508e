"""The prepared copy as Parquet: a folder a table, clustered by owner, and a manifest of our own.

The manifest lists every file with its size, and types of columns. A copy of which a file is missing
would answer without some people, so it is not opened.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb

from dither.catalog import Bounded, Catalog
from dither.data.engines.interface import MeasureError
from dither.data.engines.spark.session import open_session
from dither.data.lower.columns import UNIT
from dither.data.quoting import name, text

MANIFEST = "manifest.json"
_LONGEST = 28
"""Digits of a value: a sum of 10**10 of them has 38."""
_TYPES = {"VARCHAR": "STRING", "HUGEINT": "DECIMAL(38, 0)", "INTEGER": "INT"}


def list_problems(catalog: Catalog) -> list[str]:
    """List what of a catalog Spark cannot add up exactly, from the catalog alone."""
    return [
        f"{table.name}.{column.name} has values of more than {_LONGEST} digits on its grid, so "
        "that their sum may need more than 38"
        for table in catalog.tables
        for column in table.columns
        if isinstance(column, Bounded)
        and max(abs(column.lower_grid), abs(column.upper_grid)) >= 10**_LONGEST
    ]


def write_copy(folder: Path, file: Path, share: Callable[[float], None] | None) -> None:
    """Write all tables of a registered file into a new folder, in place of one left over."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700)
    session = open_session()
    source = duckdb.connect(str(file), read_only=True)
    try:
        tables = [str(row[0]) for row in source.execute("SHOW TABLES").fetchall()]
        columns = {}
        for number, table in enumerate(tables, 1):
            plain = folder / f"{table}.plain"
            columns[table] = _write_plain(source, table, plain)
            _write_clustered(session, table, columns[table], plain, folder / table)
            plain.unlink()
            if share is not None:
                share(number / len(tables))
    finally:
        source.close()
    write_manifest(folder, columns)


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
    return [(column, _TYPES.get(kind, kind)) for column, kind in columns]


def _write_clustered(
    session: Any, table: str, columns: list[tuple[str, str]], plain: Path, target: Path
) -> None:
    """Write a table again with all rows of an owner in one file, side by side."""
    rows = session.read.schema(_schema(columns)).parquet(str(plain))
    if UNIT in dict(columns):
        rows = rows.repartition(UNIT).sortWithinPartitions(UNIT)
    rows.write.mode("error").parquet(str(target))


def write_manifest(folder: Path, columns: dict[str, list[tuple[str, str]]]) -> None:
    """Write which files a copy has, and the types of its columns."""
    tables = {
        table: {
            "columns": types,
            "files": {
                file.name: file.stat().st_size for file in sorted(_list_files(folder, table))
            },
        }
        for table, types in columns.items()
    }
    (folder / MANIFEST).write_text(json.dumps({"v": 1, "tables": tables}), encoding="utf-8")


def open_tables(session: Any, folder: Path) -> None:
    """Make the tables of a copy views of a session, by their names.

    Raises MeasureError where a file is missing or has another size. Reads no row.
    """
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        for table, described in manifest["tables"].items():
            files = {file.name: file.stat().st_size for file in _list_files(folder, table)}
            if files != described["files"]:
                raise OSError("the files are not those of the manifest")
            rows = session.read.schema(_schema(described["columns"]))
            rows.parquet(str(folder / table)).createOrReplaceTempView(table)
    except (OSError, KeyError, ValueError):
        raise MeasureError(
            "the registered copy cannot be opened: ask the steward to register again"
        ) from None


def _list_files(folder: Path, table: str) -> list[Path]:
    return list((folder / table).glob("*.parquet"))


def _schema(columns: list[tuple[str, str]]) -> str:
    return ", ".join(f"`{column}` {kind}" for column, kind in columns)
