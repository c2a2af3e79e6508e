"""The head: the newest entry's number and hash, kept outside the ledger's directory.

A ledger alone cannot tell that an older copy of it was put back; with the head elsewhere, one restore does not roll
back both. Order: COMMIT, head, send. So after a crash the ledger may be *ahead* of the head, never behind.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from dither.canonical import dumps
from dither.errors import ParameterError, RefusedError
from dither.privacy.ledger.sqlite import DURABLE, patiently, sync_directory

ROLLBACK = "privacy-rules 39: a ledger is never rolled back"
GENESIS = "0" * 64


@dataclass(frozen=True)
class Anchor:
    """One entry of the chain, by number and hash; number 0 is the empty chain."""

    seq: int
    hash: str

    def text(self) -> str:
        """The whole content of a head file."""
        return dumps({"hash": self.hash, "seq": self.seq, "v": 1})


START = Anchor(0, GENESIS)


def default_head_path(installation_id: str) -> Path:
    """`$XDG_STATE_HOME/dither/heads/<installation id>`, with ~/.local/state where the variable is not set."""
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,128}", installation_id):
        raise ParameterError("an installation id consists of letters, digits, - and _")
    state = os.environ.get("XDG_STATE_HOME", "")
    base = Path(state) if os.path.isabs(state) else Path.home() / ".local" / "state"
    return base / "dither" / "heads" / installation_id


class Head:
    """The head file at one path; moved forwards only, by one process at a time."""

    def __init__(self, path: Path, ledger: Path) -> None:
        if path.resolve().is_relative_to(ledger.resolve().parent):
            raise ParameterError(
                f"the head {path} must lie outside the ledger's directory {ledger.parent}: "
                "otherwise one restore rolls back both, and what was spent is forgotten"
            )
        self.path = path

    def read(self) -> Anchor | None:
        """The anchor on file, None where there is no file."""
        try:
            tree = json.loads(self.path.read_text("utf-8"))
            anchor = Anchor(tree["seq"], tree["hash"])
            if type(anchor.seq) is int and re.fullmatch("[0-9a-f]{64}", anchor.hash) and tree["v"] == 1:
                return anchor
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError):
            pass
        except OSError as error:
            raise RefusedError(f"the head {self.path} cannot be read: {error.strerror}", rule=ROLLBACK) from None
        raise RefusedError(
            f"the head {self.path} is damaged: put back its newest copy (docs/reference/ledger.md says what it holds)",
            rule=ROLLBACK,
        )

    def check_writable(self) -> None:
        """Fails now rather than after a charge."""
        with self._reported():
            os.close(self._lock_file())

    def advance(self, anchor: Anchor) -> None:
        """Durably at `anchor` or beyond it on return."""
        with self._locked():
            now = self.read()
            if now is not None and now.seq >= anchor.seq:
                return
            beside = self.path.with_name(self.path.name + ".new")
            descriptor = os.open(beside, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600)
            with open(descriptor, "w", encoding="utf-8") as file:
                file.write(anchor.text())
                file.flush()
                os.fsync(descriptor)
            os.rename(beside, self.path)
            sync_directory(self.path.parent)

    def _lock_file(self) -> int:
        """The lock file beside the head; it stays for ever, since removing it would let two holders in."""
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        return os.open(self.path.with_name(self.path.name + ".lock"), os.O_CREAT | os.O_RDWR, 0o600)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with self._reported():
            descriptor = self._lock_file()
            try:
                patiently(lambda: fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB))
                yield
            finally:
                os.close(descriptor)

    @contextmanager
    def _reported(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise RefusedError(f"the head {self.path} cannot be written: {error.strerror}", rule=DURABLE) from None
