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
import re
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from dither.catalog.file.check import check
from dither.catalog.file.fields import Fields, Where, did_you_mean
from dither.catalog.file.load_columns import read_column, read_source_name
from dither.catalog.file.load_rules import read_rules
from dither.catalog.file.problems import Problems
from dither.catalog.file.source_options import read_source
from dither.catalog.file.tree import Entry, Mapping, Sequence, read_tree
from dither.catalog.model import (
    Catalog,
    Owner,
    OwnerColumn,
    OwnerReference,
    Person,
    Table,
    Unit,
)
from dither.errors import CatalogError

FORMAT = "1"
NEIGHBOURS: tuple[Literal["add_remove", "replace"], ...] = ("add_remove", "replace")
UNITS: tuple[Literal["person", "row", "person_window"], ...] = ("person", "row", "person_window")
WINDOWS: tuple[Literal["day", "week", "month", "year"], ...] = ("day", "week", "month", "year")
KINDS: tuple[Literal["private", "public"], ...] = ("private", "public")


def load(path: str | os.PathLike[str]) -> Catalog:
    """The catalog in the file `path`."""
    return parse(_read_text(path), os.fspath(path))


def list_problems(path: str | os.PathLike[str]) -> tuple[CatalogError, ...]:
    """List everything that is wrong with the catalog in the file `path`, in the order of its
    lines."""
    return _list_problems(lambda: _read_text(path), os.fspath(path))


def list_text_problems(text: str) -> tuple[CatalogError, ...]:
    """List everything that is wrong with the catalog that `text` describes."""
    return _list_problems(lambda: text, "catalog")


def _list_problems(read_text: Callable[[], str], file: str) -> tuple[CatalogError, ...]:
    problems = Problems()
    root = problems.read(lambda: _read_undecided_tree(read_text(), file))
    if root is not None:
        _read_and_check(root, file, problems)
    return tuple(sorted(problems.errors, key=lambda error: error.line or 0))


def _read_undecided_tree(text: str, file: str) -> Mapping:
    """Read the tree of a text in which some ??? are left.

    Inside braces they are no YAML, so they are put in quotes, and each is reported.
    """
    try:
        return read_tree(text, file)
    except CatalogError:
        if "???" not in text:
            raise
        return read_tree(re.sub(r"(?<=[\s\[{,:])\?\?\?(?=[\s\]},]|$)", '"???"', text), file)


def _read_text(path: str | os.PathLike[str]) -> str:
    """Read a file as UTF-8. Raises CatalogError where it cannot be read."""
    file = os.fspath(path)
    try:
        return Path(path).read_bytes().decode("utf-8")
    except OSError as error:
        raise CatalogError(f"the catalog cannot be read: {error.strerror}", file=file) from None
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise CatalogError(
            "the catalog is not UTF-8 text: save it as UTF-8", file=file, line=line
        ) from None


def parse(text: str, file: str = "<catalog>") -> Catalog:
    """The catalog that `text` describes; `file` is what messages call it."""
    return read_catalog(read_tree(text, file), file)


def read_catalog(root: Mapping, file: str) -> Catalog:
    """The catalog of a tree, every rule checked."""
    problems = Problems()
    catalog = _read_and_check(root, file, problems)
    problems.raise_first()
    return catalog


def _read_and_check(root: Mapping, file: str, problems: Problems) -> Catalog:
    """Read the catalog of a tree; errors are noted in `problems`.

    It is of no use unless `problems` is empty afterwards.
    """
    fields = Fields(Where(file, ""), root, 1, "catalog", problems=problems)
    problems.read(_check_format, fields)
    catalog = Catalog(
        dataset=problems.read(fields.label, "dataset"),
        lineage=problems.read(fields.label, "lineage"),
        population=problems.read(fields.label, "population"),
        neighbours=problems.read(fields.choice, "neighbours", NEIGHBOURS),
        unit=problems.read(_read_unit, fields, file),
        people=problems.read(_read_people, fields, file, problems),
        source=problems.read(read_source, fields, file),
        tables=problems.read(_read_tables, fields, file, problems),
        file=file,
        neighbours_line=fields.line_of("neighbours"),
    )
    if not problems.errors:
        check(catalog, problems)
    return catalog


def _check_format(fields: Fields) -> None:
    """Raise CatalogError unless the file is in the format that this version reads."""
    if fields.text("dither") != FORMAT:
        raise fields.error(
            f"this dither reads catalog format {FORMAT}, got '{fields.text('dither')[:20]}'",
            "dither",
        )


def _read_unit(outer: Fields, file: str) -> Unit:
    """Read the privacy unit. Raises CatalogError for keys that do not belong to its kind."""
    line = outer.line_of("unit")
    fields = Fields(Where(file, "unit"), outer.node("unit"), line, "unit")
    kind = fields.choice("kind", UNITS)
    if kind != "row":
        fields.forbid("one_row_is", f"it belongs to {{kind: row}}, and the kind is {kind}")
    if kind != "person_window":
        for key in ("column", "every", "zone"):
            fields.forbid(key, f"windows belong to {{kind: person_window}}, and the kind is {kind}")
        asserted = fields.choice("one_row_is", ("person",)) if "one_row_is" in fields else None
        return Unit(kind, one_row_is="person" if asserted else None, line=line)
    return Unit(
        kind,
        fields.text("column"),
        fields.choice("every", WINDOWS),
        fields.offset("zone"),
        line=line,
    )


def _read_people(outer: Fields, file: str, problems: Problems) -> tuple[Person, ...]:
    where = Where(file, "people")
    entries = where.entries(outer.node("people"), "people")
    where.check_names(entries, "key")
    return tuple(problems.read(_read_person, entry, file) for entry in entries)


def _read_person(entry: Entry, file: str) -> Person:
    """Read whether a person is protected; if not, the reason is needed."""
    fields = Fields(Where(file, f"people: {entry.key}"), entry.node, entry.line, "person")
    if fields.boolean("protected"):
        fields.forbid("because", "it is the reason for protected: false")
        return Person(entry.key, True, line=entry.line)
    return Person(entry.key, False, fields.prose("because"), line=entry.line)


def _read_tables(outer: Fields, file: str, problems: Problems) -> tuple[Table, ...]:
    where = Where(file, "")
    entries = where.entries(outer.node("tables"), "tables")
    where.check_names(entries, "table")
    return tuple(problems.read(_read_table, entry, file, problems) for entry in entries)


def _read_table(entry: Entry, file: str, problems: Problems) -> Table:
    """Read a table; errors are noted in `problems`."""
    where = Where(file, f"table {entry.key}")
    fields = Fields(where, entry.node, entry.line, "table", problems=problems)
    kind = problems.read(fields.choice, "kind", KINDS)
    source_name = problems.read(fields.text, "from")
    if kind == "public":
        problems.read(_forbid_limits, fields)
    owner = problems.read(_read_owner, fields, file, entry.key) if "owner" in fields else None
    rows_per_unit = problems.read(fields.count, "rows_per_unit") if kind == "private" else None
    max_rows = problems.read(fields.count, "max_rows") if kind == "private" else None
    if rows_per_unit is not None and max_rows is not None and rows_per_unit > max_rows:
        problems.add(
            [
                fields.error(
                    f"rows_per_unit {rows_per_unit} is above max_rows {max_rows}: lower it",
                    "rows_per_unit",
                )
            ]
        )
    columns = problems.read(_read_column_entries, fields) or ()
    unique = problems.read(_read_unique, fields, tuple(column.key for column in columns))
    described = tuple(problems.read(read_column, column, entry.key, file) for column in columns)
    return Table(
        entry.key,
        kind,
        source_name,
        owner,
        unique,
        rows_per_unit,
        max_rows,
        described,
        _read_source_columns(columns, entry.key, file, problems),
        problems.read(read_rules, fields, file, entry.key) if "rules" in fields else (),
        line=entry.line,
    )


def _forbid_limits(fields: Fields) -> None:
    """Raise CatalogError where a public table has an owner or limits."""
    for key in ("owner", "rows_per_unit", "max_rows"):
        fields.forbid(
            key,
            "a public table has no owner and no limits; if it is about people, make it private",
        )


def _read_column_entries(fields: Fields) -> tuple[Entry, ...]:
    """List the entries of the columns.

    Raises CatalogError where there are none, or two of one name.
    """
    columns = fields.where.entries(fields.node("columns"), "columns")
    if not columns:
        raise fields.error("columns is empty: describe at least one", "columns")
    fields.where.check_names(columns, "column")
    return columns


def _read_source_columns(
    columns: tuple[Entry, ...], table: str, file: str, problems: Problems
) -> tuple[tuple[str, str], ...]:
    """Columns with another name at the source."""
    names = (
        (column.key, problems.read(read_source_name, column, table, file)) for column in columns
    )
    return tuple((column, name) for column, name in names if name is not None and name != column)


def _read_owner(outer: Fields, file: str, table: str) -> Owner:
    """Read the owner of a table: {column: c} or {references: table, by: key}."""
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
    """Read by which columns a parent row is found, as sorted pairs (column here, column there).

    One name that both tables have may stand alone.
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
    """Read the unique keys, each a tuple of column names."""
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
