"""Sources that are servers: what registration asks of one, and how one is opened."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

import duckdb

from dither.catalog import Source, Table


class ServerTables(Protocol):
    """The tables of a server as they stood at one moment."""

    def list_types(self, source_name: str) -> list[tuple[str, str]]:
        """List names and types of the columns of a table."""

    def check_table(self, table: Table) -> list[str]:
        """Raise SourceError unless every declared column is there and can be read."""

    def text_rows(self, connection: duckdb.DuckDBPyConnection, table: Table) -> str:
        """Write SQL of a relation with the declared columns as text, to be read once."""

    def close(self) -> None:
        """Give up the snapshot."""


def open_tables(source: Source, folder: Path, scratch: Path) -> ServerTables | None:
    """Take a snapshot of a server; None where the source is files that DuckDB reads.

    `folder` is the source's location as a path; a source may write into `scratch`.
    """
    if source.engine == "postgres":
        from dither.data.register.postgres.source import PostgresSource

        return PostgresSource(source.location)
    if source.engine == "spark":
        from dither.data.register.spark.source import SparkSource

        return SparkSource(source.location, folder, scratch)
    return None
