"""The five tables of a ledger (docs/reference/ledger.md).

`entry` is the truth: append-only and hash-chained. `release` holds what was answered, one row per
committed reserve and keyed by that reserve's `seq`, so that the primary key itself forbids a second
commit. `pot_state` (running totals) and `share` (who paid later for a stored release) are readings
that `verify` derives again from the entries; `pending` names the process that holds a reserve until
its commit. Numbers are "p/q" text: no float reaches a table.
"""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Index, Integer, LargeBinary, MetaData, Table, Text

APPLICATION_ID = 0x64746872  # "dthr" in the SQLite header
SCHEMA_VERSION = 2

# every kind of entry, and all that its body holds beside `totals` (the digest of all running totals
# after the entry, missing in ledgers of the first version) and `epoch` (missing before the first
# takeover): no time but the release's, nothing counted or measured on data
BODIES = {
    "open": {
        *(
            "pot",
            "kind",
            "inside",
            "rule",
            "cap",
            "ceiling",
            "reissue",
            "neighbours",
            "unit",
            "question",
        ),
        *(
            "population",
            "recipient",
            "policy",
            "max_incidents",
            "relations",
            "column",
            "value",
            "version",
        ),
    },
    "raise": {"pot", "cap", "reason"},
    "register": {"version", "catalog_hash", "public"},
    "reserve": {"pots", "charges", "loss", "request_hash", "public", "reissue", "lease"},
    "commit": {"reserve", "commitment", "released_at"},
    "share": {"release", "pots", "charges", "released_at"},
    "incident": {"reserve", "code"},
    "clear": {"reason"},
    "recount": {"pots"},
    "miss": {"number"},
    "takeover": {"curator", "heads"},
    "lost": {"first", "last", "heads"},
}

metadata = MetaData()
_SEQ = Integer().with_variant(BigInteger(), "postgresql")

entry = Table(
    "entry",
    metadata,
    Column("seq", _SEQ, primary_key=True, autoincrement=False),
    Column("kind", Text, nullable=False),
    Column("body_json", Text, nullable=False),
    Column("prev_hash", Text, nullable=False),
    Column("hash", Text, nullable=False),
)
# opens, incidents and registrations are few among many reserves: without it each reading would walk
# the whole chain
Index("entry_kind", entry.c.kind, entry.c.seq)

release = Table(
    "release",
    metadata,
    Column("seq", _SEQ, primary_key=True, autoincrement=False),
    Column("request_hash", Text, nullable=False),
    Column("commit_seq", _SEQ, nullable=False),
    Column("nonce", LargeBinary, nullable=False),
    Column("arrow_bytes", LargeBinary, nullable=False),
    Column("meta_json", Text, nullable=False),
)
Index("release_request", release.c.request_hash, release.c.seq)

share = Table(
    "share",
    metadata,
    Column("release", _SEQ, primary_key=True, autoincrement=False),
    Column("pot", Text, primary_key=True),
)

pending = Table(
    "pending",
    metadata,
    Column("seq", _SEQ, primary_key=True, autoincrement=False),
    Column("holder", Text, nullable=False),
)

pot_state = Table(
    "pot_state",
    metadata,
    Column("pot", Text, primary_key=True),
    Column("spent", Text, nullable=False),
    Column("delta_spent", Text, nullable=False),
    Column("reissued", Text, nullable=False),
    Column("cap", Text, nullable=False),
)
