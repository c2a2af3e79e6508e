"""The five tables of a ledger (docs/reference/ledger.md).

`entry` is the truth: append-only and hash-chained. `release` holds what was answered, one row per
committed reserve and keyed by that reserve's `seq`, so that the primary key itself forbids a second
commit. `pot_state` (running totals) and `share` (who paid later for a stored release) are readings
that `verify` derives again from the entries; `pending` names the process that holds a reserve until
its commit. Numbers are "p/q" text: no float reaches a table.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

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

Type = Literal["number", "text", "bytes"]


@dataclass(frozen=True)
class StoredTable:
    """Columns with their types, the primary key, and the columns of an index beside it.

    No column may be null.
    """

    name: str
    columns: dict[str, Type]
    key: tuple[str, ...]
    index: tuple[str, tuple[str, ...]] | None = None

    @cached_property
    def selection(self) -> str:
        """Write the query for all columns of all rows; conditions may follow it."""
        return f"SELECT {', '.join(self.columns)} FROM {self.name}"

    @cached_property
    def insertion(self) -> str:
        """Write the statement that inserts one row, with a parameter for each column."""
        values = ", ".join(f":{name}" for name in self.columns)
        return f"INSERT INTO {self.name} ({', '.join(self.columns)}) VALUES ({values})"


ENTRY = StoredTable(
    "entry",
    {"seq": "number", "kind": "text", "body_json": "text", "prev_hash": "text", "hash": "text"},
    key=("seq",),
    # opens, incidents and registrations are few among many reserves: without it each reading would
    # walk the whole chain
    index=("entry_kind", ("kind", "seq")),
)
PENDING = StoredTable("pending", {"seq": "number", "holder": "text"}, key=("seq",))
POT_STATE = StoredTable(
    "pot_state",
    {"pot": "text", "spent": "text", "delta_spent": "text", "reissued": "text", "cap": "text"},
    key=("pot",),
)
RELEASE = StoredTable(
    "release",
    {
        "seq": "number",
        "request_hash": "text",
        "commit_seq": "number",
        "nonce": "bytes",
        "arrow_bytes": "bytes",
        "meta_json": "text",
    },
    key=("seq",),
    index=("release_request", ("request_hash", "seq")),
)
SHARE = StoredTable("share", {"release": "number", "pot": "text"}, key=("release", "pot"))
TABLES = (ENTRY, PENDING, POT_STATE, RELEASE, SHARE)
