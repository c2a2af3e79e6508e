"""A copy of a ledger, all of it at one moment: for backups, and back again.

Rows are copied as they are, from SQLite or PostgreSQL into an empty ledger of either. The head is
no part of a copy: it must tell afterwards whether the copy is the newest one.
"""

from __future__ import annotations

from dither.privacy.ledger import tables
from dither.privacy.ledger.create import create_schema
from dither.privacy.ledger.location import Location, database_at


def copy_ledger(source: Location, target: Location) -> int:
    """Copy all tables into a new ledger; how many entries there were."""
    origin = database_at(source)
    copy = database_at(target)
    entries = 0
    try:
        create_schema(copy)
        with (
            origin.transaction(write=False) as reading,
            copy.transaction(write=True) as writing,
        ):
            for table in tables.TABLES:
                for row in reading.stream(table.selection):
                    writing.run(table.insertion, dict(zip(table.columns, row, strict=True)))
                    entries += table is tables.ENTRY
    finally:
        origin.close()
        copy.close()
    return entries
