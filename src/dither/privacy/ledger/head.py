"""The head: the newest entry's number and hash, kept outside the ledger's directory.

A ledger alone cannot tell that an older copy of it was put back; with the head elsewhere, one
restore does not roll back both. Order: COMMIT, head, send. So after a crash the ledger may be
*ahead* of the head, never behind.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from dither.canonical import dumps
from dither.errors import ParameterError, RefusedError
from dither.privacy.ledger.database import patiently
from dither.privacy.ledger.sqlite import sync_directory
from dither.rules import PrivacyRule

GENESIS = "0" * 64
_SLOT = 4096
_LOCK = ".lock"
"""The lock file stays for ever: removing it would let two holders in."""


@dataclass(frozen=True)
class Anchor:
    """One entry of the chain, by number and hash; number 0 is the empty chain."""

    seq: int
    hash: str

    def text(self) -> str:
        """The content of a slot, and of a head file written by hand."""
        return dumps({"check": self.check, "hash": self.hash, "seq": self.seq, "v": 1})

    @property
    def check(self) -> str:
        """Compute a checksum that shows whether a slot was read while it was being overwritten."""
        return hashlib.sha256(f"{self.seq}:{self.hash}".encode()).hexdigest()[:8]


START = Anchor(0, GENESIS)


def default_head_path(installation_id: str) -> Path:
    """Return where the head of an installation lies: `$XDG_STATE_HOME/dither/heads/<its id>`.

    Where the variable is not set, it is below ~/.local/state. Raises ParameterError for an id that
    is no plain name.
    """
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,128}", installation_id):
        raise ParameterError("an installation id consists of letters, digits, - and _")
    state = os.environ.get("XDG_STATE_HOME", "")
    base = Path(state) if os.path.isabs(state) else Path.home() / ".local" / "state"
    return base / "dither" / "heads" / installation_id


class Head:
    """The head file at one path; moved forwards only, by one process at a time.

    Two slots of one block each: a move overwrites the older one and syncs, so that a power cut can
    spoil at most the slot being written, and the other still holds the anchor before it.

    A process that was paused while it holds the lock would hold up every takeover, so `seize` takes
    the lock away: it replaces the lock file, then the head file. Whoever held it writes into a file
    that nobody reads any more, or notices before it writes, and sends nothing in either case.
    """

    def __init__(self, path: Path, ledger: Path | str) -> None:
        """Name the head file; refuse one inside the ledger's directory."""
        if isinstance(ledger, Path) and path.resolve().is_relative_to(ledger.resolve().parent):
            raise ParameterError(
                f"the head {path} must lie outside the ledger's directory {ledger.parent}: "
                "otherwise one restore rolls back both, and what was spent is forgotten"
            )
        self.path = path
        self._held = threading.local()

    def read(self) -> Anchor | None:
        """Read the newest anchor on file; None where there is no file.

        Raises RefusedError where the file cannot be read or holds no sound anchor.
        """
        try:
            content = self.path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise RefusedError(
                f"the head {self.path} cannot be read: {error.strerror}", rule=PrivacyRule.ROLLBACK
            ) from None
        anchors = [anchor for slot in _slots(content) if (anchor := _parsed(slot)) is not None]
        if anchors:
            return max(anchors, key=lambda anchor: anchor.seq)
        raise RefusedError(
            f"the head {self.path} is damaged: put back its newest copy (docs/reference/ledger.md "
            f"says what it holds)",
            rule=PrivacyRule.ROLLBACK,
        )

    def check_writable(self) -> None:
        """Raise RefusedError if the head cannot be written: now, rather than after a charge."""
        with self._reported():
            os.close(self._open_beside(_LOCK))

    def advance(self, anchor: Anchor) -> None:
        """Move the head to `anchor` durably, unless it is there or beyond.

        The caller holds the lock. Raises RefusedError where it was seized. The lock is checked
        after the file is opened, since a file that was there before a seizure is read by nobody
        after it, and once more after the write, since only then a seizure copies what was written.
        """
        with self._reported():
            now = self.read()
            if now is not None and now.seq >= anchor.seq:
                if now.seq == anchor.seq and now.hash != anchor.hash:
                    raise RefusedError(
                        f"the head {self.path} has moved on with another ledger",
                        rule=PrivacyRule.ROLLBACK,
                    )
                return
            if now is None or self.path.stat().st_size != 2 * _SLOT:
                self._create(anchor)
                return
            descriptor = os.open(self.path, os.O_RDWR)
            try:
                self._check_lock()
                newest_first = _parsed(os.pread(descriptor, _SLOT, 0)) == now
                os.pwrite(descriptor, _padded(anchor), _SLOT if newest_first else 0)
                os.fdatasync(descriptor)
            finally:
                os.close(descriptor)
            self._check_lock()

    def restart(self, anchor: Anchor) -> None:
        """Let the head name `anchor`, whatever it named; the caller holds the lock.

        Only for an entry that closes every pot (`lost.py`): nothing is forgotten by it that could
        be spent again.
        """
        with self._reported():
            self._create(anchor)

    def _create(self, anchor: Anchor) -> None:
        """Write a whole head file beside the old one, and rename it."""
        beside = self.path.with_name(self.path.name + ".new")
        descriptor = os.open(beside, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600)
        with open(descriptor, "wb") as file:
            file.write(_padded(anchor) * 2)
            file.flush()
            os.fsync(descriptor)
        os.rename(beside, self.path)
        sync_directory(self.path.parent)

    def _open_beside(self, suffix: str) -> int:
        """Open a lock file beside the head; it is made where it is not there."""
        file = self.path.with_name(self.path.name + suffix)
        try:
            return os.open(file, os.O_CREAT | os.O_RDWR, 0o600)
        except FileNotFoundError:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            return os.open(file, os.O_CREAT | os.O_RDWR, 0o600)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the head's lock, from reading the head to moving it.

        It is shared by all who use this head, also by two copies of one ledger.
        """
        with self._reported():
            descriptor = patiently(lambda: self._take_lock(_LOCK))
        self._held.lock = descriptor
        try:
            yield
        finally:
            _let_go(descriptor)

    def seize(self, patience_s: float) -> None:
        """Take the lock from a process that holds it for longer than `patience_s` seconds.

        Only for a takeover: the ledger's epoch stops whoever held it (`takeover.py`).
        """
        with self._reported():
            seizing = patiently(lambda: self._take_lock(_LOCK + ".seize"))
            try:
                with suppress(BlockingIOError):
                    _let_go(patiently(lambda: self._take_lock(_LOCK), patience_s))
                    return
                descriptor = self._take_lock(_LOCK + ".new")
                try:
                    lock = self.path.with_name(self.path.name + _LOCK)
                    os.rename(lock.with_name(lock.name + ".new"), lock)
                    if (now := self.read()) is not None:
                        self._create(now)
                finally:
                    _let_go(descriptor)
            finally:
                _let_go(seizing)

    def _take_lock(self, suffix: str) -> int:
        """Lock a file beside the head; raises BlockingIOError where it is held, or was replaced."""
        descriptor = self._open_beside(suffix)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not self._is_in_place(descriptor, suffix):
                raise BlockingIOError(errno.EAGAIN, "another process has replaced its lock")
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def _is_in_place(self, descriptor: int, suffix: str) -> bool:
        """Whether the file that is open is still the one of that name."""
        file = self.path.with_name(self.path.name + suffix)
        return os.path.samestat(os.fstat(descriptor), file.stat())

    def _check_lock(self) -> None:
        """Raise RefusedError where another process has seized the lock that this thread holds."""
        if not self._is_in_place(self._held.lock, _LOCK):
            raise RefusedError(
                f"the lock of the head {self.path} was taken over by another curator",
                rule=PrivacyRule.ONE_CURATOR,
            )

    @contextmanager
    def _reported(self) -> Iterator[None]:
        """Turn an error of the file system into a refusal that names the head file."""
        try:
            yield
        except OSError as error:
            raise RefusedError(
                f"the head {self.path} cannot be written: {error.strerror}",
                rule=PrivacyRule.DURABLE,
            ) from None


def _let_go(descriptor: int) -> None:
    """Unlock and close; closing alone leaves the lock with a child that was forked meanwhile."""
    fcntl.flock(descriptor, fcntl.LOCK_UN)
    os.close(descriptor)


def _padded(anchor: Anchor) -> bytes:
    return (anchor.text().encode() + b"\n").ljust(_SLOT)


def _slots(content: bytes) -> tuple[bytes, ...]:
    return (content,) if len(content) != 2 * _SLOT else (content[:_SLOT], content[_SLOT:])


def _parsed(slot: bytes) -> Anchor | None:
    """Read the anchor in a slot; None where a power cut or a hand spoilt it."""
    try:
        tree = json.loads(slot.partition(b"\n")[0])
        anchor = Anchor(tree["seq"], tree["hash"])
        sound = (
            type(anchor.seq) is int and re.fullmatch("[0-9a-f]{64}", anchor.hash) and tree["v"] == 1
        )
        if sound and tree["check"] == anchor.check:
            return anchor
    except (ValueError, KeyError, TypeError):
        pass
    return None
