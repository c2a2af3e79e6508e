"""Backups of one dataset: ledger, keys and registered copies, sealed by a passphrase; and restores.

A backup never holds the head. The head of the machine tells after a restore whether the ledger is
the newest one. Where it is not, or where there is no head, what was spent since is unknown: the
restore is refused, or closes every budget for ever (P11, P42). A backup restored later than another
one gives nothing back.
"""

from __future__ import annotations

import os
import shutil
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path

from dither.errors import DitherError, RefusedError
from dither.privacy.ledger import default_head_path
from dither.privacy.ledger.copies import copy_ledger
from dither.privacy.ledger.lost import close_ledger
from dither.state import State
from dither.steward.budgets import open_ledger
from dither.steward.sealed_files import open_stream, seal_stream

LEFT_OUT = ("ledger.sqlite", "ledger.url", "lock", "curator.lock", "scratch", "spill")
"""What is written anew by a restore, or belongs to a running process."""
_LEDGER = "ledger.sqlite"


@dataclass(frozen=True)
class Restored:
    """What a restore brought back. `lost` are the first and the last entry that it could not."""

    entries: int
    is_closed: bool
    lost: tuple[int, int | None] | None = None


def make_backup(state: State, file: Path, passphrase: str) -> int:
    """Write a sealed copy of a dataset's state; how many entries its ledger has.

    The ledger is copied as of one moment, while it is in use or not.
    """
    state.installation_id()  # refused where nothing was registered
    if file.exists():
        raise DitherError(f"{file} exists already: a backup takes the place of nothing")
    beside = file.with_name(file.name + ".new")
    with tempfile.TemporaryDirectory(dir=state.root, prefix="backup-") as folder:
        copy = Path(folder) / _LEDGER
        entries = copy_ledger(state.ledger_location(), copy)
        archive = Path(folder) / "archive.tar"
        with tarfile.open(archive, "w") as tar:
            tar.add(copy, _LEDGER)
            for path in sorted(state.root.iterdir()):
                if path.name not in (*LEFT_OUT, Path(folder).name) and "-wal" not in path.name:
                    tar.add(path, path.name, filter=_keep_plain)
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with archive.open("rb") as source, os.fdopen(descriptor, "wb") as target:
            seal_stream(source, target, passphrase)
            target.flush()
            os.fsync(target.fileno())
    beside.rename(file)
    return entries


def restore_backup(
    file: Path,
    state: State,
    passphrase: str,
    *,
    ledger_url: str | None = None,
    close_budgets: bool = False,
) -> Restored:
    """Bring a backup back into an empty state folder.

    Where the ledger is behind the head of this machine, or there is no head, it is refused, unless
    `close_budgets` says that every budget shall be closed. A refusal leaves nothing behind.
    """
    if state.root.exists():
        raise DitherError(
            f"{state.root} exists: a restore replaces nothing. Move it away, and keep it: it may "
            "be newer than the backup"
        )
    beside = state.root.with_name(state.root.name + ".restoring")
    shutil.rmtree(beside, ignore_errors=True)
    beside.mkdir(mode=0o700, parents=True)
    try:
        _unpack(file, beside, passphrase)
        restored = _check_ledger(State(beside), close_budgets)
        if ledger_url is not None:
            _move_ledger(State(beside), ledger_url)
        beside.rename(state.root)
    except BaseException:
        shutil.rmtree(beside, ignore_errors=True)
        raise
    return restored


def _unpack(file: Path, folder: Path, passphrase: str) -> None:
    """Write the files of a backup into a folder, nothing of it outside."""
    with tempfile.TemporaryFile(dir=folder) as archive:
        with file.open("rb") as source:
            open_stream(source, archive, passphrase)
        archive.seek(0)
        with tarfile.open(fileobj=archive) as tar:
            tar.extractall(folder, filter="data")
    for path in folder.rglob("*"):
        path.chmod(0o700 if path.is_dir() else 0o600)


def _check_ledger(state: State, close_budgets: bool) -> Restored:
    """Compare the restored ledger with the head, and close its budgets where that is asked for."""
    try:
        return Restored(_count_entries(state), is_closed=False)
    except RefusedError as error:
        if not close_budgets:
            raise DitherError(
                f"{error}. Restore a newer backup, or the head; if there is none, restore with "
                "--close-budgets: answers can be read again, and nothing is ever charged any more"
            ) from None
    lost = close_ledger(state.ledger_location(), default_head_path(state.installation_id()))
    return Restored(_count_entries(state), is_closed=True, lost=lost)


def _move_ledger(state: State, ledger_url: str) -> None:
    """Copy the restored ledger into an empty PostgreSQL database, where it goes on."""
    copy_ledger(state.ledger, ledger_url)
    state.ledger.unlink()
    file = state.root / "ledger.url"
    file.write_text(ledger_url, encoding="utf-8")
    file.chmod(0o600)


def close_budgets(state: State) -> tuple[int, int | None]:
    """Close every budget of a ledger that is behind its head, or has none; what was lost."""
    return close_ledger(state.ledger_location(), default_head_path(state.installation_id()))


def _count_entries(state: State) -> int:
    """How many entries a ledger has that opens by its head."""
    ledger = open_ledger(state)
    try:
        return ledger.newest_entry().seq
    finally:
        ledger.close()


def _keep_plain(info: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Plain files and folders alone, without names of users."""
    if not (info.isfile() or info.isdir()):
        return None
    info.uid = info.gid = 0
    info.uname = info.gname = ""
    return info
