"""Owners: whom a row belongs to, resolved at registration and never again.

A row has its own owner column, or the owner of the one row of another table that shares its key (foreign-key paths).
A key of the parent that resolves to two owners stops registration: otherwise one person could claim, or delete, the
rows of another (privacy-rules 8). Under (person, window) units the owner is the pair (privacy-rules 10).
"""

from __future__ import annotations

import duckdb

from dither.catalog import Catalog, Date, OwnerColumn, OwnerReference, Table, Timestamp, Unit
from dither.data.engines.duckdb import name
from dither.errors import DitherError


class RegistrationError(DitherError):
    """Registration stopped; the message is for the steward only, the version in use stays in use."""


def map_name(parent: Table, by: str) -> str:
    """The temporary table from a parent's key to its owner."""
    return name(f"dither_owners_{parent.name}_{by}")


def owner_sql(catalog: Catalog, table: Table) -> tuple[str, str]:
    """SQL: the owner of a raw row `raw`, and the join that finds it."""
    owner = table.owner
    if isinstance(owner, OwnerColumn):
        return f"raw.{name(owner.column)}", ""
    if isinstance(owner, OwnerReference):
        parent = catalog.table(owner.references)
        found = map_name(parent, owner.by)
        return "parent.owner", f" LEFT JOIN {found} AS parent ON raw.{name(owner.by)} = parent.key"
    return "''", ""  # rows stand for themselves: limits.py names them by content


def build_map(connection: duckdb.DuckDBPyConnection, catalog: Catalog, parent: Table, by: str, rows: str) -> None:
    """Key -> owner over all raw rows of the parent that have both."""
    owner, join = owner_sql(catalog, parent)
    found = map_name(parent, by)
    connection.execute(
        f"CREATE TEMP TABLE {found} AS SELECT raw.{name(by)} AS key, min({owner}) AS owner, "
        f"max({owner}) AS other FROM {rows} AS raw{join} "
        f"WHERE raw.{name(by)} IS NOT NULL AND {owner} IS NOT NULL GROUP BY 1"
    )
    two = connection.execute(f"SELECT count(*) FROM {found} WHERE owner <> other").fetchone()
    if two is not None and two[0]:
        raise RegistrationError(
            f"{parent.name}: {two[0]} values of {by} belong to two owners, so rows that refer to them would too. "
            "Nothing was registered: repair the source, or make the key include the owner"
        )


def window_sql(unit: Unit, table: Table, value: str) -> str:
    """SQL: the number of the window that a registered date or timestamp lies in."""
    assert unit.column is not None
    column = table.column(unit.column)
    assert isinstance(column, (Date, Timestamp))
    days = value
    if isinstance(column, Timestamp):
        local = f"(CAST({value} AS BIGINT) + ({unit.offset_seconds or 0}))"
        days = f"({local} // 86400 - CASE WHEN {local} % 86400 < 0 THEN 1 ELSE 0 END)"
    days = f"CAST({days} AS INTEGER)"
    date = f"(DATE '1970-01-01' + {days})"
    match unit.every:
        case "day":
            return days
        case "week":  # of Mondays: 1970-01-01 was a Thursday
            return f"(({days} + 3) - (({days} + 3) % 7 + 7) % 7) // 7"
        case "month":
            return f"year({date}) * 12 + month({date}) - 1"
    return f"year({date})"
