"""Statements on a prepared copy in Spark: only aggregates leave, and one runs at a time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from dither.data.engines.interface import MeasureError
from dither.data.engines.spark.dialect import SPARK
from dither.data.engines.spark.session import open_session
from dither.data.engines.spark.tables import open_tables


class SparkEngine:
    """A registered copy in Parquet, opened in a session of its own."""

    dialect = SPARK

    def __init__(self, folder: Path) -> None:
        """Open a session in which the copy's tables are views of their names."""
        self._folder = folder
        self.session = self._open()

    def _open(self) -> Any:
        session = open_session()
        open_tables(session, self._folder)
        return session

    def check(self) -> None:
        """Open a session again where the application has ended; reads no row."""
        try:
            self.session.conf.get("spark.sql.ansi.enabled")
        except Exception:
            self.session = self._open()
        open_tables(self.session, self._folder)

    def compile(self, name: str, sql: str, *, is_kept: bool, **_: object) -> str:
        """Analyse a statement, which reads no row; its text is what is run."""
        try:
            assert self.session.sql(sql).columns  # its analysis is what may fail
        except Exception:
            raise MeasureError("the question could not be compiled") from None
        return sql

    def fetch_rows(self, run: str) -> list[tuple[int, ...]]:
        """Run a statement and return its few rows as tuples of exact integers."""
        columns = [column.to_pylist() for column in self.fetch_table(run).columns]
        return [tuple(map(int, row)) for row in zip(*columns, strict=True)]

    def fetch_table(self, run: str) -> Any:
        """Run a statement and return its rows as an Arrow table."""
        try:
            return self.session.sql(run).toArrow()
        except Exception:
            raise MeasureError("the engine failed") from None

    def stream(self, run: str, rows: int) -> Iterator[Any]:
        """Rows never leave the cluster: whoever asks for them was refused before."""
        raise MeasureError("the engine failed")

    def interrupt(self) -> None:
        """Ask the cluster to stop the statement that runs.

        The session is this engine's own, so nobody else's statement ends. (`interruptTag` found
        no statement that `toArrow` runs, in Spark 4.3.)
        """
        with suppress(Exception):
            self.session.interruptAll()

    def close(self) -> None:
        """Forget the views; the application goes on, others may use it."""
        with suppress(Exception):
            for view in self.session.catalog.listTables():
                self.session.catalog.dropTempView(view.name)
