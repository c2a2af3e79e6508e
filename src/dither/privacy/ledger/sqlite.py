"""A SQLite file that several processes write at once, each transaction durable before it returns.

WAL with synchronous=FULL; every writing transaction takes the lock at its start (BEGIN IMMEDIATE), so that check
and spend are one step. SQLite's own busy handler starves under load, so waiting is ours: bounded, with growing
pauses. Errors become one sentence each, without statement or parameters (a parameter may be a release).
"""

from __future__ import annotations

import os
import sqlite3
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal, TypeVar
from urllib.parse import quote

from sqlalchemy import Connection, Engine, QueuePool, create_engine, event
from sqlalchemy.exc import DBAPIError

from dither.errors import RefusedError
from dither.privacy.ledger import tables

DURABLE = "no answer without a durable charge"
PATIENCE_S = 20.0
_CAUSES = {
    sqlite3.SQLITE_BUSY: "another process kept it locked for too long; try again",
    sqlite3.SQLITE_FULL: "the disk is full; free some space",
    sqlite3.SQLITE_READONLY: "the file is read-only for this user; the steward must allow writing",
    sqlite3.SQLITE_CANTOPEN: "the file cannot be opened; check that it exists and belongs to this user",
    sqlite3.SQLITE_NOTADB: "the file is not a ledger; restore it from a backup, newest first",
    sqlite3.SQLITE_CORRUPT: "the file is damaged; run 'dither ledger verify'",
}
_UNCERTAIN = "the disk failed; this step may or may not have been recorded: run 'dither ledger verify'"

Mode = Literal["rw", "rwc", "ro", "immutable"]
T = TypeVar("T")


def _code(error: BaseException | None) -> int:
    """The primary SQLite result code of an error."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


def is_busy(error: Exception) -> bool:
    """Whether waiting may help."""
    if isinstance(error, DBAPIError):
        return _code(error.orig) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
    return isinstance(error, BlockingIOError)


def patiently(attempt: Callable[[], T]) -> T:
    """The result of `attempt`, tried again while the lock is held elsewhere, for at most PATIENCE_S seconds.

    Pauses grow from 1 to 16 ms; each is cut by a fraction that differs between processes, so that waiters do not
    march in step. The fraction hashes process id and clock: it need not be random, only unequal.
    """
    end, pause = time.monotonic() + PATIENCE_S, 0.001
    while True:
        try:
            return attempt()
        except (DBAPIError, BlockingIOError) as error:
            if not is_busy(error) or time.monotonic() > end:
                raise
        spread = zlib.crc32(f"{os.getpid()}:{time.monotonic_ns()}".encode()) / 2**32
        time.sleep(pause * (0.5 + spread / 2))
        pause = min(2 * pause, 0.016)


class Database:
    """One file; connections are pooled per process, and never used on the far side of a fork."""

    def __init__(self, path: Path, mode: Mode) -> None:
        self.path, self._mode = path, mode
        self._pid, self._engine = os.getpid(), self._new_engine()
        self._inherited: list[Engine] = []

    def _connect(self) -> sqlite3.Connection:
        options = "mode=ro&immutable=1" if self._mode == "immutable" else f"mode={self._mode}"
        connection = sqlite3.connect(
            f"file:{quote(str(self.path))}?{options}",
            uri=True,
            timeout=0,
            isolation_level=None,
            check_same_thread=False,
        )
        try:
            if self._mode in ("rw", "rwc"):
                connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA synchronous=FULL")
            connection.execute("PRAGMA trusted_schema=OFF")
        except BaseException:
            connection.close()
            raise
        return connection

    def _new_engine(self) -> Engine:
        engine = create_engine(
            "sqlite://", creator=self._connect, poolclass=QueuePool, max_overflow=-1, hide_parameters=True
        )

        @event.listens_for(engine, "begin")
        def begin(connection: Connection) -> None:
            connection.exec_driver_sql(connection.get_execution_options()["dither_begin"])

        return engine

    @property
    def engine(self) -> Engine:
        """This process's engine. One inherited through fork is kept aside: even closing it could touch the file."""
        if self._pid != os.getpid():
            self._inherited.append(self._engine)
            self._pid, self._engine = os.getpid(), self._new_engine()
        return self._engine

    def close(self) -> None:
        self.engine.dispose()

    def _begin(self, statement: str) -> Connection:
        connection = self.engine.connect().execution_options(dither_begin=statement)
        try:
            connection.begin()
            connection.exec_driver_sql("SELECT count(*) FROM sqlite_master")  # a reader takes its snapshot here
        except BaseException:
            connection.close()
            raise
        return connection

    @contextmanager
    def transaction(self, *, write: bool) -> Iterator[Connection]:
        """All or nothing; on return from a writing one, it is on the disk."""
        with explained(self.path):
            connection = patiently(lambda: self._begin("BEGIN IMMEDIATE" if write else "BEGIN"))
            try:
                yield connection
                connection.commit()
            except BaseException:
                with suppress(DBAPIError):
                    connection.rollback()
                raise
            finally:
                connection.close()


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turns an error of the database into one sentence, whatever it was about to write left out."""
    try:
        yield
    except DBAPIError as error:
        known = _CAUSES.get(_code(error.orig))
        cause = _UNCERTAIN if known is None else f"{known}. Nothing was recorded"
        raise RefusedError(f"the ledger {path} cannot be used: {cause}", rule=DURABLE) from None


def create_schema(path: Path) -> None:
    """An empty ledger at `path`, complete and durable before its name exists; refused where a file lies already."""
    beside = path.with_name(f"{path.name}.new-{os.getpid()}")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        beside.unlink(missing_ok=True)
        os.close(os.open(beside, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        database = Database(beside, "rw")
        with database.transaction(write=True) as connection:
            tables.metadata.create_all(connection)
            connection.exec_driver_sql(f"PRAGMA application_id={tables.APPLICATION_ID}")
            connection.exec_driver_sql(f"PRAGMA user_version={tables.SCHEMA_VERSION}")
        database.close()  # the last connection moves the log into the file and removes it
        os.link(beside, path)  # unlike rename, fails if another process was first
        sync_directory(path.parent)
    except OSError as error:
        if path.is_file():
            message = f"{path} exists already: a ledger is never replaced, since what was spent stays spent"
            raise RefusedError(message, rule=DURABLE) from None
        raise RefusedError(f"the ledger {path} cannot be created: {error.strerror}", rule=DURABLE) from None
    finally:
        with suppress(OSError):
            beside.unlink(missing_ok=True)


def check_schema(connection: Connection) -> str | None:
    """What makes this file no ledger of ours, or None."""
    if connection.exec_driver_sql("PRAGMA application_id").scalar_one() != tables.APPLICATION_ID:
        return "the file is not a ledger of dither"
    version = connection.exec_driver_sql("PRAGMA user_version").scalar_one()
    if version != tables.SCHEMA_VERSION:
        return (
            f"the ledger has format {version}, this dither reads {tables.SCHEMA_VERSION}: use the dither that wrote it"
        )
    alien = "SELECT name FROM sqlite_master WHERE type IN ('trigger', 'view')"
    if (name := connection.exec_driver_sql(alien).scalars().first()) is not None:
        return f"the ledger holds a trigger or view, {name!r}, which dither never makes"
    return None


def sync_directory(directory: Path) -> None:
    """Makes the names in a directory durable."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
