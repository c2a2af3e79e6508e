"""From the YAML that a person wrote to a Catalog, or a CatalogError with file and line.

>>> catalog = parse('''
... dither: 1
... dataset: clinic
... lineage: clinic
... population: county-residents
... neighbours: add_remove
... unit: {kind: person}
... people: {patient_id: {protected: true}}
... source: {engine: csv, location: data}
... tables:
...   patients:
...     kind: private
...     from: patients.csv
...     owner: {column: patient_id}
...     unique: [[patient_id]]
...     rows_per_unit: 1
...     max_rows: 200000
...     columns:
...       patient_id: {type: id}
...       age: {type: integer, bounds: [0, 110], nulls: drop, provenance: public life tables}
... ''')
>>> catalog.table("patients").column("age").upper_grid
110
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

from dither.catalog.file.check import check
from dither.catalog.file.fields import Fields, Where, did_you_mean
from dither.catalog.file.load_columns import read_column
from dither.catalog.file.tree import Entry, Mapping, Sequence, read_tree
from dither.catalog.model import (
    Catalog,
    Owner,
    OwnerColumn,
    OwnerReference,
    Person,
    Source,
    Table,
    Unit,
)
from dither.errors import CatalogError

FORMAT = "1"
NEIGHBOURS: tuple[Literal["add_remove", "replace"], ...] = ("add_remove", "replace")
UNITS: tuple[Literal["person", "row", "person_window"], ...] = ("person", "row", "person_window")
WINDOWS: tuple[Literal["day", "week", "month", "year"], ...] = ("day", "week", "month", "year")
ENGINES: tuple[Literal["csv", "parquet", "duckdb"], ...] = ("csv", "parquet", "duckdb")
KINDS: tuple[Literal["private", "public"], ...] = ("private", "public")


def load(path: str | os.PathLike[str]) -> Catalog:
    """The catalog in the file `path`."""
    file = os.fspath(path)
    try:
        text = Path(path).read_bytes().decode("utf-8")
    except OSError as error:
        raise CatalogError(f"the catalog cannot be read: {error.strerror}", file=file) from None
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise CatalogError(
            "the catalog is not UTF-8 text: save it as UTF-8", file=file, line=line
        ) from None
    return parse(text, file)


def parse(text: str, file: str = "<catalog>") -> Catalog:
    """The catalog that `text` describes; `file` is what messages call it."""
    return read_catalog(read_tree(text, file), file)


def read_catalog(root: Mapping, file: str) -> Catalog:
    """The catalog of a tree, every rule checked."""
    fields = Fields(Where(file, ""), root, 1, "catalog")
    if fields.text("dither") != FORMAT:
        raise fields.error(
            f"this dither reads catalog format {FORMAT}, got '{fields.text('dither')[:20]}'",
            "dither",
        )
    catalog = Catalog(
        dataset=fields.label("dataset"),
        lineage=fields.label("lineage"),
        population=fields.label("population"),
        neighbours=fields.choice("neighbours", NEIGHBOURS),
        unit=_read_unit(fields, file),
        people=_read_people(fields, file),
        source=_read_source(fields, file),
        tables=_read_tables(fields, file),
        file=file,
        neighbours_line=fields.line_of("neighbours"),
    )
    check(catalog)
    return catalog


def _read_unit(outer: Fields, file: str) -> Unit:
    line = outer.line_of("unit")
    fields = Fields(Where(file, "unit"), outer.node("unit"), line, "unit")
    kind = fields.choice("kind", UNITS)
    if kind != "person_window":
        for key in ("column", "every", "zone"):
            fields.forbid(key, f"windows belong to {{kind: person_window}}, and the kind is {kind}")
        return Unit(kind, line=line)
    return Unit(
        kind,
        fields.text("column"),
        fields.choice("every", WINDOWS),
        fields.offset("zone"),
        line=line,
    )


def _read_people(outer: Fields, file: str) -> tuple[Person, ...]:
    where = Where(file, "people")
    entries = where.entries(outer.node("people"), "people")
    where.check_names(entries, "key")
    return tuple(_read_person(entry, file) for entry in entries)


def _read_person(entry: Entry, file: str) -> Person:
    fields = Fields(Where(file, f"people: {entry.key}"), entry.node, entry.line, "person")
    if fields.boolean("protected"):
        fields.forbid("because", "it is the reason for protected: false")
        return Person(entry.key, True, line=entry.line)
    return Person(entry.key, False, fields.prose("because"), line=entry.line)


def _read_source(outer: Fields, file: str) -> Source:
    line = outer.line_of("source")
    fields = Fields(Where(file, "source"), outer.node("source"), line, "source")
    return Source(fields.choice("engine", ENGINES), fields.text("location"), line=line)


def _read_tables(outer: Fields, file: str) -> tuple[Table, ...]:
    where = Where(file, "")
    entries = where.entries(outer.node("tables"), "tables")
    where.check_names(entries, "table")
    return tuple(_read_table(entry, file) for entry in entries)


def _read_table(entry: Entry, file: str) -> Table:
    where = Where(file, f"table {entry.key}")
    fields = Fields(where, entry.node, entry.line, "table")
    kind = fields.choice("kind", KINDS)
    source_name = fields.text("from")
    if kind == "public":
        for key in ("owner", "rows_per_unit", "max_rows"):
            fields.forbid(
                key,
                "a public table has no owner and no limits; if it is about people, make it private",
            )
    owner = _read_owner(fields, file, entry.key) if "owner" in fields else None
    rows_per_unit = fields.count("rows_per_unit") if kind == "private" else None
    max_rows = fields.count("max_rows") if kind == "private" else None
    if rows_per_unit is not None and max_rows is not None and rows_per_unit > max_rows:
        raise fields.error(
            f"rows_per_unit {rows_per_unit} is above max_rows {max_rows}: lower it", "rows_per_unit"
        )
    columns = where.entries(fields.node("columns"), "columns")
    if not columns:
        raise fields.error("columns is empty: describe at least one", "columns")
    where.check_names(columns, "column")
    unique = _read_unique(fields, tuple(column.key for column in columns))
    described = tuple(read_column(column, entry.key, file) for column in columns)
    return Table(
        entry.key,
        kind,
        source_name,
        owner,
        unique,
        rows_per_unit,
        max_rows,
        described,
        line=entry.line,
    )


def _read_owner(outer: Fields, file: str, table: str) -> Owner:
    line = outer.line_of("owner")
    fields = Fields(Where(file, f"table {table}, owner"), outer.node("owner"), line, "owner")
    if "column" in fields:
        for key in ("references", "by"):
            fields.forbid(key, "write either {column: c} or {references: table, by: key}")
        return OwnerColumn(fields.text("column"), line=line)
    if "references" not in fields and "by" not in fields:
        raise fields.error("write {column: c} or {references: table, by: key}", "column")
    return OwnerReference(fields.text("references"), _read_reference(fields), line=line)


def _read_reference(fields: Fields) -> tuple[tuple[str, str], ...]:
    """One name that both tables have, or pairs {column here: column there}.

    Their order means nothing.
    """
    node = fields.node("by")
    where = fields.where
    if not isinstance(node, Mapping):
        return ((where.text(node, "by"),) * 2,)
    if not node.entries:
        raise where.error("by is empty: write {column here: column there}", node.line)
    pairs = tuple(sorted((entry.key, where.text(entry.node, "by")) for entry in node.entries))
    if len({parent_column for _, parent_column in pairs}) < len(pairs):
        raise where.error("by names a column of the other table twice: remove one", node.line)
    return pairs


def _read_unique(fields: Fields, names: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    where = fields.where
    keys = []
    for node in where.read_list(fields.node("unique"), "unique"):
        if not isinstance(node, Sequence) or not node.nodes:
            raise where.error(
                "unique must be a list of keys, each a list of columns, such as [[visit_id]]",
                node.line,
            )
        key = []
        for column in node.nodes:
            name = where.text(column, "unique")
            if name not in names:
                raise where.error(
                    f"unique names '{name}', which is not a column: {did_you_mean(name, names)}",
                    column.line,
                )
            if name in key:
                raise where.error(
                    f"unique names '{name}' twice in one key: remove one", column.line
                )
            key.append(name)
        if tuple(key) in keys:
            raise where.error(
                f"unique lists the key [{', '.join(key)}] twice: remove one", node.line
            )
        keys.append(tuple(key))
    return tuple(keys)
