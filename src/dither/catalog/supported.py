"""What the format can say and this version of dither cannot yet do, refused by name.

A list that later work deletes lines from. Nothing here is about privacy rules (`check.py` has those): a catalog that is
refused here is right, and early.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from dither.catalog.columns import Category, FromPublic, Undeclared
from dither.catalog.model import Catalog, OwnerReference
from dither.errors import CatalogError

Finding = tuple[str, int]


def refuse_unsupported(catalog: Catalog) -> None:
    """Raise CatalogError at the first thing in the catalog that is not supported yet."""
    for find, remedy in _NOT_YET:
        for thing, line in find(catalog):
            raise CatalogError(f"{thing} is not supported yet: {remedy}", file=catalog.file, line=line)


def _engines(catalog: Catalog) -> Iterator[Finding]:
    if catalog.source.engine != "csv":
        yield f"source engine {catalog.source.engine}", catalog.source.line


def _units(catalog: Catalog) -> Iterator[Finding]:
    if catalog.unit.kind != "person":
        yield f"unit kind {catalog.unit.kind}", catalog.unit.line


def _neighbours(catalog: Catalog) -> Iterator[Finding]:
    if catalog.neighbours != "add_remove":
        yield f"neighbours {catalog.neighbours}", catalog.neighbours_line


def _public_tables(catalog: Catalog) -> Iterator[Finding]:
    return ((f"public table {table.name}", table.line) for table in catalog.tables if table.kind == "public")


def _owner_paths(catalog: Catalog) -> Iterator[Finding]:
    for table in catalog.private_tables:
        if isinstance(table.owner, OwnerReference):
            yield f"table {table.name}: an owner in another table ({table.owner.references})", table.owner.line


def _several_tables(catalog: Catalog) -> Iterator[Finding]:
    return ((f"a second private table ({table.name})", table.line) for table in catalog.private_tables[1:])


def _column_types(catalog: Catalog) -> Iterator[Finding]:
    for table in catalog.tables:
        for column in table.columns:
            if column.type in ("timestamp", "text"):
                yield f"column {table.name}.{column.name}: type {column.type}", column.line


def _category_values(catalog: Catalog) -> Iterator[Finding]:
    for table in catalog.tables:
        for column in table.columns:
            if isinstance(column, Category) and isinstance(column.values, FromPublic):
                yield f"column {table.name}.{column.name}: values from a public table", column.line
            if isinstance(column, Category) and isinstance(column.values, Undeclared):
                yield f"column {table.name}.{column.name}: undeclared values", column.line


_NOT_YET: tuple[tuple[Callable[[Catalog], Iterator[Finding]], str], ...] = (
    (_engines, "save the table as CSV and use engine: csv"),
    (_units, "use unit: {kind: person}"),
    (_neighbours, "use neighbours: add_remove"),
    (_public_tables, "leave public tables out"),
    (_owner_paths, "add the owner's column to this table at the source and use owner: {column: ...}"),
    (_several_tables, "register one private table per catalog"),
    (_column_types, "leave the column out; id, integer, decimal, boolean, date and category work"),
    (_category_values, "list the values here, as in values: [a, b]"),
)
