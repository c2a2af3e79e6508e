"""Sessions: tokens that a login gives, for some hours. The store keeps their hashes alone."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Lock

from dither.errors import ParameterError
from dither.identity.private_file import open_database, read_clock, write_time
from dither.privacy.noise.source import fresh_bytes

SESSION_PREFIX = "dither-session-"
SESSION_BYTES = 32
SESSION_HOURS = 8
KEPT_DAYS = 30
"""How long a session stays listed after its end; whom it handed what is in the access log."""
_TABLE = """CREATE TABLE IF NOT EXISTS session (
    id TEXT PRIMARY KEY, hash TEXT NOT NULL UNIQUE, user TEXT NOT NULL, created TEXT NOT NULL,
    expires TEXT NOT NULL, ended TEXT)"""


@dataclass(frozen=True)
class Session:
    """A session as it is listed: everything but the secret."""

    session_id: str
    user: str
    created: str
    expires: str
    ended: str | None

    @property
    def is_valid(self) -> bool:
        """Whether it is accepted now."""
        return self.ended is None and read_clock() < self.expires


class SessionStore:
    """The sessions of one curator, in its own file."""

    def __init__(self, home: Path) -> None:
        self._lock = Lock()
        self._database = open_database(home)
        self._database.execute(_TABLE)

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    def open_session(self, user: str) -> tuple[str, Session]:
        """Open a session for a user who has logged in; the text is returned this one time."""
        text = SESSION_PREFIX + fresh_bytes(SESSION_BYTES).hex()
        now = datetime.now(UTC)
        expires = write_time(now + timedelta(hours=SESSION_HOURS))
        session = Session(fresh_bytes(8).hex(), user, write_time(now), expires, None)
        row = (session.session_id, _hash_text(text), user, session.created, expires)
        with self._lock:
            self._database.execute("INSERT INTO session VALUES (?, ?, ?, ?, ?, NULL)", row)
        self.forget_old_sessions()
        return text, session

    def forget_old_sessions(self) -> None:
        """Remove sessions that ended long ago."""
        oldest = write_time(datetime.now(UTC) - timedelta(days=KEPT_DAYS))
        with self._lock:
            self._database.execute(
                "DELETE FROM session WHERE expires < ? OR ended < ?", (oldest, oldest)
            )

    def find_session(self, text: str) -> Session | None:
        """The session of a text; None where it is unknown, has expired or was ended."""
        with self._lock:
            row = self._database.execute(
                "SELECT id, user, created, expires, ended FROM session WHERE hash = ?",
                (_hash_text(text),),
            ).fetchone()
        session = None if row is None else Session(*row)
        return session if session is not None and session.is_valid else None

    def list_sessions(self) -> tuple[Session, ...]:
        """All sessions that are stored, the oldest first."""
        with self._lock:
            rows = self._database.execute(
                "SELECT id, user, created, expires, ended FROM session ORDER BY created, id"
            )
            return tuple(Session(*row) for row in rows.fetchall())

    def end_session(self, session_id: str) -> None:
        """End a session now."""
        with self._lock:
            changed = self._database.execute(
                "UPDATE session SET ended = ? WHERE id = ? AND ended IS NULL",
                (read_clock(), session_id),
            )
        if changed.rowcount != 1:
            raise ParameterError("there is no such session to end: 'dither user sessions' lists")

    def end_sessions(self, user: str) -> None:
        """End all sessions of a user, as after a new password."""
        with self._lock:
            self._database.execute(
                "UPDATE session SET ended = ? WHERE user = ? AND ended IS NULL",
                (read_clock(), user),
            )


def _hash_text(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()
