"""Tables of Spark as rows of text for registration: Parquet by path, or tables of its catalog.

Private tables are registered where they lie (`register.py`). Public ones, which are small, Spark
writes as texts beside the other scratch files of registration, which reads them from there. Types
are allowed by name, those of which texts differ between engines only where a number is declared.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import duckdb

from dither.catalog import Column, Decimal, Id, Table
from dither.data.engines.spark.session import ClusterError, open_session
from dither.data.quoting import FILE_ENDINGS, name, text
from dither.data.register.source_types import SourceError

CATALOG = "catalog"
"""The location that means tables of Spark's catalog and not files."""
_IDS = ("string", "tinyint", "smallint", "int", "bigint")
"""Types of which equal values are one text, also of two of them; and decimals of whole numbers."""
_EXACT = (*_IDS, "boolean", "date")
_TIMES = ("timestamp", "timestamp_ntz")
_NUMBERS = ("float", "double")


class SparkSource:
    """Tables that a Spark session can read."""

    def __init__(self, location: str, folder: Path, scratch: Path) -> None:
        """Open a session. `folder` is what `location` is if it is a path on this machine."""
        try:
            self.session = open_session()
        except ClusterError as error:
            raise SourceError(str(error)) from None
        self._location = location
        self._folder = folder
        self._scratch = scratch / "spark-texts"
        self._written: dict[str, str] = {}
        self._kept: list[str] = []

    def _read(self, source_name: str) -> Any:
        """The rows of a table, not yet read. Raises SourceError where there is none."""
        try:
            if self._location == CATALOG:
                return self.session.table(source_name)
            return self.session.read.parquet(self._find_path(source_name))
        except Exception as error:
            raise SourceError(f"Spark cannot read {source_name}: {type(error).__name__}") from None

    def _find_path(self, source_name: str) -> str:
        """The path of a Parquet file or folder; a catalog that named CSV files names its stem."""
        stem = next((source_name[: -len(e)] for e in FILE_ENDINGS if source_name.endswith(e)), "")
        if "://" in self._location:
            return f"{self._location.rstrip('/')}/{stem or source_name}.parquet"
        names = (source_name, f"{stem or source_name}.parquet", stem or source_name)
        paths = [self._folder / file for file in names if not file.endswith(".csv")]
        return str(next((path for path in paths if path.exists()), paths[0]))

    def list_types(self, source_name: str) -> list[tuple[str, str]]:
        """List names and types of the columns of a table."""
        fields = self._read(source_name).schema.fields
        return [(field.name, field.dataType.simpleString()) for field in fields]

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
            if problem := _find_problem(types[source_column], column):
                raise SourceError(f"{table.name}.{column.name}: {problem}")
        return names

    def text_rows(self, connection: duckdb.DuckDBPyConnection, table: Table) -> str:
        """Write SQL of a relation with the declared columns as text."""
        if table.name not in self._written:
            self._written[table.name] = self._write_texts(table)
        return f"(SELECT * FROM read_parquet({text(self._written[table.name])}))"

    def make_view(self, table: Table) -> str:
        """Make a view of the declared columns as texts, empty ones as null; return its name."""
        view = f"dither_raw_{table.name}"
        self._read_texts(table).createOrReplaceTempView(view)
        return name(view)

    def keep_view(self, sql: str, view: str) -> None:
        """Make a view of rows that are computed when they are first read, and then kept on disk.

        They lie where Spark keeps what its shuffles write; those of a lost executor are computed
        again. `view` is a quoted name.
        """
        self._kept.append(view)
        self.session.sql(f"CREATE OR REPLACE TEMPORARY VIEW {view} AS {sql}")
        self.session.sql(f"CACHE LAZY TABLE {view} OPTIONS ('storageLevel' 'DISK_ONLY')")

    def drop_view(self, view: str) -> None:
        """Drop a view with the rows that were kept for it."""
        self._kept.remove(view)
        self.session.sql(f"UNCACHE TABLE IF EXISTS {view}")
        self.session.sql(f"DROP VIEW IF EXISTS {view}")

    def drop_views(self) -> None:
        """Drop all views that have kept rows, those that read others first."""
        for view in reversed(self._kept.copy()):
            self.drop_view(view)

    def _read_texts(self, table: Table) -> Any:
        """The declared columns of a table as texts, not yet read."""
        names = self.check_table(table)
        rows = self._read(table.source_name)
        texts = [
            _read_text(rows[source_column]).alias(column.name)
            for source_column, column in zip(names, table.columns, strict=True)
        ]
        return rows.select(*texts).replace("", None)

    def _write_texts(self, table: Table) -> str:
        """Write the declared columns of a table as texts; return the files' pattern."""
        rows = self._read_texts(table)
        self._scratch.mkdir(mode=0o700, exist_ok=True)
        target = self._scratch / table.name
        try:
            rows.write.mode("error").parquet(str(target))
        except Exception as error:
            raise SourceError(
                f"Spark failed to read {table.name}: {type(error).__name__}"
            ) from None
        return str(target / "*.parquet")

    def close(self) -> None:
        """Remove the texts."""
        shutil.rmtree(self._scratch, ignore_errors=True)


def _read_text(value: Any) -> Any:
    """A value as text; bytes that are no text become null, as they do in other engines."""
    from pyspark.sql import functions

    written = value.cast("string")
    return functions.when(functions.is_valid_utf8(written), written)


def _find_problem(kind: str, column: Column) -> str | None:
    """Say why a column of a type cannot be read exactly; None if it can."""
    is_number = kind.startswith("decimal") or kind in _NUMBERS
    is_whole = kind in _IDS or (kind.startswith("decimal") and kind.endswith(",0)"))
    if isinstance(column, Id) and not is_whole:
        return (
            f"an id of type {kind} may be written in two ways: cast it to text or to a whole "
            "number in a view"
        )
    if kind in _EXACT or kind in _TIMES or (is_number and isinstance(column, Decimal)):
        return None
    if kind.startswith("decimal") and kind.endswith(",0)"):
        return None
    return (
        f"the source has type {kind}, which is not read for a column of type {column.type}: cast "
        "it to text, to a whole number or to a date in a view"
    )
