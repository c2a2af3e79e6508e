"""Statements on a prepared copy in PostgreSQL: only aggregates leave, and one runs at a time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from dither.data.engines.interface import MeasureError
from dither.data.engines.postgres.dialect import POSTGRES
from dither.data.engines.postgres.session import connect, load_psycopg
from dither.data.quoting import name as quote_name

_SECONDS_TO_CANCEL = 10.0
_NUMERIC = 1700
_TEXTS = (25, 1043)
_PLANNING = {
    "enable_nestloop": "off",
    "enable_mergejoin": "off",
    "work_mem": "64MB",
    "jit": "off",
}
"""Settings of every session. The copy has no statistics of values, so that the server's plan does
not depend on what rows hold. Without statistics the server believes that joins are tiny, and would
choose nested loops, or sort texts to merge them: hash joins serve whatever the sizes are."""


class PostgresEngine:
    """A registered copy in a schema of a database, opened read-only."""

    dialect = POSTGRES

    def __init__(self, location: str, schema: str) -> None:
        """Connect; the copy is the tables of `schema`."""
        self._location = location
        self._schema = schema
        self._errors = load_psycopg().Error
        self.connection = self._connect()

    def _connect(self) -> Any:
        """Open a connection that can write nothing and sees the copy's tables by their names."""
        connection = connect(self._location)
        try:
            connection.execute("SET default_transaction_read_only = on")
            connection.execute(f"SET search_path = {quote_name(self._schema)}")
            for setting, value in _PLANNING.items():
                connection.execute(f"SET {setting} = '{value}'")
        except self._errors:
            connection.close()
            raise MeasureError("the registered copy cannot be opened") from None
        return connection

    def check(self) -> None:
        """Connect again where the connection was lost; the copy must be there. Reads no row."""
        for _ in range(2):
            try:
                row = self.connection.execute(
                    "SELECT to_regnamespace(quote_ident(%s)) IS NOT NULL", (self._schema,)
                ).fetchone()
            except self._errors:
                self.close()
                self.connection = self._connect()
                continue
            if row == (True,):
                return
            break
        raise MeasureError(
            "the registered copy cannot be opened: ask the steward to register again"
        )

    def compile(self, name: str, sql: str, *, is_kept: bool) -> str:
        """Plan a statement, which reads no row; its text is what is run."""
        try:
            self.connection.execute(f"EXPLAIN {sql}")
        except self._errors:
            raise MeasureError("the question could not be compiled") from None
        return sql

    def forget(self, run: str) -> None:
        """Nothing is kept."""

    def fetch_rows(self, run: str) -> list[tuple[int, ...]]:
        """Run a statement and return its few rows as tuples of exact integers."""
        rows, _ = self._fetch(run)
        return [tuple(map(int, row)) for row in rows]

    def fetch_table(self, run: str) -> Any:
        """Run a statement and return its rows as an Arrow table."""
        import pyarrow as pa

        rows, described = self._fetch(run)
        columns = list(zip(*rows, strict=True)) if rows else [()] * len(described)
        arrays = [
            pa.array(column, _arrow_type(pa, code))
            for column, (_, code) in zip(columns, described, strict=True)
        ]
        return pa.table(arrays, names=[column for column, _ in described])

    def _fetch(self, run: str) -> tuple[list[tuple[Any, ...]], list[tuple[str, int]]]:
        """Run a statement and return its rows, with names and types of its columns.

        Connects again first where an earlier try lost the connection.
        """
        try:
            if self.connection.closed:
                self.connection = self._connect()
            cursor = self.connection.execute(run)
            assert cursor.description is not None
            described = [(column.name, column.type_code) for column in cursor.description]
            return cursor.fetchall(), described
        except self._errors:
            raise MeasureError("the engine failed") from None

    def stream(self, run: str, rows: int) -> Iterator[Any]:
        """Rows never leave the database: whoever asks for them was refused before."""
        raise MeasureError("the engine failed")

    def interrupt(self) -> None:
        """Ask the server to stop the statement that runs."""
        with suppress(self._errors):
            self.connection.cancel_safe(timeout=_SECONDS_TO_CANCEL)

    def close(self) -> None:
        """Close the connection; harmless when called again."""
        with suppress(self._errors):
            self.connection.close()


def _arrow_type(pa: Any, code: int) -> Any:
    """The type of a column in Arrow: integers stay exact."""
    if code in _TEXTS:
        return pa.string()
    return pa.decimal128(38, 0) if code == _NUMERIC else pa.int64()
