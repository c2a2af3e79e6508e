"""Owners: whom a row belongs to, resolved at registration and never again.

A row has its own owner column, or the owner of the one row of another table that shares its key
(foreign-key paths). A key of the parent that resolves to two owners stops registration: otherwise
one person could claim, or delete, the rows of another (rule owners-never-meet). Under (person,
window) units the owner is the pair (rule every-window-pays).
"""

from __future__ import annotations

import duckdb

from dither.catalog import Catalog, Date, OwnerColumn, OwnerReference, Table, Timestamp, Unit
from dither.data.lower.dialect import dialect
from dither.data.lower.functions.sql import divide_floor
from dither.data.quoting import name
from dither.data.register.repair import parse_sql, repair_sql
from dither.errors import DitherError

WINDOW = "dither_window"
FIRST = "dither_first_owner"  # a key may be called owner
LAST = "dither_last_owner"


class RegistrationError(DitherError):
    """Registration stopped.

    The message is for the steward only, the version in use stays in use.
    """


def map_name(parent: Table, key: tuple[str, ...]) -> str:
    """The temporary table from a parent's key to its owner."""
    return name(".".join(["dither_owners", parent.name, *key]))


def key_of(owner: OwnerReference) -> tuple[str, ...]:
    """The parent's columns that a path refers to."""
    return tuple(parent_column for _, parent_column in owner.by)


def owner_sql(catalog: Catalog, table: Table) -> tuple[str, str]:
    """Write SQL of the owner of a raw row `raw`, and of the join that finds it."""
    owner = table.owner
    if isinstance(owner, OwnerColumn):
        return f"raw.{name(owner.column)}", ""
    if isinstance(owner, OwnerReference):
        met = [
            f"raw.{name(child_column)} = parent.{name(parent_column)}"
            for child_column, parent_column in owner.by
        ]
        met += [f"raw.{WINDOW} = parent.{WINDOW}"] if catalog.unit.column else []
        owner_map = map_name(catalog.table(owner.references), key_of(owner))
        return f"parent.{FIRST}", f" LEFT JOIN {owner_map} AS parent ON {' AND '.join(met)}"
    return "''", ""  # rows stand for themselves: limits.py names them by content


def make_owner_map(
    connection: duckdb.DuckDBPyConnection,
    catalog: Catalog,
    parent: Table,
    key: tuple[str, ...],
    rows: str,
) -> None:
    """Make a table from key to owner, over all raw rows of the parent that have both.

    Under windows it is within one window. Raises RegistrationError where a key has two owners.
    """
    owner_map = map_name(parent, key)
    connection.execute(
        f"CREATE TEMP TABLE {owner_map} AS {owner_map_sql(catalog, parent, key, rows)}"
    )
    ((two,),) = connection.execute(
        f"SELECT count(*) FROM {owner_map} WHERE {FIRST} <> {LAST}"
    ).fetchall()
    refuse_two_owners(parent, key, two)


def owner_map_sql(catalog: Catalog, parent: Table, key: tuple[str, ...], rows: str) -> str:
    """Write the SELECT of a parent's keys with the least and the largest owner of each."""
    owner, join = owner_sql(catalog, parent)
    columns = [*map(name, key), *([WINDOW] if catalog.unit.column else [])]
    present = " AND ".join(f"raw.{column} IS NOT NULL" for column in columns)
    shown = ", ".join(f"raw.{column}" for column in columns)
    return (
        f"SELECT {shown}, min({owner}) AS {FIRST}, max({owner}) AS {LAST} FROM "
        f"{add_window(catalog, parent, rows)} AS raw{join} WHERE {present} AND {owner} IS NOT NULL "
        f"GROUP BY {shown}"
    )


def refuse_two_owners(parent: Table, key: tuple[str, ...], keys: int) -> None:
    """Raise RegistrationError where some keys have two owners."""
    if keys:
        raise RegistrationError(
            f"{parent.name}: {keys} values of {', '.join(key)} belong to two owners, so rows "
            "that refer to them would too. Nothing was registered: repair the source, or make the "
            "key include the owner"
        )


def add_window(catalog: Catalog, table: Table, rows: str) -> str:
    """Write SQL of raw rows with the number of the window that each lies in, if the unit is one.

    A row finds its owner in a row of the same window only. Otherwise taking away one window of a
    person would take away the owners, hence the rows, of other windows (rule every-window-pays).
    """
    if catalog.unit.column is None:
        return rows
    column = table.column(catalog.unit.column)
    sql = f"SELECT *, {parse_sql(column)} AS dither_parsed FROM {rows}"
    sql = f"SELECT *, {repair_sql(column, 'dither_parsed')} AS dither_time FROM ({sql})"
    return f"(SELECT *, {window_sql(catalog.unit, table, 'dither_time')} AS {WINDOW} FROM ({sql}))"


def window_sql(unit: Unit, table: Table, value: str) -> str:
    """Write SQL of the number of the window that a registered date or timestamp lies in."""
    assert unit.column is not None
    column = table.column(unit.column)
    assert isinstance(column, (Date, Timestamp))
    days = value
    if isinstance(column, Timestamp):
        local = f"(CAST({value} AS BIGINT) + ({unit.offset_seconds or 0}))"
        days = divide_floor(local, "86400")
    days = f"CAST({days} AS INTEGER)"
    date = dialect().to_date(days)
    match unit.every:
        case "day":
            return days
        case "week":  # of Mondays: 1970-01-01 was a Thursday
            return dialect().divide(f"(({days} + 3) - (({days} + 3) % 7 + 7) % 7)", "7", 0)
        case "month":
            return f"year({date}) * 12 + month({date}) - 1"
    return f"year({date})"
