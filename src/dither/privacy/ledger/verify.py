"""`verify`: the whole ledger checked by anyone who can read it; no data, no key, nothing written.

Recomputes every hash, every charge from its loss, every pot from the entries, every release against
its salted commitment, and compares the end with the head.
"""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from dither.errors import RefusedError
from dither.privacy.ledger import rows, tables
from dither.privacy.ledger.anchors import SignedAnchor
from dither.privacy.ledger.chain import NONCE_BYTES, Broken, commitment, follow
from dither.privacy.ledger.database import Database, Transaction
from dither.privacy.ledger.head import Head
from dither.privacy.ledger.location import Location, is_url, missing_head
from dither.privacy.ledger.postgres import Postgres
from dither.privacy.ledger.pots import Pot
from dither.privacy.ledger.replay import Replay, check_totals, is_bad_value, is_canonical, replayed
from dither.privacy.ledger.sqlite import SQLite

_RELEASE = f"{tables.RELEASE.selection} WHERE seq = :at"
_RELEASES = "SELECT seq FROM release"


@dataclass(frozen=True)
class Report:
    """What `verify` found.

    `first_bad` is the first bad entry, None where the fault lies beside the entries.

    `notes` name entries that an earlier dither wrote by its rules, and that today's would refuse.
    """

    ok: bool
    entries: int
    releases: int
    pots: tuple[Pot, ...]
    first_bad: int | None = None
    problem: str = ""
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        if not self.ok:
            return f"the ledger does NOT verify: {self.problem}"
        counts = ", ".join(
            (
                _count(self.entries, "entry", "entries"),
                _count(self.releases, "release", "releases"),
                _count(len(self.pots), "budget", "budgets"),
            )
        )
        return "\n".join((f"the ledger verifies: {counts}", *self.notes))


def _count(number: int, singular: str, plural: str) -> str:
    return f"{number} {singular if number == 1 else plural}"


def verify(location: Location, head_path: Path, anchors: tuple[SignedAnchor, ...] = ()) -> Report:
    """Checks a ledger; never raises for a bad one, but says what is wrong first.

    With `anchors`, lines that somebody else kept, every entry that they name must be in it.

    SQLite reads a ledger in use through its log and a shared-memory file beside it. One at rest has
    no log, and is read as a plain file. Where a log lies but the folder is closed to us (a crash, a
    mounted backup), a copy is read.
    """
    head_path = Path(head_path)
    if is_url(location):
        return _checked(Postgres(str(location)), head_path, location, anchors)
    path = Path(location)
    log = path.with_name(path.name + "-wal")
    if not log.exists():
        report = _checked(SQLite(path, "immutable"), head_path, path, anchors)
        if report.ok or not path.is_file():
            return report  # if not ok, a writer may have come meanwhile: look again
    try:
        _open_and_close(SQLite(path, "ro"))
        return _checked(SQLite(path, "ro"), head_path, path, anchors)
    except RefusedError:
        with tempfile.TemporaryDirectory() as folder:
            copy = Path(folder) / path.name
            shutil.copyfile(path, copy)
            if log.exists():
                shutil.copyfile(log, copy.with_name(log.name))
            return _checked(SQLite(copy), head_path, path, anchors)


def _open_and_close(database: Database) -> None:
    """Begin and end a reading transaction, to see whether the database can be opened."""
    try:
        with database.transaction(write=False):
            pass
    finally:
        database.close()


def _checked(
    database: Database, head_path: Path, location: Location, anchors: tuple[SignedAnchor, ...]
) -> Report:
    """Replay the whole ledger and compare it with head, anchors, stored answers and totals."""
    replay = Replay()
    try:
        named = Head(head_path, location).read_anchors()  # before the ledger, which may grow
        with database.transaction(write=False) as transaction:
            if (problem := database.check_schema(transaction)) is not None:
                raise Broken(None, problem)
            replay = replayed(transaction, database.errors)
            for anchor in named:
                follow(transaction, anchor)
            if not named and replay.last.seq:
                raise Broken(None, missing_head(head_path, replay.last))
            _check_anchors(transaction, anchors, replay.last.seq)
            check_releases(transaction, replay, database.errors)
            check_totals(transaction, replay)
    except (Broken, RefusedError) as error:
        return Report(
            False,
            replay.last.seq,
            len(replay.commitments),
            (),
            getattr(error, "seq", None),
            str(error),
        )
    finally:
        database.close()
    notes = (
        *replay.notes,
        *(f"at the next opening {sentence}" for sentence in replay.describe_recount()),
    )
    counted = replay.pots if replay.recounted is None else replay.recounted
    return Report(
        True, replay.last.seq, len(replay.commitments), tuple(counted.values()), notes=notes
    )


def _check_anchors(
    transaction: Transaction, anchors: tuple[SignedAnchor, ...], newest: int
) -> None:
    """Raise Broken unless every anchored entry is in the ledger, with the anchored hash."""
    for signed in anchors:
        anchor = signed.anchor
        if anchor.seq > newest:
            raise Broken(
                None,
                f"the anchor of {signed.written_at} names entry {anchor.seq}: "
                "the ledger was cut off before it",
            )
        if anchor.seq and rows.entry(transaction, anchor.seq)[2] != anchor.hash:
            raise Broken(
                anchor.seq,
                f"the anchor of {signed.written_at} names another hash here: "
                "the ledger was rewritten",
            )


def check_releases(
    transaction: Transaction, replay: Replay, errors: tuple[type[Exception], ...]
) -> None:
    """Raise Broken unless commits and stored releases match each other, one to one.

    Every commit has its release, the very one that its hash names, and no release is without a
    commit.
    """
    for seq, (commit, promised) in replay.commitments.items():
        mismatch = f"its release (reserve {seq}) is not the one committed to"
        try:
            release_rows = transaction.rows(_RELEASE, {"at": seq})
        except errors + (TypeError,) as error:  # noqa: RUF005
            if not is_bad_value(error):
                raise
            raise Broken(commit, mismatch) from None
        if not release_rows:
            raise Broken(commit, f"its release (reserve {seq}) is missing")
        _, request_hash, commit_seq, nonce, arrow_bytes, meta_json = release_rows[0]
        whole = (
            isinstance(nonce, bytes)
            and isinstance(arrow_bytes, bytes)
            and isinstance(meta_json, str)
        )
        if (
            not whole
            or len(nonce) != NONCE_BYTES
            or commitment(nonce, arrow_bytes, meta_json) != promised
        ):
            raise Broken(commit, mismatch)
        if not is_canonical(meta_json):
            raise Broken(
                commit,
                f"what is said of its release (reserve {seq}) is not written as dither writes it",
            )
        if (request_hash, commit_seq) != (replay.reserves[seq].request_hash, commit):
            raise Broken(commit, f"its release (reserve {seq}) is filed under another request")
    stored = {row[0] for row in transaction.stream(_RELEASES)}
    if extra := stored - set(replay.commitments):
        raise Broken(None, f"release {min(extra, key=str)} belongs to no commit")
