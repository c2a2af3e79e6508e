"""The access log: who was handed what, and when it was released. Only ever appended.

An entry has the principal, the hash of the question, the release and a time; no duration, no value
and no text. The time of a new release is the one that the ledger shows to all. The time of a repeat
is when it was asked for, and never before the release: the log tells nobody how long a question
ran. Each dataset has a chain of hashes of its own, which goes on after a rotation.
"""

from __future__ import annotations

import hashlib
import os
from collections import deque
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from threading import Lock
from typing import Any

from dither.canonical import dumps
from dither.errors import DitherError, ParameterError
from dither.identity.private_file import open_database
from dither.strict_json import read_json

GENESIS = "0" * 64
_SCHEMA = (
    """CREATE TABLE IF NOT EXISTS access (
    dataset TEXT NOT NULL, seq INTEGER NOT NULL, time TEXT NOT NULL, principal TEXT NOT NULL,
    token TEXT NOT NULL, act TEXT NOT NULL, pot TEXT NOT NULL, question TEXT, release TEXT NOT NULL,
    previous TEXT NOT NULL, hash TEXT NOT NULL, PRIMARY KEY (dataset, seq))""",
    """CREATE TABLE IF NOT EXISTS access_rotation (
    dataset TEXT NOT NULL, seq INTEGER NOT NULL, hash TEXT NOT NULL, PRIMARY KEY (dataset, seq))""",
    """CREATE TRIGGER IF NOT EXISTS access_stays BEFORE UPDATE ON access
    BEGIN SELECT RAISE(ABORT, 'the access log is only appended'); END""",
    """CREATE TRIGGER IF NOT EXISTS access_remains BEFORE DELETE ON access
    WHEN NOT EXISTS (SELECT 1 FROM access_rotation r
                     WHERE r.dataset = OLD.dataset AND r.seq >= OLD.seq)
    BEGIN SELECT RAISE(ABORT, 'the access log is only appended'); END""",
)
_COLUMNS = "dataset, seq, time, principal, token, act, pot, question, release, previous, hash"
_FIELDS = tuple(_COLUMNS.split(", "))
_INSERT = f"INSERT INTO access ({_COLUMNS}) VALUES ({', '.join('?' * len(_FIELDS))})"


@dataclass(frozen=True)
class Access:
    """One entry. `question` is the key of the request, where the call had one."""

    dataset: str
    seq: int
    time: str
    principal: str
    token: str
    act: str
    pot: str
    question: str | None
    release: str
    previous: str = GENESIS
    hash: str = ""

    def compute_hash(self) -> str:
        """The hash that the entry must have."""
        facts = {name: getattr(self, name) for name in _FIELDS if name != "hash"}
        return hashlib.sha256(dumps(facts).encode()).hexdigest()


class _WaitingAccess:
    """An entry that waits to be written: what became of it."""

    def __init__(self, draft: Access) -> None:
        self.draft = draft
        self.entry: Access | None = None
        self.error: BaseException | None = None


class AccessLog:
    """The access log of one curator, in its own file."""

    def __init__(self, home: Path) -> None:
        self._lock = Lock()
        self._waiting: deque[_WaitingAccess] = deque()
        self._database = open_database(home)
        for statement in _SCHEMA:
            self._database.execute(statement)

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    def record(self, draft: Access) -> Access:
        """Append an entry; its number and hashes are given here. It is on the disk on return.

        Who comes first writes for all that wait: entries share one transaction and one sync.
        """
        waiting = _WaitingAccess(draft)
        self._waiting.append(waiting)
        with self._lock:
            if waiting.entry is None and waiting.error is None:
                self._write_waiting()
        if waiting.entry is None:
            raise OSError("the access log could not be written") from waiting.error
        return waiting.entry

    def _write_waiting(self) -> None:
        """Append the entries that wait, in their order, all or none of them."""
        batch = [self._waiting.popleft() for _ in range(len(self._waiting))]
        try:
            self._database.execute("BEGIN IMMEDIATE")
            try:
                linked = [self._link(waiting.draft) for waiting in batch]
                self._database.execute("COMMIT")
            except BaseException:
                self._database.execute("ROLLBACK")
                raise
        except BaseException as error:
            for waiting in batch:
                waiting.error = error
            raise
        for waiting, entry in zip(batch, linked, strict=True):
            waiting.entry = entry

    def _link(self, draft: Access) -> Access:
        """Insert an entry after the newest one of its dataset."""
        seq, previous = self._read_end(draft.dataset)
        linked = replace(draft, seq=seq + 1, previous=previous)
        entry = replace(linked, hash=linked.compute_hash())
        row = tuple(getattr(entry, name) for name in _FIELDS)
        self._database.execute(_INSERT, row)
        return entry

    def read_page(self, dataset: str, start: int, count: int) -> tuple[Access, ...]:
        """Entries of a dataset in order, from number `start` on."""
        with self._lock:
            rows = self._database.execute(
                f"SELECT {_COLUMNS} FROM access WHERE dataset = ? AND seq >= ? ORDER BY seq "
                "LIMIT ?",
                (dataset, start, count),
            )
            return tuple(Access(*row) for row in rows.fetchall())

    def count_entries(self, dataset: str) -> int:
        """The number of the newest entry, those in rotated files included."""
        with self._lock:
            return self._read_end(dataset)[0]

    def verify(self, dataset: str) -> int:
        """Check the chain since the last rotation; the number of entries that were checked."""
        with self._lock:
            seq, start = self._read_rotation(dataset)
        entries = self.read_page(dataset, 0, 2**62)
        check_entries(entries, seq, start)
        return len(entries)

    def rotate(self, dataset: str, file: Path) -> int:
        """Move all entries of a dataset to a new file (mode 0600); how many there were.

        The file is on the disk before the entries leave the log, and the next entry goes on from
        the last hash in the file.
        """
        self.verify(dataset)
        entries = self.read_page(dataset, 0, 2**62)
        if not entries:
            raise ParameterError("there is no entry to rotate: the log is as short as it can be")
        _write_lines(file, entries)
        newest = entries[-1]
        with self._lock:
            self._database.execute("BEGIN IMMEDIATE")
            try:
                end = (dataset, newest.seq, newest.hash)
                self._database.execute("INSERT INTO access_rotation VALUES (?, ?, ?)", end)
                self._database.execute(
                    "DELETE FROM access WHERE dataset = ? AND seq <= ?", (dataset, newest.seq)
                )
                self._database.execute("COMMIT")
            except BaseException:
                self._database.execute("ROLLBACK")
                raise
        return len(entries)

    def _read_end(self, dataset: str) -> tuple[int, str]:
        """Number and hash of the newest entry, which may lie in a rotated file."""
        row = self._database.execute(
            "SELECT seq, hash FROM access WHERE dataset = ? ORDER BY seq DESC LIMIT 1", (dataset,)
        ).fetchone()
        return self._read_rotation(dataset) if row is None else (row[0], row[1])

    def _read_rotation(self, dataset: str) -> tuple[int, str]:
        row = self._database.execute(
            "SELECT seq, hash FROM access_rotation WHERE dataset = ? ORDER BY seq DESC LIMIT 1",
            (dataset,),
        ).fetchone()
        return (0, GENESIS) if row is None else (row[0], row[1])


def check_entries(entries: Iterable[Access], seq: int, previous: str) -> str:
    """Refuse entries that do not follow number `seq` with hash `previous`; the last hash."""
    for entry in entries:
        seq += 1
        if (entry.seq, entry.previous, entry.hash) != (seq, previous, entry.compute_hash()):
            raise DitherError(
                f"entry {seq} of the access log was changed or removed: compare with a backup"
            )
        previous = entry.hash
    return previous


def read_lines(text: str) -> tuple[Access, ...]:
    """The entries of a rotated file; ParameterError names the first line that is none."""
    entries: list[Access] = []
    for number, line in enumerate(text.splitlines(), 1):
        try:
            document: Any = read_json(line, max_characters=10_000)
            entries.append(Access(**document))
        except (ValueError, TypeError, RecursionError):
            raise ParameterError(f"line {number} is no entry of an access log") from None
    return tuple(entries)


def _write_lines(file: Path, entries: tuple[Access, ...]) -> None:
    """Write a new file, one canonical document a line, and sync it; an old one is not replaced."""
    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise ParameterError(f"{file} exists already: name a new file") from None
    with os.fdopen(descriptor, "w", encoding="utf-8") as opened:
        opened.writelines(dumps(asdict(entry)) + "\n" for entry in entries)
        opened.flush()
        os.fsync(opened.fileno())
