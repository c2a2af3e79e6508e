"""What the ledger hands out: frozen facts."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from dither.privacy.charges.rules import Charge
from dither.privacy.ledger.pots import Pot


def public_id(entry_hash: str) -> str:
    """What a release is called outside: the start of its reserve's hash.

    The number of the entry counts other people's charges, also those under way, and so tells when
    they ask.
    """
    return entry_hash[:16]


@dataclass(frozen=True)
class Reservation:
    """A charge already made, to be committed once. `seq` also names the release that will follow.

    `charge`, `spent_after` and `cap` are those of the pot that was asked; `charges` holds every pot
    that paid. All are settled figures, which a release may show: as if no other charge were under
    way. The entry holds what was charged.
    """

    seq: int
    hash: str
    pot: str
    charge: Fraction
    spent_after: Fraction
    cap: Fraction
    charges: dict[str, Charge]


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
class Found:
    """A stored release that answers a request.

    It says when the release left, and which pots still owe for it.
    """

    seq: int
    hash: str
    released_at: str
    owing: tuple[str, ...]
    stored: Stored

    @property
    def release_id(self) -> str:
        """What anyone but the steward calls it."""
        return public_id(self.hash)


@dataclass(frozen=True)
class Registered:
    """A registered version of the data, by its public facts."""

    version: int
    catalog_hash: str
    public: dict[str, Any]


@dataclass(frozen=True)
class LedgerView:
    """What pricing a question needs to know of the ledger, read at one moment.

    `path` holds the terms of the pot that is asked and of all that it is inside of, none where it
    is not open; `windows` the partition into windows and its windows, where budgets are kept per
    window.
    """

    registered: Registered | None
    path: tuple[Pot, ...] = ()
    windows: tuple[Pot, tuple[Pot, ...]] | None = None
    is_suspended: bool = False


@dataclass(frozen=True)
class Incident:
    """A failure after a reserve: one data-dependent bit that no noise protects, hence counted."""

    seq: int
    reserve: int
    code: str
