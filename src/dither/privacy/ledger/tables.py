"""The three tables of a ledger (docs/reference/ledger.md).

`entry` is the truth: append-only and hash-chained. `release` holds what was answered, one row per committed reserve and
keyed by that reserve's `seq`, so that the primary key itself forbids a second commit. `pot_state` is a running
total that `verify` derives again from the entries. Numbers are "p/q" text: no float reaches a table.
"""

from __future__ import annotations

from sqlalchemy import Column, Index, Integer, LargeBinary, MetaData, Table, Text

APPLICATION_ID = 0x64746872  # "dthr" in the SQLite header
SCHEMA_VERSION = 1

# every kind of entry, and all that its body holds: no time but the release's, nothing counted or measured on data
BODIES = {
    "open": {"pot", "rule", "cap", "ceiling", "neighbours", "unit", "question", "population", "recipient"},
    "raise": {"pot", "cap", "reason"},
    "register": {"version", "catalog_hash", "public"},
    "reserve": {"pot", "charge", "loss", "request_hash", "public"},
    "commit": {"reserve", "commitment", "released_at"},
    "incident": {"reserve", "code"},
    "clear": {"reason"},
}

metadata = MetaData()

entry = Table(
    "entry",
    metadata,
    Column("seq", Integer, primary_key=True, autoincrement=False),
    Column("kind", Text, nullable=False),
    Column("body_json", Text, nullable=False),
    Column("prev_hash", Text, nullable=False),
    Column("hash", Text, nullable=False),
)
# opens, incidents and registrations are few among many reserves: without it each reading would walk the whole chain
Index("entry_kind", entry.c.kind)

release = Table(
    "release",
    metadata,
    Column("seq", Integer, primary_key=True, autoincrement=False),
    Column("nonce", LargeBinary, nullable=False),
    Column("arrow_bytes", LargeBinary, nullable=False),
    Column("meta_json", Text, nullable=False),
)

pot_state = Table(
    "pot_state",
    metadata,
    Column("pot", Text, primary_key=True),
    Column("spent", Text, nullable=False),
    Column("cap", Text, nullable=False),
    Column("ceiling", Text, nullable=False),
)
