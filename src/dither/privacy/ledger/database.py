"""What both stores share: transactions over a driver's own connection, and waiting for a lock.

Statements are SQL that both stores understand, with parameters written `:name`.
"""

from __future__ import annotations

import os
import time
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

from dither.errors import RefusedError
from dither.privacy.ledger.tables import Type
from dither.rules import PrivacyRule

PATIENCE_S = 20.0
UNCERTAIN = (
    "the store failed; this step may or may not have been recorded: run 'dither ledger verify "
    "CATALOG'"
)
T = TypeVar("T")


class Busy(Exception):
    """Another process holds the lock; waiting may help."""


def patiently(attempt: Callable[[], T], seconds: float | None = None) -> T:
    """Call `attempt` again while it raises Busy, for PATIENCE_S or so many seconds at most.

    Return its result.

    Pauses grow from 1 to 16 ms; each is cut by a fraction that differs between processes, so that
    waiters do not march in step. The fraction hashes process id and clock: it need not be random,
    only unequal.
    """
    end = time.monotonic() + (PATIENCE_S if seconds is None else seconds)
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

    def __init__(self, raw: Any, write_parameters: Callable[[str], str]) -> None:
        self._cursor = raw.cursor()
        self._write_parameters = write_parameters

    def rows(self, statement: str, values: dict[str, Any] | None = None) -> list[tuple[Any, ...]]:
        """Run a query and return all its rows."""
        self.run(statement, values)
        return list(self._cursor.fetchall())

    def stream(
        self, statement: str, values: dict[str, Any] | None = None
    ) -> Iterator[tuple[Any, ...]]:
        """Run a query and yield its rows one by one: for walking the whole chain."""
        self.run(statement, values)
        yield from map(tuple, self._cursor)  # the cursor itself would be closed with this iterator

    def scalar(self, statement: str, values: dict[str, Any] | None = None) -> Any:
        """Run a query; return the first column of the first row, None where there is none."""
        row = self.first_row(statement, values)
        return row[0] if row else None

    def first_row(
        self, statement: str, values: dict[str, Any] | None = None
    ) -> tuple[Any, ...] | None:
        """Run a query and return its first row, None where there is none."""
        return next(iter(self.rows(statement, values)), None)

    def run(self, statement: str, values: dict[str, Any] | None = None) -> None:
        """Run a statement that returns no rows; one without values is given to the driver as is."""
        if values is None:
            self._cursor.execute(statement)
        else:
            self._cursor.execute(self._write_parameters(statement), values)


class Pool:
    """The connections of one process that wait to be used again."""

    KEPT = 20

    def __init__(self, connect: Callable[[], Any]) -> None:
        self._connect = connect
        self._idle: list[Any] = []

    def take(self) -> Any:
        """Return a waiting connection, or else a new one."""
        try:
            return self._idle.pop()
        except IndexError:
            return self._connect()

    def give_back(self, raw: Any) -> None:
        """Keep a connection for its next use; close it where enough wait or it is of no more use.

        What it still holds open is rolled back first.
        """
        try:
            raw.rollback()
        except BaseException:
            raw.close()
            raise
        if len(self._idle) < self.KEPT:
            self._idle.append(raw)
        else:
            raw.close()

    def close(self) -> None:
        """Close every connection that waits."""
        while self._idle:
            self._idle.pop().close()


class Database(ABC):
    """One store; connections are pooled per process, and never used on the far side of a fork."""

    errors: tuple[type[Exception], ...]
    types: dict[Type, str]

    def __init__(self, label: str) -> None:
        self.label = label
        self._pid = os.getpid()
        self._pool = Pool(self._connect)
        self._inherited: list[Pool] = []

    @abstractmethod
    def _connect(self) -> Any:
        """Open a connection of the driver."""

    def write_parameters(self, statement: str) -> str:
        """Write a statement with its parameters as the driver names them."""
        return statement

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
    def pool(self) -> Pool:
        """Return this process's pool; after a fork a new one is made.

        An inherited pool is kept aside: even closing it could touch the store.
        """
        if self._pid != os.getpid():
            self._inherited.append(self._pool)
            self._pid = os.getpid()
            self._pool = Pool(self._connect)
        return self._pool

    def close(self) -> None:
        self.pool.close()

    def end_writers(self, older_than_s: float) -> int:
        """End other processes' writing transactions of that age; how many were ended.

        None is, unless a server holds the store: nobody else can end what a paused process began.
        """
        return 0

    def _begun(self, write: bool) -> Any:
        """Return a connection in a new transaction; on an error give the connection back."""
        raw = self.pool.take()
        try:
            self._begin(raw, write)
        except BaseException:
            self._give_back(raw)
            raise
        return raw

    def _give_back(self, raw: Any) -> None:
        """Give a connection back to the pool, or close it where that fails."""
        with suppress(*self.errors):
            self.pool.give_back(raw)

    @contextmanager
    def transaction(self, *, write: bool) -> Iterator[Transaction]:
        """Run a block as one transaction, all of it or nothing.

        When a writing one returns, it is on the disk.
        """
        with self.explained():
            raw = patiently(lambda: self._begun(write))
            try:
                yield Transaction(raw, self.write_parameters)
                raw.commit()
            finally:
                self._give_back(raw)

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
