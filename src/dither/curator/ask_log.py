"""What a curator must not forget over a restart: idempotency keys.

A question that is sent again after a lost reply is bought once.

The key of a fresh ask is written before the question is charged, in the curator's own file, so that
a crash of either process forgets nothing. A second ask with the same key never buys a fresh answer:
it is given the newest stored answer to its question, or, where the first ask left none, asks.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Lock

from dither.errors import ParameterError

KEPT_DAYS = 7
_TABLE = """CREATE TABLE IF NOT EXISTS ask (
    token TEXT NOT NULL, key TEXT NOT NULL, question TEXT NOT NULL, begun TEXT NOT NULL,
    PRIMARY KEY (token, key))"""
_JOBS = """CREATE TABLE IF NOT EXISTS job (
    token TEXT NOT NULL, key TEXT NOT NULL, document TEXT NOT NULL, begun TEXT NOT NULL,
    release TEXT NOT NULL DEFAULT '', PRIMARY KEY (token, key))"""
_ADD_RELEASE = "ALTER TABLE job ADD COLUMN release TEXT NOT NULL DEFAULT ''"
_MISSES = "CREATE TABLE IF NOT EXISTS miss (dataset TEXT NOT NULL)"


@dataclass(frozen=True)
class KeptJob:
    """What a job made, and the release that its lease is in the ledger."""

    document: str
    release_id: str


class AskLog:
    """The idempotency keys of the last week, by token."""

    def __init__(self, file: Path) -> None:
        self._lock = Lock()
        self._database = sqlite3.connect(file, check_same_thread=False, isolation_level=None)
        self._database.execute("PRAGMA journal_mode=WAL")
        self._database.execute("PRAGMA synchronous=FULL")
        self._database.execute(_TABLE)
        self._database.execute(_MISSES)
        self._database.execute(_JOBS)
        self._add_releases()
        self._forget_old_asks()

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    def begin_ask(self, token_id: str, key: str, question: str) -> bool:
        """Whether the ask is the first with its key; refused where the key had another question."""
        with self._lock:
            added = self._database.execute(
                "INSERT OR IGNORE INTO ask VALUES (?, ?, ?, ?)",
                (token_id, key, question, datetime.now(UTC).isoformat()),
            )
            (earlier,) = self._database.execute(
                "SELECT question FROM ask WHERE token = ? AND key = ?", (token_id, key)
            ).fetchone()
        if earlier != question:
            raise ParameterError(
                "this idempotency key was used for another question: choose a new key"
            )
        return added.rowcount == 1

    def _add_releases(self) -> None:
        """Give a file of an earlier version its column of releases."""
        columns = [name for _, name, *_ in self._database.execute("PRAGMA table_info(job)")]
        if "release" not in columns:
            self._database.execute(_ADD_RELEASE)

    def _forget_old_asks(self) -> None:
        """Forget keys after a week, when a curator starts."""
        oldest = datetime.now(UTC) - timedelta(days=KEPT_DAYS)
        for table in ("ask", "job"):
            self._database.execute(f"DELETE FROM {table} WHERE begun < ?", (oldest.isoformat(),))

    def forget_ask(self, token_id: str, key: str) -> None:
        """Forget an ask that was refused before anything was charged."""
        with self._lock:
            self._database.execute("DELETE FROM ask WHERE token = ? AND key = ?", (token_id, key))

    def keep_job(self, token_id: str, key: str, job: KeptJob) -> None:
        """Keep what a job made, for whoever sends it again under its key."""
        begun = datetime.now(UTC).isoformat()
        with self._lock:
            self._database.execute(
                "INSERT OR REPLACE INTO job (token, key, document, begun, release) "
                "VALUES (?, ?, ?, ?, ?)",
                (token_id, key, job.document, begun, job.release_id),
            )

    def find_job(self, token_id: str, key: str) -> KeptJob | None:
        """What the job under a key made; None where it made nothing."""
        with self._lock:
            row = self._database.execute(
                "SELECT document, release FROM job WHERE token = ? AND key = ?", (token_id, key)
            ).fetchone()
        return None if row is None else KeptJob(*row)

    def count_misses(self, dataset: str) -> int:
        """Misses of the schedule that the first version counted here; now the ledger does."""
        with self._lock:
            row = self._database.execute(
                "SELECT count(*) FROM miss WHERE dataset = ?", (dataset,)
            ).fetchone()
        return int(row[0])
