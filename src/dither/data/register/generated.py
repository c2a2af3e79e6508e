"""A table for rehearsals, generated from the catalog alone: same schema, same limits, nobody in it.

Invented rows in the declared domains go through registration like any others. Nothing is read but
the catalog and the facts of public tables, so what a rehearsal shows is the same whatever the
registered data is (rule rehearsals-read-no-data).
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
from dither.catalog.scalar_texts import write_days, write_seconds
from dither.data.register.public import public_order
from dither.data.register.registration import write_copy_and_facts
from dither.errors import DitherError
from dither.plan.facts import Facts

PEOPLE = 1000
PUBLIC_ROWS = 20
OUTSIDE = "something outside the list"
Row: TypeAlias = dict[str, str]


def write_generated(catalog: Catalog, facts: Facts, target: Path) -> None:
    """Write the prepared copy of an invented database, in the schema of the registered one.

    Raises DitherError where the labels of a public table cannot be invented.
    """
    with tempfile.TemporaryDirectory(prefix="dither-dry-run-") as folder:
        workspace = Path(folder)
        (workspace / "spill").mkdir()
        tables = tuple(_name_plainly(table) for table in catalog.tables)
        changed = replace(catalog, source=Source("csv", "."), tables=tables)
        rows_by_table: dict[str, list[Row]] = {}
        for table in [*public_order(changed), *_from_the_owners_out(changed)]:
            rows_by_table[table.name] = (
                _generate_public(table, facts)
                if table.kind == "public"
                else _generate_private(table, facts, rows_by_table)
            )
            _write(workspace / table.source_name, table, rows_by_table[table.name])
        _, written_facts = write_copy_and_facts(
            changed, workspace, bytes(32), target, workspace / "spill", lambda _: None
        )
        if written_facts.lists != facts.lists:
            raise DitherError("no rehearsal: the labels of a public table could not be generated")


def _name_plainly(table: Table) -> Table:
    """The table as it is invented: a CSV file of its name, with the names of the catalog."""
    return replace(table, source_name=f"{table.name}.csv", source_columns=())


def _from_the_owners_out(catalog: Catalog) -> list[Table]:
    return sorted(catalog.private_tables, key=lambda table: len(catalog.owner_path(table)))


def _generate_public(table: Table, facts: Facts) -> list[Row]:
    """Invent one row for each label that others use, or a few rows; unique columns count up."""
    all_lists = (*facts.lists, *facts.texts)
    listed = {column: labels for name, column, labels in all_lists if name == table.name}
    count = max([PUBLIC_ROWS if not listed else 0, *map(len, listed.values())])
    unique = {key[0] for key in table.unique if len(key) == 1}
    rows = []
    for row in range(count):
        values = {
            column.name: _generate_value(table, column, row, facts, unique)
            for column in table.columns
        }
        rows.append(
            values | {column: labels[row % len(labels)] for column, labels in listed.items()}
        )
    for key in table.unique:  # a key of few values has few rows
        rows = list({tuple(row[column] for column in key): row for row in reversed(rows)}.values())[
            ::-1
        ]
    return rows


def _generate_private(table: Table, facts: Facts, rows_by_table: dict[str, list[Row]]) -> list[Row]:
    """Invent one to `rows_per_unit` rows for each person, or one to three for each row of the
    parent."""
    rows: list[Row] = []
    most_rows = min(table.rows_per_unit or 1, 3)
    for parent in range(len(_list_parents(table, rows_by_table))):
        for _ in range(1 + _pick(f"{table.name}/rows/{parent}", most_rows)):
            if len(rows) >= (table.max_rows or 0):
                return rows
            row_number = len(rows)
            row = {
                column.name: _generate_value(table, column, row_number, facts, set())
                for column in table.columns
            }
            if isinstance(table.owner, OwnerColumn):
                row[table.owner.column] = f"person-{parent}"
            elif isinstance(table.owner, OwnerReference):
                above = rows_by_table[table.owner.references][parent]
                row |= {
                    child_column: above[parent_column]
                    for child_column, parent_column in table.owner.by
                }
            rows.append(row)
    return rows


def _list_parents(table: Table, rows_by_table: dict[str, list[Row]]) -> list[Row]:
    """List the rows that own the rows of this table; an empty one for each person without a
    parent."""
    return (
        rows_by_table[table.owner.references]
        if isinstance(table.owner, OwnerReference)
        else [{}] * PEOPLE
    )


def _pick(what: str, below: int) -> int:
    """A number below `below`, by a hash of its name.

    The same for every dataset with this catalog.
    """
    return int.from_bytes(hashlib.sha256(what.encode()).digest()[:8]) % below


def _generate_value(table: Table, column: Column, row: int, facts: Facts, unique: set[str]) -> str:
    """Invent the text of one cell: by the row's number where values are unique, else by a hash."""
    name = f"{table.name}/{column.name}/{row}"
    if isinstance(column, Id):
        return f"{column.name}-{row}"
    if column.nulls.rule == "keep" and column.name not in unique and _pick(f"{name}/null", 20) == 0:
        return ""
    if isinstance(column, Category):
        # An empty list of a public table: nobody has a label.
        labels = _list_labels(column, facts) or (OUTSIDE,)
        return labels[(row if column.name in unique else _pick(name, len(labels))) % len(labels)]
    if isinstance(column, Text):
        return (str(row) if column.name in unique else f"text {_pick(name, 50)}")[: column.width]
    span = column.upper_grid - column.lower_grid + 1
    grid_value = column.lower_grid + (row % span if column.name in unique else _pick(name, span))
    return _SHOWN[type(column)](column, grid_value)


def _list_labels(column: Category, facts: Facts) -> tuple[str, ...]:
    """List the labels to invent values from; one outside the list where such are kept."""
    if isinstance(column.values, Undeclared):
        return tuple(f"label {letter}"[-column.values.width :] for letter in "abcde")
    outside = (OUTSIDE,) if column.other == "keep" else ()
    if isinstance(column.values, FromPublic):
        return facts.labels(column.values.table, column.values.column) + outside
    return column.values + outside


def _write_decimal(column: Column, grid_value: int) -> str:
    """Write the grid integer in the column's own units, exactly.

    The resolution is a power of ten or a whole number.
    """
    assert isinstance(column, Decimal)
    value = grid_value * column.resolution
    decimals = len(str(column.multiplier)) - 1
    scaled = abs(int(value * Fraction(10) ** decimals))
    digits = str(scaled).rjust(decimals + 1, "0")
    text = (
        f"{digits[: len(digits) - decimals]}.{digits[len(digits) - decimals :]}"
        if decimals
        else digits
    )
    return f"-{text}" if value < 0 else text


def _write_timestamp(column: Column, grid_value: int) -> str:
    assert isinstance(column, Timestamp)
    return write_seconds(grid_value, column.offset_seconds)


_SHOWN: dict[type, Callable[[Column, int], str]] = {
    Integer: lambda _, grid_value: str(grid_value),
    Decimal: _write_decimal,
    Boolean: lambda _, grid_value: "true" if grid_value else "false",
    Date: lambda _, grid_value: write_days(grid_value),
    Timestamp: _write_timestamp,
}


def _write(file: Path, table: Table, rows: list[Row]) -> None:
    with file.open("w", newline="", encoding="utf-8") as opened:
        writer = csv.DictWriter(opened, table.column_names, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
