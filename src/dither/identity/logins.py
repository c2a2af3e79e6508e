"""Logins by password, for the console: argon2id, sessions, and one answer to every failure.

Whether a name is that of a user changes neither the words nor the work: a name without a password
is checked against a hash that nobody has the password of, and counts its failures like any other.
After too many failures a name is locked for a while, whoever has it, the right password included.
Passwords are set by the administrator (`dither user password`), which also ends all sessions. After
a change of the work factor they are set anew: no other hash is accepted.
"""

from __future__ import annotations

import hashlib
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from threading import BoundedSemaphore, Lock

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from dither.errors import ParameterError
from dither.identity.authority import Authority
from dither.identity.private_file import open_database, write_time
from dither.identity.sessions import Session
from dither.privacy.noise.source import fresh_bytes
from dither.protocol.errors import BusyError, TokenError

FEWEST_CHARACTERS = 12
MOST_CHARACTERS = 256
MOST_FAILURES = 10
MINUTES_LOCKED = 15
MOST_WAITING = 8
NOT_LOGGED_IN = (
    f"name and password are not accepted. After {MOST_FAILURES} failures a name is locked for "
    f"{MINUTES_LOCKED} minutes; the administrator sets a new password: dither user password NAME"
)
_SCHEMA = (
    "CREATE TABLE IF NOT EXISTS password (name TEXT PRIMARY KEY, hash TEXT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS failure (name TEXT NOT NULL, time TEXT NOT NULL)",
    "CREATE INDEX IF NOT EXISTS failure_name ON failure (name, time)",
)


@dataclass(frozen=True)
class WorkFactor:
    """How much work one password takes; by default what RFC 9106 recommends (section 4)."""

    passes: int = 3
    memory_kib: int = 64 * 1024
    lanes: int = 4


class Logins:
    """The passwords of one curator's users."""

    def __init__(self, authority: Authority, work: WorkFactor | None = None) -> None:
        factor = work or WorkFactor()
        self._authority = authority
        self._hasher = PasswordHasher(factor.passes, factor.memory_kib, factor.lanes)
        self._waiting = BoundedSemaphore(MOST_WAITING)
        self._turn = Lock()
        self._database = open_database(authority.tokens.file.parent)
        for statement in _SCHEMA:
            self._database.execute(statement)

    @cached_property
    def _nobodys_hash(self) -> str:
        return self._hasher.hash(fresh_bytes(32).hex())

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    def set_password(self, name: str, password: str, who: str) -> None:
        """Set a user's password, unlock the name, and end all of the user's sessions."""
        user = self._authority.acts.read_directory().users.get(name)
        if user is None or user.is_ended:
            raise ParameterError("there is no such user: 'dither user list' shows them")
        if not FEWEST_CHARACTERS <= len(password) <= MOST_CHARACTERS:
            raise ParameterError(
                f"a password has {FEWEST_CHARACTERS} to {MOST_CHARACTERS} characters"
            )
        hashed = self._hasher.hash(_encode(password))
        self._authority.acts.record({"act": "password", "name": name}, who)
        with self._turn:
            row = (_hash_name(name), hashed)
            self._database.execute("INSERT OR REPLACE INTO password VALUES (?, ?)", row)
            self._database.execute("DELETE FROM failure WHERE name = ?", (_hash_name(name),))
        self._authority.sessions.end_sessions(name)

    def log_in(self, name: str, password: str) -> tuple[str, Session]:
        """Open a session; TokenError in the same words, after the same work, whatever is wrong.

        One password is checked at a time. Who comes when too many wait is sent away, before the
        name is looked at.
        """
        if not self._waiting.acquire(blocking=False):
            raise BusyError("too many logins wait: try again in a minute")
        try:
            with self._turn:
                opened = self._open_session(name, password)
        finally:
            self._waiting.release()
        if opened is None:
            raise TokenError(NOT_LOGGED_IN)
        return opened

    def _open_session(self, name: str, password: str) -> tuple[str, Session] | None:
        """A session, if the password is the user's and still is once the session is there.

        The command that sets a new password runs in another process: it writes the hash, then ends
        the sessions. A session that is opened between the check and that end is found here.
        """
        hashed = self._read_hash(name)
        if not self._check_password(name, password, hashed):
            return None
        text, session = self._authority.sessions.open_session(name)
        if self._read_hash(name) == hashed:
            return text, session
        with suppress(ParameterError):
            self._authority.sessions.end_session(session.session_id)
        return None

    def _read_hash(self, name: str) -> str | None:
        row = self._database.execute(
            "SELECT hash FROM password WHERE name = ?", (_hash_name(name),)
        ).fetchone()
        return None if row is None else str(row[0])

    def _check_password(self, name: str, password: str, hashed: str | None) -> bool:
        """Whether the password is the user's and the name is not locked. Always the same steps."""
        now = datetime.now(UTC)
        nobodys_hash = self._nobodys_hash
        user = self._authority.acts.read_directory().users.get(name)
        is_user = hashed is not None and user is not None and not user.is_ended
        # a hash by another work factor would tell by its time that the name has a password
        is_user = is_user and not self._hasher.check_needs_rehash(str(hashed))
        is_right = self._verify(str(hashed) if is_user else nobodys_hash, password)
        is_open = self._count_failures(name, now) < MOST_FAILURES
        is_accepted = is_right and is_user and is_open
        self._record_attempt(name, now, is_accepted)
        return is_accepted

    def _verify(self, hashed: str, password: str) -> bool:
        try:
            return self._hasher.verify(hashed, _encode(password))
        except (VerificationError, InvalidHashError):
            return False

    def _count_failures(self, name: str, now: datetime) -> int:
        since = write_time(now - timedelta(minutes=MINUTES_LOCKED))
        (count,) = self._database.execute(
            "SELECT COUNT(*) FROM failure WHERE name = ? AND time >= ?", (_hash_name(name), since)
        ).fetchone()
        return int(count)

    def _record_attempt(self, name: str, now: datetime, is_accepted: bool) -> None:
        """Note a failure; a success forgets those before. What no longer counts is removed."""
        since = write_time(now - timedelta(minutes=MINUTES_LOCKED))
        self._database.execute("DELETE FROM failure WHERE time < ?", (since,))
        if is_accepted:
            self._database.execute("DELETE FROM failure WHERE name = ?", (_hash_name(name),))
        else:
            row = (_hash_name(name), write_time(now))
            self._database.execute("INSERT INTO failure VALUES (?, ?)", row)


def _hash_name(name: str) -> str:
    """Names that were tried are kept as hashes: people type passwords there."""
    return hashlib.sha256(name.encode(errors="surrogatepass")).hexdigest()


def _encode(password: str) -> bytes:
    """The bytes of a password; one character more than allowed keeps a long one wrong."""
    return password[: MOST_CHARACTERS + 1].encode(errors="surrogatepass")
