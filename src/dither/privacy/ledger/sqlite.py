"""A SQLite file that several processes write at once, each transaction durable before it returns.

WAL with synchronous=FULL; every writing transaction takes the lock at its start (BEGIN IMMEDIATE),
so that check and spend are one step. SQLite's own busy handler starves under load, so waiting is
ours: bounded, with growing pauses. Errors become one sentence each, without statement or parameters
(a parameter may be a release).
"""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

from dither.privacy.ledger import tables
from dither.privacy.ledger.database import Busy, Database, Transaction

_CAUSES = {
    sqlite3.SQLITE_BUSY: "another process kept it locked for too long; try again",
    sqlite3.SQLITE_FULL: "the disk is full; free some space",
    sqlite3.SQLITE_READONLY: "the file is read-only for this user; the steward must allow writing",
    sqlite3.SQLITE_CANTOPEN: "the file cannot be opened; check that it exists and belongs "
    "to this user",
    sqlite3.SQLITE_NOTADB: "the file is not a ledger; restore it from a backup, newest first",
    sqlite3.SQLITE_CORRUPT: "the file is damaged; run 'dither ledger verify CATALOG'",
}
Mode = Literal["rw", "ro", "immutable"]


def _code(error: BaseException) -> int:
    """The primary SQLite result code of an error."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


class SQLite(Database):
    """One file."""

    errors = (sqlite3.Error,)
    types = {"number": "INTEGER", "text": "TEXT", "bytes": "BLOB"}

    def __init__(self, path: Path, mode: Mode = "rw") -> None:
        self.path = path
        self._mode = mode
        super().__init__(str(path))

    def _connect(self) -> sqlite3.Connection:
        """Open the file in the mode of this database, with every commit synced to disk."""
        options = "mode=ro&immutable=1" if self._mode == "immutable" else f"mode={self._mode}"
        connection = sqlite3.connect(
            f"file:{quote(str(self.path))}?{options}",
            uri=True,
            timeout=0,
            isolation_level=None,
            check_same_thread=False,
        )
        try:
            if self._mode == "rw":
                connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA synchronous=FULL")
            connection.execute("PRAGMA trusted_schema=OFF")
        except BaseException:
            connection.close()
            raise
        return connection

    def _begin(self, raw: Any, write: bool) -> None:
        """Begin a transaction; raise Busy if another process writes."""
        try:
            raw.execute("BEGIN IMMEDIATE" if write else "BEGIN")
            if not write:
                raw.execute(
                    "SELECT count(*) FROM sqlite_master"
                ).fetchone()  # a reader takes its snapshot here
        except sqlite3.Error as error:
            if _code(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                raise Busy from error
            raise

    def _begun(self, write: bool) -> Any:
        """Return a connection in a transaction; raise Busy also if connecting finds a lock."""
        try:
            return super()._begun(write)
        except (
            sqlite3.Error
        ) as error:  # also while connecting: the first writer of all switches to WAL
            if _code(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                raise Busy from error
            raise

    def _cause(self, error: Exception) -> str | None:
        return _CAUSES.get(sqlite3.SQLITE_BUSY if isinstance(error, Busy) else _code(error))

    def check_schema(self, transaction: Transaction) -> str | None:
        """Return what is wrong with the file's format or tables, or None."""
        if transaction.scalar("PRAGMA application_id") != tables.APPLICATION_ID:
            return "the file is not a ledger of dither"
        version = transaction.scalar("PRAGMA user_version")
        if version != tables.SCHEMA_VERSION:
            return (
                f"the ledger has format {version}, this dither reads {tables.SCHEMA_VERSION}: "
                "use the dither that wrote it"
            )
        alien = "SELECT name FROM sqlite_master WHERE type IN ('trigger', 'view')"
        if (name := transaction.scalar(alien)) is not None:
            return f"the ledger holds a trigger or view, {name!r}, which dither never makes"
        return None


def sync_directory(directory: Path) -> None:
    """Makes the names in a directory durable."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
