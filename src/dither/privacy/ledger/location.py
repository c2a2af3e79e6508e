"""Where a ledger lies: a SQLite file, or a PostgreSQL database.

It also says what to do when its head is gone.
"""

from __future__ import annotations

from pathlib import Path

from dither.privacy.ledger.database import Database
from dither.privacy.ledger.head import Anchor
from dither.privacy.ledger.postgres import Postgres
from dither.privacy.ledger.sqlite import SQLite

Location = Path | str  # a SQLite file, or the URL of a PostgreSQL database


def is_url(location: Location) -> bool:
    """Whether a ledger lies in PostgreSQL."""
    return isinstance(location, str) and location.startswith("postgres")


def database_at(location: Location) -> Database:
    """Make the store at a location: PostgreSQL for a URL, else SQLite."""
    return Postgres(str(location)) if is_url(location) else SQLite(Path(location))


def missing_head(head_path: Path, last: Anchor) -> str:
    """Write what a steward should do when the head is gone: the message of a refusal."""
    return (
        f"the ledger has {last.seq} entries but no head at {head_path}, so it may be an old copy. "
        "Steward: copy the head from the machine where this ledger last ran. If it is lost for "
        "good, what was spent since nobody knows: 'dither ledger close CATALOG' closes every budget"
    )
