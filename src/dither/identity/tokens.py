"""Tokens: 256 random bits for one principal, scoped to a dataset, a role and pots.

The store keeps the sha256 of each token, never the token: it is printed once, when it is made. A
token ends at its expiry or when it is revoked; every message is checked against the store, so that
both take effect at once. Unknown, expired and revoked tokens are refused in the same words.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import sqlite3
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Lock

from dither.canonical import quote
from dither.errors import ParameterError
from dither.identity.principal import ROLES, Principal
from dither.privacy.noise.source import fresh_bytes
from dither.protocol.errors import TokenError

PREFIX = "dither-"
TOKEN_BYTES = 32
MOST_DAYS = 3660
KEPT_DAYS = 30
"""How long a token stays listed after its end; the act that made it stays for ever."""
SERVE_NAME = "dither serve"
"""Whose tokens end with their curator. Its space is in no name of a user or of another token."""
NOT_ACCEPTED = (
    "the token is not accepted: it is unknown, has expired or was revoked. The data steward makes "
    "one: dither token create DATASET NAME"
)
_TABLE = """CREATE TABLE IF NOT EXISTS token (
    id TEXT PRIMARY KEY, hash TEXT NOT NULL UNIQUE, name TEXT NOT NULL, dataset TEXT NOT NULL,
    role TEXT NOT NULL, pots TEXT NOT NULL, created TEXT NOT NULL, expires TEXT NOT NULL,
    revoked TEXT)"""
_COLUMNS = "id, name, dataset, role, pots, created, expires, revoked"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.@-]{0,63}")


@dataclass(frozen=True)
class Token:
    """A token as it is listed: everything but the secret. Times are UTC, to the second."""

    token_id: str
    name: str
    dataset: str
    role: str
    pots: tuple[str, ...]
    created: str
    expires: str
    revoked: str | None

    @property
    def is_valid(self) -> bool:
        """Whether it is accepted now."""
        return self.revoked is None and _now() < self.expires


def default_home() -> Path:
    """The curator's folder: `$XDG_STATE_HOME/dither/curator`, else below ~/.local/state."""
    state = os.environ.get("XDG_STATE_HOME", "")
    base = Path(state) if os.path.isabs(state) else Path.home() / ".local" / "state"
    return base / "dither" / "curator"


class TokenStore:
    """The tokens of one curator, in `curator.sqlite` of its folder: mode 0600 in 0700."""

    def __init__(self, home: Path) -> None:
        self.file = open_private_file(home)
        self._lock = Lock()
        self._database = sqlite3.connect(
            self.file, check_same_thread=False, isolation_level=None, timeout=30
        )
        self._database.execute("PRAGMA synchronous=FULL")
        self._database.execute(_TABLE)

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    def create_token(
        self, name: str, dataset: str, role: str, pots: tuple[str, ...], days: int
    ) -> tuple[str, Token]:
        """Make a token; the text is returned this one time."""
        if not _NAME.fullmatch(name):
            raise ParameterError(
                f"a token is for a name of 1 to 64 letters, digits, _ . @ or -, got {quote(name)}"
            )
        if role not in ROLES:
            raise ParameterError(f"a role is one of {', '.join(ROLES)}, got {quote(role)}")
        if not 1 <= days <= MOST_DAYS:
            raise ParameterError(f"a token lasts 1 to {MOST_DAYS} days, got {quote(days)}")
        return self._add_token(name, dataset, role, pots, days)

    def create_serve_token(
        self, dataset: str, role: str, pots: tuple[str, ...]
    ) -> tuple[str, Token]:
        """Make a token of `dither serve` itself, which the next curator ends."""
        return self._add_token(SERVE_NAME, dataset, role, pots, 1)

    def end_serve_tokens(self) -> None:
        """Revoke what a `dither serve` that was killed left behind."""
        with self._lock:
            self._database.execute(
                "UPDATE token SET revoked = ? WHERE name = ? AND revoked IS NULL",
                (_now(), SERVE_NAME),
            )

    def forget_old_tokens(self) -> None:
        """Remove tokens that expired or were revoked long ago."""
        oldest = _write_time(datetime.now(UTC) - timedelta(days=KEPT_DAYS))
        with self._lock:
            self._database.execute(
                "DELETE FROM token WHERE expires < ? OR revoked < ?", (oldest, oldest)
            )

    def _add_token(
        self, name: str, dataset: str, role: str, pots: tuple[str, ...], days: int
    ) -> tuple[str, Token]:
        text = PREFIX + fresh_bytes(TOKEN_BYTES).hex()
        expires = _write_time(datetime.now(UTC) + timedelta(days=days))
        token = Token(fresh_bytes(4).hex(), name, dataset, role, pots, _now(), expires, None)
        with self._lock:
            self._database.execute(
                "INSERT INTO token VALUES (?, ?, ?, ?, ?, ?, ?, ?, NULL)",
                (
                    token.token_id,
                    _hash_token(text),
                    name,
                    dataset,
                    role,
                    json.dumps(pots),
                    token.created,
                    expires,
                ),
            )
        return text, token

    def verify_token(self, text: str) -> Principal:
        """The principal of a token; TokenError in the same words whatever is wrong with it."""
        with self._lock:
            row = self._database.execute(
                f"SELECT {_COLUMNS} FROM token WHERE hash = ?", (_hash_token(text),)
            ).fetchone()
        token = None if row is None else _read_token(row)
        if token is None or not token.is_valid or token.role not in ROLES:
            raise TokenError(NOT_ACCEPTED)
        return Principal(token.name, token.dataset, token.role, token.pots, token.token_id)

    def list_tokens(self) -> tuple[Token, ...]:
        """All tokens that are stored, the oldest first."""
        with self._lock:
            rows = self._database.execute(f"SELECT {_COLUMNS} FROM token ORDER BY rowid")
            return tuple(map(_read_token, rows.fetchall()))

    def revoke_token(self, token_id: str) -> None:
        """End a token now, for ever."""
        with self._lock:
            changed = self._database.execute(
                "UPDATE token SET revoked = ? WHERE id = ? AND revoked IS NULL", (_now(), token_id)
            )
        if changed.rowcount != 1:
            raise ParameterError(
                f"there is no token {quote(token_id)} to revoke: 'dither token list' shows them"
            )


def open_private_file(home: Path) -> Path:
    """The curator's own file, readable by its user alone; made where it is missing.

    Its folder is closed to others. A folder with files of somebody else, such as /tmp, is refused.
    A file that exists is not opened here: to close it would give up the locks of all connections of
    this process, and the next command to end would take the log away that they write to.
    """
    file = home / "curator.sqlite"
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    if home.stat().st_mode & 0o077:
        if not file.exists() and any(home.iterdir()):
            raise ParameterError(
                f"{home} holds other files and is open to others: choose a folder of its own for "
                "the curator, as in --home /var/lib/dither"
            )
        home.chmod(0o700)
    try:
        os.close(os.open(file, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError:
        file.chmod(0o600)
    return file


def _hash_token(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()


def _read_token(row: tuple[str, ...]) -> Token:
    return Token(row[0], row[1], row[2], row[3], tuple(json.loads(row[4])), row[5], row[6], row[7])


def _now() -> str:
    return _write_time(datetime.now(UTC))


def _write_time(moment: datetime) -> str:
    return moment.replace(microsecond=0).isoformat()
