"""The naive evaluator: what registration and plans mean, on Python lists, slowly and plainly.

The oracle of the tests. It starts from raw rows (texts, before registration), works in Fractions,
and shares nothing with the engine's path but the plan's and the catalog's words. This file
registers; `naive_plans` evaluates plans.
"""

from __future__ import annotations

import datetime
import hashlib
import math
import re
from collections import defaultdict
from dataclasses import replace
from typing import Any

from dither.audit.naive_plans import NaiveDatabase, evaluate, grouped
from dither.audit.naive_plans import rows as naive_rows
from dither.catalog import (
    Boolean,
    Bounded,
    Catalog,
    Category,
    Column,
    Date,
    Decimal,
    FromPublic,
    Id,
    Integer,
    OwnerColumn,
    OwnerReference,
    Table,
    Text,
    Timestamp,
    Undeclared,
)

__all__ = [
    "NaiveDatabase",
    "evaluate",
    "grouped",
    "naive_rows",
    "register",
    "registered",
    "repair",
    "with_sample",
]

Raw = dict[str, str | None]
Row = dict[str, Any]
Lists = dict[tuple[str, str], tuple[str, ...]]
_GONE = object()


def register(raws: dict[str, list[Raw]], catalog: Catalog, key: bytes) -> NaiveDatabase:
    """Register all tables of a catalog, public ones first."""
    tables: dict[str, list[Row]] = {}
    lists: Lists = {}
    for table in sorted(catalog.tables, key=lambda t: (t.kind == "private", _borrows_labels(t))):
        if table.kind == "public":
            kept = [_repair_row(raw, table.columns, lists) for raw in raws[table.name]]
            tables[table.name] = [row for row in kept if _GONE not in row.values()]
            for column in table.columns:
                if isinstance(column, Text):
                    labels = {row[column.name] for row in tables[table.name]} - {None}
                    lists[table.name, column.name] = tuple(sorted(labels))
                elif isinstance(column, Category) and isinstance(column.values, tuple):
                    lists[table.name, column.name] = column.values
        else:
            owners = [owner_of(raw, table, catalog, raws) for raw in raws[table.name]]
            tables[table.name] = _register_private(
                raws[table.name], owners, table, catalog, key, lists
            )
    return NaiveDatabase(catalog, tables, lists, key)


def with_sample(database: NaiveDatabase, sample_key: bytes) -> NaiveDatabase:
    """The database as a release with that sampling key sees it."""
    return replace(database, sample_key=sample_key)


def _borrows_labels(table: Table) -> bool:
    return any(isinstance(c, Category) and isinstance(c.values, FromPublic) for c in table.columns)


def owner_of(raw: Raw, table: Table, catalog: Catalog, raws: dict[str, list[Raw]]) -> str | None:
    """Find the person a raw row belongs to, along the path of foreign keys; None where it has
    none."""
    if isinstance(table.owner, OwnerColumn):
        return raw[table.owner.column] or None
    if isinstance(table.owner, OwnerReference):
        parent = catalog.table(table.owner.references)
        by = table.owner.by
        if all(raw[column] for column, _ in by):
            for above in raws[parent.name]:
                meets = all(raw[column] == above[parent_column] for column, parent_column in by)
                owner = owner_of(above, parent, catalog, raws) if meets else None
                if owner and _same_window(raw, table, above, parent, catalog):
                    return owner
        return None
    return ""


def _same_window(raw: Raw, table: Table, above: Raw, parent: Table, catalog: Catalog) -> bool:
    """Whether a row and its parent row lie in the same window; without windows always."""
    column = catalog.unit.column
    if column is None:
        return True
    times = [
        repair(row[column] or None, owner_table.column(column))
        for row, owner_table in ((raw, table), (above, parent))
    ]
    if _GONE in times:
        return False
    return _window(times[0], table, catalog) == _window(times[1], parent, catalog)


def registered(
    rows: list[Raw], table: Table, key: bytes, catalog: Catalog | None = None
) -> list[Row]:
    """The rows of a table with an owner column that registration keeps, each with its `owner`, in
    no order."""
    assert isinstance(table.owner, OwnerColumn)
    return _register_private(
        rows, [raw[table.owner.column] or None for raw in rows], table, catalog, key, {}
    )


def _register_private(
    raws: list[Raw],
    owners: list[str | None],
    table: Table,
    catalog: Catalog | None,
    key: bytes,
    lists: Lists,
) -> list[Row]:
    """Repair the rows of a private table, then keep those that its limits allow.

    `owners` has the owner of each raw row, None if it has none. Rows of one owner are ranked by
    a keyed hash; of rows that agree in unique columns the first stays, then at most
    rows_per_unit. If the unit is a row, every row is an owner of its own.
    """
    owner_column = catalog.owner_column(table) if catalog else getattr(table.owner, "column", None)
    columns = tuple(column for column in table.columns if column.name != owner_column)
    owned: dict[str, list[Row]] = defaultdict(list)
    for raw, owner in zip(raws, owners, strict=True):
        row = _repair_row(raw, columns, lists)
        if owner is None or _GONE in row.values():
            continue
        if catalog and catalog.unit.column:
            owner = f"{_window(row[catalog.unit.column], table, catalog)}:{owner}"
        owned[owner].append(row)
    if catalog and catalog.unit.kind == "row":
        named = f"{len(table.name.encode())}:{table.name}"
        ranked_rows = _rank_rows("", owned[""], key)
        return [
            {"owner": hashlib.sha256((named + digest).encode()).hexdigest(), **row}
            for digest, row in ranked_rows
        ]
    kept: list[Row] = []
    for owner, owner_rows in owned.items():
        ranked = [row for _, row in _rank_rows(owner, owner_rows, key)]
        for unique in table.unique:
            names = [name for name in unique if name != owner_column]
            first: dict[tuple[Any, ...], Row] = {}
            for row in ranked:
                first.setdefault(tuple(row[name] for name in names), row)
            ranked = list(first.values())
        kept += [{"owner": owner, **row} for row in ranked[: table.rows_per_unit]]
    return kept


def _rank_rows(owner: str, rows: list[Row], key: bytes) -> list[tuple[str, Row]]:
    """Order one owner's rows by the digest of (key, owner, content, ordinal among identical
    ones)."""
    copies: dict[tuple[Any, ...], int] = defaultdict(int)
    digests: list[tuple[str, int, Row]] = []
    for row in rows:
        content = tuple(row.values())
        copies[content] += 1
        fields = [key.hex(), owner, *content, copies[content]]
        text = "".join(
            "-" if field is None else f"{len(str(field).encode())}:{field}" for field in fields
        )
        digests.append((hashlib.sha256(text.encode()).hexdigest(), len(digests), row))
    return [(digest, row) for digest, _, row in sorted(digests, key=lambda entry: entry[:2])]


def _window(value: int, table: Table, catalog: Catalog) -> int:
    """Number the day, week, month or year that a value lies in, as the unit's window."""
    unit = catalog.unit
    column = table.column(catalog.unit.column or "")
    days = (
        (value + (unit.offset_seconds or 0)) // 86_400 if isinstance(column, Timestamp) else value
    )
    day = datetime.date(1970, 1, 1) + datetime.timedelta(days=days)
    month = day.year * 12 + day.month - 1
    return {"day": days, "week": (days + 3) // 7, "month": month, "year": day.year}[
        unit.every or "day"
    ]


def _repair_row(raw: Raw, columns: tuple[Column, ...], lists: Lists) -> Row:
    return {column.name: repair(raw[column.name] or None, column, lists) for column in columns}


def repair(raw: str | None, column: Column, lists: Lists | None = None) -> Any:
    """Turn a raw text into its registered value; `_GONE` if the row is dropped because of it."""
    if isinstance(column, Id):
        return raw
    if isinstance(column, Text) or (
        isinstance(column, Category) and isinstance(column.values, Undeclared)
    ):
        width = column.width if isinstance(column, Text) else column.values.width  # type: ignore[union-attr]
        return _repair_null(column, ()) if raw is None else raw[:width]
    if isinstance(column, Category):
        values = column.values
        labels = (
            (lists or {})[values.table, values.column] if isinstance(values, FromPublic) else values
        )
        assert isinstance(labels, tuple)
        if raw is None:
            return _repair_null(column, labels)
        if raw in labels:
            return labels.index(raw)
        return len(labels) if column.other == "keep" else _GONE
    value = None if raw is None else _read_grid_value(raw.strip(" "), column)
    if value is None:
        return _repair_null(column, ())
    assert isinstance(column, Bounded)
    return max(column.lower_grid, min(column.upper_grid, value))


def _repair_null(column: Any, labels: tuple[str, ...]) -> Any:
    """Apply the column's rule for nulls: drop the row, keep the null, or put in a value."""
    if column.nulls.rule == "drop":
        return _GONE
    if column.nulls.rule == "keep":
        return None
    return labels.index(column.nulls.value) if labels else column.nulls.value


def _read_grid_value(text: str, column: Column) -> int | None:
    """Read the grid integer that a text denotes, before the clamp on the grid.

    None if it is no value of the type.
    """
    if isinstance(column, Integer):
        return int(text.split(".")[0]) if re.fullmatch(r"[+-]?[0-9]{1,30}(\.0*)?", text) else None
    if isinstance(column, Boolean):
        words = {
            "true": 1,
            "t": 1,
            "yes": 1,
            "y": 1,
            "1": 1,
            "false": 0,
            "f": 0,
            "no": 0,
            "n": 0,
            "0": 0,
        }
        return words.get(text.lower()) if text.isascii() else None
    if isinstance(column, (Date, Timestamp)):
        return _read_time(text, column)
    assert isinstance(column, Decimal)
    if not re.fullmatch(
        r"[+-]?(([0-9]{1,400}(\.[0-9]{0,400})?|\.[0-9]{1,400})([eE][+-]?[0-9]{1,3})?|(?i:nan|inf|infinity))",
        text,
    ):
        return None
    number = float(text)
    if math.isnan(number):
        return None
    number = max(float(column.lower), min(float(column.upper), number))
    return math.floor(number * column.multiplier / column.divisor + 0.5)


def _read_time(text: str, column: Date | Timestamp) -> int | None:
    """Read a text as days (date) or seconds (timestamp) since 1970, or None if it is neither.

    A time without a zone is in the zone that the column declares.
    """
    date_match = re.fullmatch(r"([0-9]{4}-[0-9]{2}-[0-9]{2})([ T][0-9:.,Z +-]{0,40})?", text)
    try:
        days = (
            (datetime.date.fromisoformat(date_match[1]) - datetime.date(1970, 1, 1)).days
            if date_match
            else None
        )
    except ValueError:
        return None
    if date_match is None or days is None:
        return None
    if isinstance(column, Date):
        return None if " " in (date_match[2] or "")[1:] else days
    if date_match[2] is None:
        return days * 86_400 - column.offset_seconds
    clock = re.fullmatch(
        r"([01][0-9]|2[0-3]):([0-5][0-9])(?::([0-5][0-9])(?:\.[0-9]{0,9})?)? ?"
        r"(Z|[+-](?:0[0-9]|1[0-4])(?::?[0-5][0-9])?)?",
        date_match[2][1:],
    )
    if clock is None:
        return None
    seconds = days * 86_400 + int(clock[1]) * 3600 + int(clock[2]) * 60 + int(clock[3] or 0)
    zone = (clock[4] or "").replace(":", "")
    if not zone:
        return seconds - column.offset_seconds
    east = 0 if zone == "Z" else int(zone[1:3]) * 3600 + int(zone[3:5] or 0) * 60
    return seconds + east if zone[0] == "-" else seconds - east
