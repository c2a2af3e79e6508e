"""What the ledger hands out: frozen facts."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any


@dataclass(frozen=True)
class Reservation:
    """A charge already made, to be committed once. `seq` also names the release that will follow."""

    seq: int
    hash: str
    pot: str
    charge: Fraction
    spent_after: Fraction
    cap: Fraction


@dataclass(frozen=True)
class Committed:
    """A release that is on the disk and may be sent; `seq` is that of its commit entry."""

    seq: int
    hash: str
    reserve: int


@dataclass(frozen=True)
class Stored:
    """A stored release; only for those who may see its values."""

    nonce: bytes
    arrow_bytes: bytes
    meta: dict[str, Any]


@dataclass(frozen=True)
class Registered:
    """A registered version of the data, by its public facts."""

    version: int
    catalog_hash: str
    public: dict[str, Any]


@dataclass(frozen=True)
class Incident:
    """A failure after a reserve: one data-dependent bit that no noise protects, hence counted."""

    seq: int
    reserve: int
    code: str


@dataclass(frozen=True)
class Record:
    """One line of history: parameters, never values."""

    seq: int
    pot: str
    charge: Fraction
    loss: dict[str, Any]
    request_hash: str
    public: dict[str, Any]
    released_at: str | None
