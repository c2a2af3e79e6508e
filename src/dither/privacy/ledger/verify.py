"""`verify`: the whole ledger checked by anyone who can read it; no data, no key, nothing written.

Recomputes every hash, every charge from its loss, every pot from the entries, every release against its salted
commitment, and compares the end with the head.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from dither.errors import RefusedError
from dither.privacy.ledger.chain import Broken, Replay, check_releases, check_totals, follow, replayed
from dither.privacy.ledger.head import Anchor, Head
from dither.privacy.ledger.pots import Pot
from dither.privacy.ledger.sqlite import Database, check_schema


@dataclass(frozen=True)
class Report:
    """What `verify` found; `first_bad` is the first bad entry, None where the fault lies beside the entries."""

    ok: bool
    entries: int
    releases: int
    pots: tuple[Pot, ...]
    first_bad: int | None = None
    problem: str = ""

    def __str__(self) -> str:
        if not self.ok:
            return f"the ledger does NOT verify: {self.problem}"
        return f"the ledger verifies: {self.entries} entries, {self.releases} releases, {len(self.pots)} pots"


def verify(path: Path, head_path: Path) -> Report:
    """Checks a ledger; never raises for a bad one, but says what is wrong first."""
    replay = Replay()
    try:
        anchor = Head(head_path, path).read()  # before the ledger, which may grow meanwhile
        with _reading(path) as database, database.transaction(write=False) as connection:
            if (problem := check_schema(connection)) is not None:
                raise Broken(None, problem)
            replay = replayed(connection)
            if anchor is not None:
                follow(connection, anchor)
            elif replay.last.seq:
                raise Broken(None, missing_head(head_path, replay.last))
            check_releases(connection, replay)
            check_totals(connection, replay)
    except Broken as error:
        return Report(False, replay.last.seq, len(replay.commitments), (), error.seq, str(error))
    except RefusedError as error:
        return Report(False, replay.last.seq, len(replay.commitments), (), None, str(error))
    return Report(True, replay.last.seq, len(replay.commitments), tuple(replay.pots.values()))


def missing_head(head_path: Path, last: Anchor) -> str:
    """What a steward does when the head is gone."""
    return (
        f"the ledger has {last.seq} entries but no head at {head_path}, so it may be an old copy. "
        "Steward: copy the head from the machine or backup where this ledger last ran. Only if it is lost for good and "
        f"you know that no newer ledger exists, write it anew: mkdir -p '{head_path.parent}' && "
        f"printf '%s' '{last.text()}' > '{head_path}'"
    )


@contextmanager
def _reading(path: Path) -> Iterator[Database]:
    """The ledger, opened so that nothing on its disk changes.

    SQLite reads a WAL file through shared memory beside it. Where the directory is closed to us it cannot make that:
    a ledger without pending log is then read as immutable, one with a log (a crash) from a private copy.
    """
    database = Database(path, "ro")
    try:
        with database.transaction(write=False):
            pass
        yield database
        return
    except RefusedError:
        if not path.is_file():
            raise
    finally:
        database.close()
    log = path.with_name(path.name + "-wal")
    with tempfile.TemporaryDirectory() as folder:
        source = path
        if log.exists() and log.stat().st_size:
            source = Path(folder) / path.name
            shutil.copyfile(path, source)
            shutil.copyfile(log, source.with_name(log.name))
        database = Database(source, "immutable" if source == path else "rw")
        try:
            yield database
        finally:
            database.close()
