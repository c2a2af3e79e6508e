"""Scratch folders: where the engine spills rows that do not fit in memory, one for each process.

A scratch folder has mode 0700 and a lock file. The process that claimed the folder holds a lock on
that file until it ends, however it ends, so a folder whose lock is free belongs to nobody alive.
Such folders are removed whenever a process claims one in the same parent. The names hold the
process number for readers only: numbers are used again, and two containers may share a parent.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import shutil
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from dither.errors import DitherError
from dither.state import State

LOCK_NAME = "lock"


@dataclass
class _Claim:
    """A folder of this process, the open lock file that says so, and how many are using it."""

    folder: Path
    descriptor: int
    users: int = 0


_claims: dict[Path, _Claim] = {}
_guard = threading.Lock()


def claim_folder(parent: Path) -> Path:
    """Return the scratch folder of this process in `parent`; it is made at the first call.

    Leftovers of processes that ended are removed. It stays until `release_folder` was called as
    often, or the process ends. A forked child keeps using its parent's folder, as it does the
    engine's settings. The lock is theirs together: the folder stays until both have given it up.
    """
    with _guard:
        claim = _claims.get(parent.absolute())
        if claim is not None and claim.folder.is_dir():
            claim.users += 1
            return claim.folder
        try:
            parent.mkdir(mode=0o700, exist_ok=True)
            with _hold_lock(parent / LOCK_NAME):
                _remove_unlocked(parent)
                claim = _make_folder(parent)
        except OSError as error:
            raise DitherError(
                f"cannot make a scratch folder in {parent} ({error.strerror}): let this account "
                f"write there"
            ) from None
        gone = _claims.get(parent.absolute())  # somebody removed the folder of an earlier claim
        if gone is not None:
            os.close(gone.descriptor)
        claim.users = 1 if gone is None else gone.users + 1
        _claims[parent.absolute()] = claim
        return claim.folder


def release_folder(parent: Path) -> None:
    """Give up one use of the folder in `parent`; after the last one it is removed."""
    with _guard:
        claim = _claims.get(parent.absolute())
        if claim is None:
            return
        claim.users -= 1
        if not claim.users:
            _give_up(parent.absolute())


def _give_up(parent: Path) -> None:
    os.close(_claims.pop(parent).descriptor)
    remove_leftovers(parent)


def remove_leftovers(parent: Path) -> None:
    """Remove the scratch folders in `parent` whose process has ended."""
    with suppress(OSError), _hold_lock(parent / LOCK_NAME):
        _remove_unlocked(parent)


def remove_spilled(state: State, *, has_lock: bool = False) -> None:
    """Remove what a registration that was killed has spilled, unless one is running.

    `has_lock` says that the caller is the registration, which holds the lock of the state folder.
    """
    if not state.spill.exists() and not state.plain_spill_file.exists():
        return
    with nullcontext(True) if has_lock else _try_lock(state.root / LOCK_NAME) as is_alone:
        if is_alone:
            with suppress(OSError, DitherError):
                plain = Path(os.fsdecode(state.plain_spill_file.read_bytes()))
                # As registration names it.
                if plain.is_absolute() and plain.name == f"dither-{state.installation_id()}":
                    shutil.rmtree(plain, ignore_errors=True)
                state.plain_spill_file.unlink()
            shutil.rmtree(state.spill, ignore_errors=True)


def _make_folder(parent: Path) -> _Claim:
    """Make a folder of a free name in `parent`, and lock it."""
    for number in count():
        folder = parent / f"{os.getpid()}-{number}"
        with suppress(FileExistsError):
            folder.mkdir(mode=0o700)
            descriptor = os.open(folder / LOCK_NAME, os.O_RDWR | os.O_CREAT, 0o600)
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return _Claim(folder, descriptor)
    raise AssertionError("unreachable: numbers do not end")


def _remove_unlocked(parent: Path) -> None:
    """Remove the folders in `parent` that no living process has locked."""
    for folder in parent.iterdir():
        if folder.is_dir() and not folder.is_symlink():
            with _try_lock(folder / LOCK_NAME) as is_free:
                if is_free:
                    shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _try_lock(file: Path) -> Iterator[bool]:
    """Try to hold a lock for the length of a block; yield True if it was free."""
    with ExitStack() as stack:
        is_free = False
        with suppress(OSError):
            stack.enter_context(_hold_lock(file, fcntl.LOCK_NB))
            is_free = True
        yield is_free


@contextmanager
def _hold_lock(file: Path, flags: int = 0) -> Iterator[None]:
    """Hold a lock for the length of a block.

    It is released by name and not only by closing the file: a child forked in between would hold
    it for its whole life.
    """
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | flags)
        try:
            yield
        finally:
            fcntl.flock(descriptor, fcntl.LOCK_UN)
    finally:
        os.close(descriptor)


def release_folders() -> None:
    """Give up every folder of this process and remove those that no forked child shares."""
    with _guard:
        for parent in list(_claims):
            _give_up(parent)


def _renew_guard() -> None:
    """A thread that held the guard when the process forked does not exist in the child."""
    global _guard
    _guard = threading.Lock()


os.register_at_fork(after_in_child=_renew_guard)
atexit.register(release_folders)
