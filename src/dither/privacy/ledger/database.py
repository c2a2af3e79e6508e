"""What both stores share: transactions over a driver's own connection, and waiting for a lock.

Tables and statements are SQLAlchemy Core, compiled once to the store's SQL; running them through
the driver spares what SQLAlchemy spends per statement, which is several times what the database
does.
"""

from __future__ import annotations

import os
import time
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

from sqlalchemy import ClauseElement, Engine
from sqlalchemy.engine.interfaces import Dialect

from dither.errors import RefusedError
from dither.rules import PrivacyRule

PATIENCE_S = 20.0
UNCERTAIN = (
    "the store failed; this step may or may not have been recorded: run 'dither ledger verify "
    "CATALOG'"
)
T = TypeVar("T")


class Busy(Exception):
    """Another process holds the lock; waiting may help."""


def patiently(attempt: Callable[[], T]) -> T:
    """Call `attempt` again while it raises Busy, for at most PATIENCE_S seconds; return its result.

    Pauses grow from 1 to 16 ms; each is cut by a fraction that differs between processes, so that
    waiters do not march in step. The fraction hashes process id and clock: it need not be random,
    only unequal.
    """
    end = time.monotonic() + PATIENCE_S
    pause = 0.001
    while True:
        try:
            return attempt()
        except (Busy, BlockingIOError):
            if time.monotonic() > end:
                raise
        spread = zlib.crc32(f"{os.getpid()}:{time.monotonic_ns()}".encode()) / 2**32
        time.sleep(pause * (0.5 + spread / 2))
        pause = min(2 * pause, 0.016)


class Transaction:
    """One transaction: statements in, plain tuples out."""

    _compiled: dict[tuple[str, ClauseElement], tuple[str, list[str], dict[str, Any]]] = {}

    def __init__(self, raw: Any, dialect: Dialect) -> None:
        self._cursor = raw.cursor()
        self._dialect = dialect

    def rows(
        self, statement: ClauseElement | str, values: dict[str, Any] | None = None
    ) -> list[tuple[Any, ...]]:
        """Run a query and return all its rows."""
        self.run(statement, values)
        return list(self._cursor.fetchall())

    def stream(
        self, statement: ClauseElement, values: dict[str, Any] | None = None
    ) -> Iterator[tuple[Any, ...]]:
        """Run a query and yield its rows one by one: for walking the whole chain."""
        self.run(statement, values)
        yield from self._cursor

    def scalar(self, statement: ClauseElement | str, values: dict[str, Any] | None = None) -> Any:
        """Run a query; return the first column of the first row, None where there is none."""
        row = self.first_row(statement, values)
        return row[0] if row else None

    def first_row(
        self, statement: ClauseElement | str, values: dict[str, Any] | None = None
    ) -> tuple[Any, ...] | None:
        """Run a query and return its first row, None where there is none."""
        return next(iter(self.rows(statement, values)), None)

    def run(self, statement: ClauseElement | str, values: dict[str, Any] | None = None) -> None:
        """Run a statement that returns no rows.

        The text of a compiled statement is kept for its next run.
        """
        if isinstance(statement, str):
            self._cursor.execute(statement)
            return
        key = (self._dialect.name, statement)
        if key not in self._compiled:
            compiled: Any = statement.compile(dialect=self._dialect)
            names = list(getattr(compiled, "positiontup", None) or [])
            fixed = (
                {name: value for name, value in compiled.params.items() if value is not None}
                if names
                else {}
            )
            self._compiled[key] = (str(compiled), names, fixed)
        text, names, fixed = self._compiled[key]
        parameters = fixed | values if values else fixed
        self._cursor.execute(text, [parameters[name] for name in names])


class Database(ABC):
    """One store; connections are pooled per process, and never used on the far side of a fork."""

    errors: tuple[type[Exception], ...]

    def __init__(self, label: str) -> None:
        self.label = label
        self._pid = os.getpid()
        self._engine = self._new_engine()
        self._inherited: list[Engine] = []

    @abstractmethod
    def _new_engine(self) -> Engine: ...

    @abstractmethod
    def _begin(self, raw: Any, write: bool) -> None:
        """Starts a transaction, a writing one with the lock; Busy where that is held."""

    @abstractmethod
    def _cause(self, error: Exception) -> str | None:
        """Why nothing was recorded, as a sentence; None where that is not sure."""

    @abstractmethod
    def check_schema(self, transaction: Transaction) -> str | None:
        """What makes this no ledger of ours, or None."""

    @property
    def engine(self) -> Engine:
        """Return this process's engine; after a fork a new one is made.

        An inherited engine is kept aside: even closing it could touch the store.
        """
        if self._pid != os.getpid():
            self._inherited.append(self._engine)
            self._pid = os.getpid()
            self._engine = self._new_engine()
        return self._engine

    def close(self) -> None:
        self.engine.dispose()

    def _begun(self, write: bool) -> Any:
        """Return a connection in a new transaction; on an error give the connection back."""
        raw = self.engine.raw_connection()
        try:
            self._begin(raw, write)
        except BaseException:
            with suppress(*self.errors):
                raw.rollback()
            raw.close()
            raise
        return raw

    @contextmanager
    def transaction(self, *, write: bool) -> Iterator[Transaction]:
        """Run a block as one transaction, all of it or nothing.

        When a writing one returns, it is on the disk.
        """
        with self.explained():
            raw = patiently(lambda: self._begun(write))
            try:
                yield Transaction(raw, self.engine.dialect)
                raw.commit()
            except BaseException:
                with suppress(*self.errors):
                    raw.rollback()
                raise
            finally:
                raw.close()

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Turn an error of the store into one sentence.

        What it was about to write is left out.
        """
        try:
            yield
        except (Busy,) + self.errors as error:  # noqa: RUF005
            reason = self._cause(error)
            cause = UNCERTAIN if reason is None else f"{reason}. Nothing was recorded"
            raise RefusedError(
                f"the ledger {self.label} cannot be used: {cause}", rule=PrivacyRule.DURABLE
            ) from None
