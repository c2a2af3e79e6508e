"""The catalog: what is publicly known about a dataset before anyone looks at it.

Frozen facts, written by a person and never read off the data. Whoever needs a bound, a limit, a key
list or an owner asks here. Every part remembers the `line` it was written on; lines play no part in
equality.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from dither.catalog.columns import Column
from dither.catalog.row_rules import RowRule

Neighbours = Literal["add_remove", "replace"]


@dataclass(frozen=True)
class Unit:
    """Whom the guarantee protects.

    For `person_window`: rows of one person in one window of `column`. `one_row_is` is the steward's
    word that no person has two rows; nothing checks it.
    """

    kind: Literal["person", "row", "person_window"]
    column: str | None = None
    every: Literal["day", "week", "month", "year"] | None = None
    offset_seconds: int | None = None
    one_row_is: Literal["person"] | None = None
    line: int = field(default=0, compare=False, kw_only=True)

    @property
    def label(self) -> str:
        """The unit in a word, for losses, pots and certificates.

        A person whom the steward asserts has a name of its own, so that no pot mixes the two.

        >>> Unit("person").label, Unit("person_window", "date", "month", 0).label
        ('person', 'person_month')
        >>> Unit("row", one_row_is="person").label
        'person (asserted, not checked)'
        """
        unasserted = f"person_{self.every}" if self.kind == "person_window" else self.kind
        return f"{self.one_row_is} (asserted, not checked)" if self.one_row_is else unasserted


@dataclass(frozen=True)
class Person:
    """A key that names a person: protected, or not and why."""

    key: str
    protected: bool
    because: str | None = None
    line: int = field(default=0, compare=False, kw_only=True)


@dataclass(frozen=True)
class Source:
    """Where the rows lie. `location` is as written: relative to the catalog's file.

    The rest is how CSV is written: `null_texts` are texts that stand for a null, and `trim` says
    that blanks around a field are not part of it. `copy` says where the registered copy lies, if
    the engine is a server and it is not beside the source.
    """

    engine: Literal["csv", "parquet", "duckdb", "postgres", "spark"]
    location: str
    delimiter: str = ","
    quote: str = '"'
    null_texts: tuple[str, ...] = ()
    trim: bool = False
    copy: str = ""
    line: int = field(default=0, compare=False, kw_only=True)

    @property
    def is_path(self) -> bool:
        """Whether `location` names a file or folder that DuckDB reads, and no server."""
        return self.engine not in ("postgres", "spark")


@dataclass(frozen=True)
class OwnerColumn:
    """A row belongs to the person that `column` names."""

    column: str
    line: int = field(default=0, compare=False, kw_only=True)


@dataclass(frozen=True)
class OwnerReference:
    """A row belongs to the owner of the one row of `references` that `by` finds: pairs (column
    here, column there)."""

    references: str
    by: tuple[tuple[str, str], ...]
    line: int = field(default=0, compare=False, kw_only=True)


Owner: TypeAlias = OwnerColumn | OwnerReference


@dataclass(frozen=True)
class Table:
    """A table. Public ones have neither owner nor limits; under unit `row` there is no owner.

    `source_columns` pairs a column with its name at the source, where that is another. `rules` are
    what every row meets: registration drops those that do not.
    """

    name: str
    kind: Literal["private", "public"]
    source_name: str
    owner: Owner | None
    unique: tuple[tuple[str, ...], ...]
    rows_per_unit: int | None
    max_rows: int | None
    columns: tuple[Column, ...]
    source_columns: tuple[tuple[str, str], ...] = ()
    rules: tuple[RowRule, ...] = ()
    line: int = field(default=0, compare=False, kw_only=True)

    def column(self, name: str) -> Column:
        """The column of that name in any case; KeyError if there is none."""
        for column in self.columns:
            if column.name.lower() == name.lower():
                return column
        raise KeyError(name)

    @property
    def column_names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)


@dataclass(frozen=True)
class Catalog:
    """All public facts of one dataset. `file` is where they were read, for messages."""

    dataset: str
    lineage: str
    population: str
    neighbours: Neighbours
    unit: Unit
    people: tuple[Person, ...]
    source: Source
    tables: tuple[Table, ...]
    file: str = field(default="<catalog>", compare=False, kw_only=True)
    neighbours_line: int = field(default=0, compare=False, kw_only=True)

    def table(self, name: str) -> Table:
        """The table of that name in any case; KeyError if there is none."""
        for table in self.tables:
            if table.name.lower() == name.lower():
                return table
        raise KeyError(name)

    def owner_path(self, table: Table) -> tuple[Table, ...]:
        """The tables from `table` up to the one that holds the owner column, both included."""
        path = [table]
        while isinstance(path[-1].owner, OwnerReference):
            path.append(self.table(path[-1].owner.references))
        return tuple(path)

    def owner_column(self, table: Table) -> str | None:
        """The column, at the end of the owner path, that names the person; None for public tables
        and row units."""
        owner = self.owner_path(table)[-1].owner
        return owner.column if isinstance(owner, OwnerColumn) else None

    @property
    def private_tables(self) -> tuple[Table, ...]:
        return tuple(table for table in self.tables if table.kind == "private")
