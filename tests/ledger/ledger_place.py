"""What the ledger's tests share: a ledger in a folder or a database of its own, its head in another folder."""

from __future__ import annotations

import itertools
import sqlite3
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dither.privacy.ledger import Ledger, Location, Report, Reservation, verify
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
    """Where a test's ledger and head lie; `url` names a PostgreSQL database, else it is a SQLite file."""

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

    def create(self, cap: object = 1, ceiling: object = 2, **more: Any) -> Ledger:
        ledger = Ledger.create(self.location, self.head)
        ledger.open_pot("total", cap, ceiling, **(TERMS | {"reissue": 0, "max_incidents": 9} | more))  # type: ignore[arg-type]
        return ledger

    def open(self) -> Ledger:
        return Ledger.open(self.location, self.head)

    def verify(self) -> Report:
        return verify(self.location, self.head)

    def change(self, *statements: str) -> None:
        """Tampers with a closed ledger."""
        if self.url:
            import psycopg

            with psycopg.connect(self.url) as theirs:
                for statement in statements:
                    theirs.execute(statement)
            return
        connection = sqlite3.connect(self.path)
        for statement in statements:
            connection.execute(statement)
        connection.commit()
        connection.close()


def reserve(ledger: Ledger, epsilon: object = "0.1", pot: str = "total", request: str = HASH) -> Reservation:
    return ledger.reserve(pot, Pure(epsilon, unit="person"), request, {"plan": HASH})  # type: ignore[arg-type]


def release(
    ledger: Ledger, epsilon: object = "0.1", content: bytes = b"42", pot: str = "total", request: str = HASH
) -> Reservation:
    reservation = reserve(ledger, epsilon, pot, request)
    ledger.commit(reservation, content, {"n": 42}, released_at=TIME)
    return reservation
