"""The acts of a curator: who may do what, and since when. They are only ever appended.

An act is a small JSON document with a time and a person. The log is a hash chain in the curator's
own file, and SQLite itself refuses to change or remove a row. Users, groups, grants and pinned keys
are what the acts add up to (`directory.py`): there is no other table to change them in.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any

from dither.canonical import dumps
from dither.errors import DitherError
from dither.identity.directory import EMPTY, Directory, apply_act
from dither.identity.private_file import open_database, read_clock
from dither.strict_json import read_json

GENESIS = "0" * 64
_SCHEMA = (
    """CREATE TABLE IF NOT EXISTS act (
    seq INTEGER PRIMARY KEY, at TEXT NOT NULL, who TEXT NOT NULL, body TEXT NOT NULL,
    evidence TEXT NOT NULL, previous TEXT NOT NULL, hash TEXT NOT NULL)""",
    """CREATE TRIGGER IF NOT EXISTS act_stays BEFORE UPDATE ON act
    BEGIN SELECT RAISE(ABORT, 'acts are only appended'); END""",
    """CREATE TRIGGER IF NOT EXISTS act_remains BEFORE DELETE ON act
    BEGIN SELECT RAISE(ABORT, 'acts are only appended'); END""",
)
_COLUMNS = "seq, at, who, body, evidence, previous, hash"


@dataclass(frozen=True)
class RecordedAct:
    """An act with its time (UTC, to the second) and who did it.

    `evidence` is the signed document where a steward signed the act elsewhere, else empty.
    """

    seq: int
    time: str
    who: str
    body: dict[str, Any]
    evidence: str
    previous: str
    hash: str

    def compute_hash(self) -> str:
        """The hash that the row must have."""
        facts = [self.seq, self.time, self.who, self.body, self.evidence, self.previous]
        return hashlib.sha256(dumps(facts).encode()).hexdigest()


class ActLog:
    """The acts of one curator, in `curator.sqlite`; shared with its command line."""

    def __init__(self, home: Path) -> None:
        self._lock = Lock()
        self._database = open_database(home)
        for statement in _SCHEMA:
            self._database.execute(statement)
        self._newest = GENESIS
        self._seq = 0
        self._directory = EMPTY

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    @property
    def head(self) -> str:
        """The hash of the newest act."""
        with self._lock:
            self._catch_up()
            return self._newest

    def read_directory(self) -> Directory:
        """What all acts until now add up to, also those of another process."""
        with self._lock:
            self._catch_up()
            return self._directory

    def list_acts(self) -> tuple[RecordedAct, ...]:
        """All acts, the oldest first; refused where the chain is broken."""
        with self._lock:
            acts = self._read_after(0)
        _check_chain(acts, 0, GENESIS)
        return acts

    def record(
        self,
        body: dict[str, Any],
        who: str,
        evidence: str = "",
        *,
        check: Callable[[str, Directory], None] | None = None,
    ) -> RecordedAct:
        """Append an act, if what it changes can be changed.

        `check` sees the newest hash and the directory inside the same transaction, so that nothing
        comes between a check and the act.
        """
        with self._lock:
            self._database.execute("BEGIN IMMEDIATE")
            try:
                act = self._append(body, who, evidence, check)
                self._database.execute("COMMIT")
            except BaseException:
                self._database.execute("ROLLBACK")
                raise
            self._catch_up()
            return act

    def _append(
        self,
        body: dict[str, Any],
        who: str,
        evidence: str,
        check: Callable[[str, Directory], None] | None,
    ) -> RecordedAct:
        self._catch_up()
        if check is not None:
            check(self._newest, self._directory)
        apply_act(self._directory, body)
        draft = RecordedAct(self._seq + 1, read_clock(), who, body, evidence, self._newest, GENESIS)
        row = (draft.seq, draft.time, who, dumps(body), evidence, draft.previous)
        hashed = draft.compute_hash()
        self._database.execute("INSERT INTO act VALUES (?, ?, ?, ?, ?, ?, ?)", (*row, hashed))
        return RecordedAct(draft.seq, draft.time, who, body, evidence, draft.previous, hashed)

    def _catch_up(self) -> None:
        """Apply the acts that were appended since the last look."""
        acts = self._read_after(self._seq)
        _check_chain(acts, self._seq, self._newest)
        for act in acts:
            self._directory = apply_act(self._directory, act.body)
            self._newest = act.hash
            self._seq = act.seq

    def _read_after(self, seq: int) -> tuple[RecordedAct, ...]:
        rows = self._database.execute(
            f"SELECT {_COLUMNS} FROM act WHERE seq > ? ORDER BY seq", (seq,)
        )
        return tuple(map(_read_act, rows.fetchall()))


def _read_act(row: tuple[Any, ...]) -> RecordedAct:
    return RecordedAct(row[0], row[1], row[2], read_json(row[3]), row[4], row[5], row[6])


def _check_chain(acts: tuple[RecordedAct, ...], seq: int, newest: str) -> None:
    """Refuse acts that do not follow each other, or that differ from what was hashed."""
    for act in acts:
        seq += 1
        if (act.seq, act.previous, act.hash) != (seq, newest, act.compute_hash()):
            raise DitherError(
                f"act {seq} of the curator was changed or removed: restore curator.sqlite from a "
                "backup; until then nobody is let in"
            )
        newest = act.hash
