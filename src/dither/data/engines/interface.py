"""What an engine is: a dialect, and an open prepared copy that runs one statement at a time.

The kernel prepares before it charges and runs after. So `compile` may fail freely, and everything
else raises MeasureError alone, without the engine's own words: those may quote rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, NamedTuple, Protocol

from dither.data.lower.dialect import Dialect
from dither.errors import DitherError

if TYPE_CHECKING:
    import pyarrow as pa


class MeasureError(DitherError):
    """The engine failed. Its message may quote data, so it is dropped here."""


class Compiled(NamedTuple):
    """The SQL of a query, and what to run for it: the engine's name for it or its text; None where
    a sample's key is in it."""

    sql: str
    run: str | None


class CopyEngine(Protocol):
    """One open prepared copy, read-only, of one registered version."""

    @property
    def dialect(self) -> Dialect:
        """The dialect that statements for this engine are written in."""

    def check(self) -> None:
        """Make sure that the copy can be reached, before anything is charged; reads no row."""

    def compile(
        self, name: str, sql: str, *, is_kept: bool, rewrite: Callable[[Dialect], str]
    ) -> str:
        """Check a statement against the copy's schema, without reading a row.

        `rewrite` writes the same statement in another dialect of the engine, where one may be
        quicker. Returns what to run: a text, or the name under which the engine keeps it until
        another statement takes that name.
        """

    def fetch_rows(self, run: str) -> list[tuple[int, ...]]:
        """Run a statement and return its few rows of integers."""

    def fetch_table(self, run: str) -> pa.Table:
        """Run a statement and return its rows: texts, and exact integers or decimals(38, 0)."""

    def stream(self, run: str, rows: int) -> Iterable[pa.RecordBatch]:
        """Run a statement and yield its rows in batches of so many.

        Only an engine in this process does so: from any other, rows of people would leave.
        """

    def interrupt(self) -> None:
        """Stop the statement that runs; it then raises. Another thread may call it."""

    def close(self) -> None:
        """Close the connection; harmless when called again."""
