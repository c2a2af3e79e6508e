"""What the ledger's tests share: a ledger in a folder or a database of its own, its head in another
folder."""

from __future__ import annotations

import itertools
import json
import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dither.privacy.ledger import Location, Reservation, chain
from dither.privacy.ledger.head import GENESIS
from dither.privacy.ledger.steward_ledger import StewardLedger
from dither.privacy.ledger.verify import Report, verify
from dither.privacy.losses import Pure

HASH = "ab" * 32
TIME = "2026-03-01T12:00:00+00:00"
TERMS: dict[str, Any] = {
    "neighbours": "add_remove",
    "unit": "person",
    "question": "How many visits are urgent?",
    "population": "residents of the county",
    "recipient": "the county health board",
}


_numbers = itertools.count()


def fresh_url(server: Any) -> str:
    """A schema of its own in the test server."""
    name = f"ledger_{next(_numbers)}"
    server.psql(f"CREATE SCHEMA {name};")
    return f"{server.get_uri()}&options=-csearch_path%3D{name}"


@dataclass
class Place:
    """Where a test's ledger and head lie; `url` names a PostgreSQL database, else it is a SQLite
    file."""

    folder: Path
    url: str | None = None

    @property
    def path(self) -> Path:
        return self.folder / "state" / "ledger.sqlite"

    @property
    def location(self) -> Location:
        return self.url or self.path

    @property
    def head(self) -> Path:
        return self.folder / "heads" / "one"

    def create(self, cap: object = 1, ceiling: object = 2, **more: Any) -> StewardLedger:
        ledger = StewardLedger.create(self.location, self.head)
        ledger.open_pot(
            "total", cap, ceiling, **(TERMS | {"reissue": 0, "max_incidents": 9} | more)
        )  # type: ignore[arg-type]
        return ledger

    def open(self) -> StewardLedger:
        return StewardLedger.open(self.location, self.head)

    def verify(self) -> Report:
        return verify(self.location, self.head)

    def change(self, *statements: str) -> int:
        """Tampers with a closed ledger; how many rows the last statement changed."""
        with self._theirs() as theirs:
            for statement in statements:
                changed = theirs.execute(translated(statement) if self.url else statement).rowcount
            theirs.commit()
        return int(changed)

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """Reads a ledger behind its back."""
        with self._theirs() as theirs:
            return list(theirs.execute(query).fetchall())

    @contextmanager
    def _theirs(self) -> Iterator[Any]:
        if self.url:
            import psycopg

            theirs: Any = psycopg.connect(self.url)
        else:
            theirs = sqlite3.connect(self.path)
        try:
            yield theirs
        finally:
            theirs.close()

    def backup(self) -> Any:
        """A copy of a closed ledger."""
        if not self.url:
            return self.path.read_bytes()
        with self._theirs() as theirs:
            return {table: theirs.execute(f"SELECT * FROM {table}").fetchall() for table in TABLES}

    def restore(self, copy: Any) -> None:
        """Puts a copy back."""
        if not self.url:
            self.path.write_bytes(copy)
            return
        with self._theirs() as theirs:
            for table, rows in copy.items():
                theirs.execute(f"DELETE FROM {table}")
                for row in rows:
                    theirs.execute(
                        f"INSERT INTO {table} VALUES ({', '.join(['%s'] * len(row))})", row
                    )
            theirs.commit()


TABLES = ("entry", "release", "share", "pending", "pot_state")


def translated(statement: str) -> str:
    """From SQLite's words to PostgreSQL's."""
    return re.sub(r"x'([0-9a-f]*)'", r"'\\x\1'::bytea", statement).replace(
        "zeroblob(32)", "decode(repeat('00', 32), 'hex')"
    )


def reserve(
    ledger: StewardLedger,
    epsilon: object = "0.1",
    pot: str = "total",
    request: str = HASH,
    **more: Any,
) -> Reservation:
    return ledger.reserve(pot, Pure(epsilon, unit="person", **more), request, {"plan": HASH})  # type: ignore[arg-type]


def release(
    ledger: StewardLedger,
    epsilon: object = "0.1",
    content: bytes = b"42",
    pot: str = "total",
    request: str = HASH,
    **more: Any,
) -> Reservation:
    reservation = reserve(ledger, epsilon, pot, request, **more)
    ledger.commit(reservation, content, {"n": 42}, released_at=TIME)
    return reservation


def rewrite(place: Place, seq: int, respell: Callable[[str], str] = str, **changes: object) -> None:
    """Changes a body and every hash after it: the chain is consistent again, only the head and the
    rules disagree.

    Unless digests of totals are what changes, they go: the chain then looks like one of the first
    version.
    """
    previous = GENESIS
    for number, kind, text in place.rows("SELECT seq, kind, body_json FROM entry ORDER BY seq"):
        body = json.loads(text)
        if "totals" not in changes:
            del body["totals"]
        if number == seq:
            body |= changes
            if body.get("totals") == "":
                del body["totals"]
        text = chain.canonical_text(body, "body")
        text = respell(text) if number == seq else text
        hashed = chain.entry_hash(number, kind, text, previous)
        quoted = text.replace("'", "''")
        place.change(
            f"UPDATE entry SET body_json='{quoted}', prev_hash='{previous}', hash='{hashed}' WHERE "
            f"seq={number}"
        )
        previous = hashed
