"""Sources that are servers: what registration asks of one, and how one is opened."""

from __future__ import annotations

from typing import Protocol

import duckdb

from dither.catalog import Source, Table


class TableSource(Protocol):
    """The tables of a server as they stood at one moment."""

    def list_types(self, source_name: str) -> list[tuple[str, str]]:
        """List names and types of the columns of a table."""

    def check_table(self, table: Table) -> list[str]:
        """Raise SourceError unless every declared column is there and can be read."""

    def text_rows(self, connection: duckdb.DuckDBPyConnection, table: Table) -> str:
        """Write SQL of a relation with the declared columns as text, to be read once."""

    def close(self) -> None:
        """Give up the snapshot."""


def open_tables(source: Source) -> TableSource | None:
    """Take a snapshot of a server; None where the source is files."""
    if source.engine != "postgres":
        return None
    from dither.data.engines.postgres.source import PostgresSource

    return PostgresSource(source.location)
