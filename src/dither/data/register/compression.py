"""State how the columns of a registered copy are compressed: by the catalog, not by their rows.

Left to itself the engine tries every compression on every block and keeps the smallest. That takes
a quarter of a registration, and how a block is read then depends on its rows. (A block of one value
throughout is always stored as that value.)
"""

from __future__ import annotations

from dither.catalog import Table
from dither.data.lower.columns import HASH_A, HASH_B, RANK, UNIT
from dither.data.quoting import name

_OWNER_COLUMNS = (UNIT, RANK, HASH_A, HASH_B)
_NARROW = ("TINYINT", "SMALLINT", "INTEGER")


def create_copy_table(table: Table, columns: list[tuple[str, str]], *, has_runs: bool) -> str:
    """Write SQL that makes the empty table of a copy; `columns` are their names and types.

    `has_runs` says that the rows of an owner lie side by side.
    """
    described = ", ".join(
        f"{name(column)} {kind}{_compress(column, kind, has_runs=has_runs)}"
        for column, kind in columns
    )
    return f"CREATE TABLE {name(table.name)} ({described})"


def _compress(column: str, kind: str, *, has_runs: bool) -> str:
    if column in _OWNER_COLUMNS and has_runs:
        return " USING COMPRESSION rle"
    return " USING COMPRESSION uncompressed" if kind in _NARROW else ""
