"""What the ledger's tests share: a ledger in a folder of its own, its head in another."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dither.privacy.ledger import Ledger, Report, Reservation, verify
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


@dataclass
class Place:
    """Where a test's ledger and head lie."""

    folder: Path

    @property
    def path(self) -> Path:
        return self.folder / "state" / "ledger.sqlite"

    @property
    def head(self) -> Path:
        return self.folder / "heads" / "one"

    def create(self, cap: object = 1, ceiling: object = 2) -> Ledger:
        ledger = Ledger.create(self.path, self.head)
        ledger.open_pot("total", cap, ceiling, **TERMS)  # type: ignore[arg-type]
        return ledger

    def open(self) -> Ledger:
        return Ledger.open(self.path, self.head)

    def verify(self) -> Report:
        return verify(self.path, self.head)


def reserve(ledger: Ledger, epsilon: object = "0.1", pot: str = "total") -> Reservation:
    return ledger.reserve(pot, Pure(epsilon, unit="person"), HASH, {"plan": HASH})  # type: ignore[arg-type]


def release(ledger: Ledger, epsilon: object = "0.1", content: bytes = b"42") -> Reservation:
    reservation = reserve(ledger, epsilon)
    ledger.commit(reservation, content, {"n": 42}, released_at=TIME)
    return reservation
