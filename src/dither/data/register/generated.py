"""A table for rehearsals, generated from the catalog alone: same schema, same limits, nobody in it.

Invented rows in the declared domains go through registration like any others. Nothing is read but the catalog and the
facts of public tables, so what a rehearsal shows is the same whatever the registered data is
(rule rehearsals-read-no-data).
"""

from __future__ import annotations

import csv
import hashlib
import tempfile
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import TypeAlias

from dither.catalog import (
    Boolean,
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
    Source,
    Table,
    Text,
    Timestamp,
    Undeclared,
)
from dither.catalog.scalars import days_text, seconds_text
from dither.data.register.public import public_order
from dither.data.register.registration import write_copy_and_facts
from dither.errors import DitherError
from dither.plan.facts import Facts

PEOPLE, PUBLIC_ROWS = 1000, 20
OUTSIDE = "something outside the list"
Row: TypeAlias = dict[str, str]


def write_generated(catalog: Catalog, facts: Facts, target: Path) -> None:
    """The prepared copy of a generated database, in the schema of the registered one."""
    with tempfile.TemporaryDirectory(prefix="dither-dry-run-") as folder:
        place = Path(folder)
        (place / "spill").mkdir()
        tables = tuple(replace(table, source_name=f"{table.name}.csv") for table in catalog.tables)
        changed = replace(catalog, source=Source("csv", "."), tables=tables)
        made: dict[str, list[Row]] = {}
        for table in [*public_order(changed), *_from_the_owners_out(changed)]:
            made[table.name] = _public(table, facts) if table.kind == "public" else _private(table, facts, made)
            _write(place / table.source_name, table, made[table.name])
        _, found = write_copy_and_facts(changed, place, bytes(32), target, place / "spill", lambda _: None)
        if found.lists != facts.lists:
            raise DitherError("no rehearsal: the labels of a public table could not be generated")


def _from_the_owners_out(catalog: Catalog) -> list[Table]:
    return sorted(catalog.private_tables, key=lambda table: len(catalog.owner_path(table)))


def _public(table: Table, facts: Facts) -> list[Row]:
    """One row for each label that others use, or a few rows; unique columns count up."""
    listed = {column: labels for name, column, labels in facts.lists if name == table.name}
    count = max([PUBLIC_ROWS if not listed else 0, *map(len, listed.values())])
    unique = {key[0] for key in table.unique if len(key) == 1}
    rows = []
    for row in range(count):
        made = {column.name: _value(table, column, row, facts, unique) for column in table.columns}
        rows.append(made | {column: labels[row % len(labels)] for column, labels in listed.items()})
    for key in table.unique:  # a key of few values has few rows
        rows = list({tuple(row[part] for part in key): row for row in reversed(rows)}.values())[::-1]
    return rows


def _private(table: Table, facts: Facts, made: dict[str, list[Row]]) -> list[Row]:
    """One to `rows_per_unit` rows for each person, or one to three for each row of the parent."""
    rows: list[Row] = []
    most = min(table.rows_per_unit or 1, 3)
    for parent in range(len(_parents(table, made))):
        for _ in range(1 + _pick(f"{table.name}/rows/{parent}", most)):
            if len(rows) >= (table.max_rows or 0):
                return rows
            place = len(rows)
            row = {column.name: _value(table, column, place, facts, set()) for column in table.columns}
            if isinstance(table.owner, OwnerColumn):
                row[table.owner.column] = f"person-{parent}"
            elif isinstance(table.owner, OwnerReference):
                above = made[table.owner.references][parent]
                row |= {mine: above[theirs] for mine, theirs in table.owner.by}
            rows.append(row)
    return rows


def _parents(table: Table, made: dict[str, list[Row]]) -> list[Row]:
    return made[table.owner.references] if isinstance(table.owner, OwnerReference) else [{}] * PEOPLE


def _pick(what: str, below: int) -> int:
    """A number below `below`, by a hash of its name: the same for every dataset with this catalog."""
    return int.from_bytes(hashlib.sha256(what.encode()).digest()[:8]) % below


def _value(table: Table, column: Column, row: int, facts: Facts, unique: set[str]) -> str:
    name = f"{table.name}/{column.name}/{row}"
    if isinstance(column, Id):
        return f"{column.name}-{row}"
    if column.nulls.rule == "keep" and column.name not in unique and _pick(f"{name}/null", 20) == 0:
        return ""
    if isinstance(column, Category):
        labels = _labels(column, facts) or (OUTSIDE,)  # an empty list of a public table: nobody has a label
        return labels[(row if column.name in unique else _pick(name, len(labels))) % len(labels)]
    if isinstance(column, Text):
        return (str(row) if column.name in unique else f"text {_pick(name, 50)}")[: column.width]
    span = column.upper_grid - column.lower_grid + 1
    place = column.lower_grid + (row % span if column.name in unique else _pick(name, span))
    return _SHOWN[type(column)](column, place)


def _labels(column: Category, facts: Facts) -> tuple[str, ...]:
    if isinstance(column.values, Undeclared):
        return tuple(f"label {letter}"[-column.values.width :] for letter in "abcde")
    outside = (OUTSIDE,) if column.other == "keep" else ()
    if isinstance(column.values, FromPublic):
        return facts.labels(column.values.table, column.values.column) + outside
    return column.values + outside


def _decimal(column: Column, place: int) -> str:
    """The grid integer in the column's own units, exactly: the resolution is a power of ten or a whole number."""
    assert isinstance(column, Decimal)
    value = place * column.resolution
    places = len(str(column.multiplier)) - 1
    scaled = abs(int(value * Fraction(10) ** places))
    digits = str(scaled).rjust(places + 1, "0")
    text = f"{digits[: len(digits) - places]}.{digits[len(digits) - places :]}" if places else digits
    return f"-{text}" if value < 0 else text


def _timestamp(column: Column, place: int) -> str:
    assert isinstance(column, Timestamp)
    return seconds_text(place, column.offset_seconds)


_SHOWN: dict[type, Callable[[Column, int], str]] = {
    Integer: lambda _, place: str(place),
    Decimal: _decimal,
    Boolean: lambda _, place: "true" if place else "false",
    Date: lambda _, place: days_text(place),
    Timestamp: _timestamp,
}


def _write(file: Path, table: Table, rows: list[Row]) -> None:
    with file.open("w", newline="", encoding="utf-8") as opened:
        writer = csv.DictWriter(opened, table.column_names, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
