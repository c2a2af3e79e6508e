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
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from dither.canonical import dumps
from dither.errors import ParameterError, RefusedError
from dither.privacy.ledger.database import patiently
from dither.privacy.ledger.sqlite import sync_directory
from dither.rules import PrivacyRule

GENESIS = "0" * 64
_SLOT = 4096


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
    """The head at one path; moved forwards only, by one process at a time.

    Two slots of one block each: a move overwrites the older one and syncs, so that a power cut can
    spoil at most the slot being written, and the other still holds the anchor before it.

    A process that is paused while it holds the lock would hold up every takeover. So a takeover may
    begin a new file, with a lock of its own (`seize_head`). The head is the newest anchor of
    all its files, and each of them moves forwards only: whoever wakes up and goes on in an older
    file cannot move the head back either.
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

    def list_files(self) -> list[Path]:
        """List the files of this head in the order of their numbers: the last one is moved."""
        files = [self.path]
        while (newer := name_next_file(files)).exists():
            files.append(newer)
        return files

    def read(self) -> Anchor | None:
        """Read the newest anchor on file; None where there is no file.

        Raises RefusedError where a file cannot be read or holds no sound anchor.
        """
        return max(self.read_anchors(), key=lambda anchor: anchor.seq, default=None)

    def read_anchors(self) -> list[Anchor]:
        """Read the newest anchor of every file."""
        return [anchor for file in self.list_files() if (anchor := _read_file(file)) is not None]

    def check_writable(self) -> None:
        """Raise RefusedError if the head cannot be written: now, rather than after a charge."""
        with self.reported():
            os.close(_open_lock(self.list_files()[-1]))

    def move(self, compared: Anchor, last: Anchor, follow: Callable[[Anchor], None]) -> None:
        """Move the head to `last`, the newest entry of a ledger.

        The caller holds the lock, and the ledger was compared with the head at `compared`. Since
        then a takeover of another copy of the ledger may have seized the lock and moved the head.
        `follow` raises RefusedError where the ledger lacks an entry. It is asked about every entry
        to which others moved the head, before this move and again after it. So do they, hence two
        copies never both go on.
        """
        self._follow_moves(compared, last, follow)
        self.advance(last)
        self._follow_moves(compared, last, follow)

    def _follow_moves(
        self, compared: Anchor, last: Anchor, follow: Callable[[Anchor], None]
    ) -> None:
        """Call `follow` with every entry to which others moved the head since `compared`."""
        for anchor in self.read_anchors():
            if anchor.seq > compared.seq and anchor != last:
                follow(anchor)

    def advance(self, anchor: Anchor) -> None:
        """Move the head to `anchor` durably, unless it is there or beyond.

        The caller holds the lock.
        """
        with self.reported():
            now = self.read()
            if now is not None and now.seq >= anchor.seq:
                if now.seq == anchor.seq and now.hash != anchor.hash:
                    raise RefusedError(
                        f"the head {self.path} has moved on with another ledger",
                        rule=PrivacyRule.ROLLBACK,
                    )
                return
            file: Path = self._held.file
            if not file.exists() or file.stat().st_size != 2 * _SLOT:
                replace_file(file, anchor)
                return
            descriptor = os.open(file, os.O_RDWR)
            try:
                first, second = map(_parsed, _slots(os.pread(descriptor, 2 * _SLOT, 0)))
                newest_first = first is not None and (second is None or first.seq >= second.seq)
                os.pwrite(descriptor, _padded(anchor), _SLOT if newest_first else 0)
                os.fdatasync(descriptor)
            finally:
                os.close(descriptor)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the head's lock, from reading the head to moving it.

        It is shared by all who use this head, also by two copies of one ledger.
        """
        with self.reported():
            descriptor = patiently(self.take_lock)
        try:
            yield
        finally:
            unlock(descriptor)

    def take_lock(self) -> int:
        """Lock the file that is moved; BlockingIOError where another process holds it."""
        file = self.list_files()[-1]
        descriptor = _open_lock(file)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if self.list_files()[-1] != file:
                raise BlockingIOError(errno.EAGAIN, "a new file was begun")
        except OSError:
            os.close(descriptor)
            raise
        self._held.file = file
        return descriptor

    @contextmanager
    def reported(self) -> Iterator[None]:
        """Turn an error of the file system into a refusal that names the head file."""
        try:
            yield
        except OSError as error:
            raise RefusedError(
                f"the head {self.path} cannot be written: {error.strerror}",
                rule=PrivacyRule.DURABLE,
            ) from None


def name_next_file(files: list[Path]) -> Path:
    """Name the file that would follow these files of a head."""
    return files[0].with_name(f"{files[0].name}.g{len(files)}")


def _read_file(file: Path) -> Anchor | None:
    """Read the newest anchor of one file; None where it is not there."""
    try:
        content = file.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise RefusedError(
            f"the head {file} cannot be read: {error.strerror}", rule=PrivacyRule.ROLLBACK
        ) from None
    anchors = [anchor for slot in _slots(content) if (anchor := _parsed(slot)) is not None]
    if anchors:
        return max(anchors, key=lambda anchor: anchor.seq)
    raise RefusedError(
        f"the head {file} is damaged: put back its newest copy (docs/reference/ledger.md says what "
        f"it holds)",
        rule=PrivacyRule.ROLLBACK,
    )


def write_new_file(file: Path, anchor: Anchor) -> str:
    """Write a new head file durably, under a name of its own beside `file`; return that name."""
    descriptor, new_file = tempfile.mkstemp(prefix=f"{file.name}.new-", dir=file.parent)
    with open(descriptor, "wb") as written:
        written.write(_padded(anchor) * 2)
        written.flush()
        os.fsync(descriptor)
    return new_file


def replace_file(file: Path, anchor: Anchor) -> None:
    """Let a file hold one anchor, in both slots, durably."""
    os.rename(write_new_file(file, anchor), file)
    sync_directory(file.parent)


def _open_lock(file: Path) -> int:
    """Open the lock file beside a file of the head.

    It stays for ever, since removing it would let two holders in.
    """
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    return os.open(file.with_name(file.name + ".lock"), os.O_CREAT | os.O_RDWR, 0o600)


def unlock(descriptor: int) -> None:
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
