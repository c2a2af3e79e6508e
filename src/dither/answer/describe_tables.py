"""What can be asked about: the tables of a registered catalog, for people at a prompt or notebook.

From the catalog alone: no row, no count, nothing that was released.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dither.canonical import decimal_text, number_text, quote
from dither.catalog import Catalog, Column, Date, Integer, Table, Timestamp
from dither.catalog.columns import Boolean, Category, Decimal, FromPublic, Id, Text, Undeclared
from dither.catalog.scalar_texts import write_days, write_seconds
from dither.errors import ParameterError
from dither.pages.html import Html
from dither.pages.notebook import write_cell, write_notes
from dither.plan.algebra import Scan
from dither.publish.budget import PotBalances
from dither.publish.shown_table import ShownTable
from dither.publish.text import render_text
from dither.question.row_limits import list_row_limits
from dither.surfaces import make_rich_text

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult

_MOST_LABELS = 12


@dataclass(frozen=True)
class Shown:
    """A table with sentences below it, printed alike at a prompt, on paper and in a notebook."""

    table: ShownTable
    lines: tuple[str, ...]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield self.table
        yield from map(make_rich_text, self.lines)

    def _repr_html_(self) -> Html:
        return write_cell(self.table.write_html(), write_notes(list(self.lines)))

    def __str__(self) -> str:
        return render_text(self)

    def __repr__(self) -> str:
        return str(self)


@dataclass(frozen=True, repr=False)
class TableList(Shown):
    """The tables of a dataset; iterating gives their names."""

    names: tuple[str, ...] = ()

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)

    def __contains__(self, name: object) -> bool:
        return name in self.names


def list_tables(catalog: Catalog) -> TableList:
    """List the tables of a catalog, each with what is limited in it."""
    rows = tuple(
        (table.name, table.kind, _describe_limit(catalog, table), ", ".join(table.column_names))
        for table in catalog.tables
    )
    heads = ("table", "kind", "limit", "columns")
    lines = (f"privacy unit: {catalog.unit.label}; neighbours {catalog.neighbours}",)
    return TableList(ShownTable(heads, rows), lines, tuple(table.name for table in catalog.tables))


def describe_table(catalog: Catalog, name: str) -> Shown:
    """Describe the columns of a table: their types, and what their values may be."""
    try:
        table = catalog.table(name)
    except KeyError:
        names = ", ".join(table.name for table in catalog.tables)
        raise ParameterError(f"no table {quote(name)}: there are {names}") from None
    rows = tuple(
        (column.name, column.type, _describe_values(column), _describe_nulls(column))
        for column in table.columns
    )
    shown = ShownTable(("column", "type", "values", "nulls"), rows, title=f"table {table.name}")
    return Shown(shown, (_describe_limit(catalog, table),))


def describe_connection(catalog: Catalog, pot: str, budget: PotBalances) -> Shown:
    """Describe a connection: its tables, whom it protects, and what its pot has left."""
    tables = list_tables(catalog)
    paying = next((balance for balance in budget.pots if balance.name == pot), None)
    lines = [f"dataset {catalog.dataset}", *tables.lines]
    if paying is None:
        lines.append(f"no budget {pot} is open yet: the data steward opens one")
    else:
        lines.append(
            f"budget {pot}: {paying.rule.measure} {decimal_text(paying.left)} left of "
            f"{decimal_text(paying.cap)}, delta {decimal_text(paying.delta_left)} left, for one "
            f"{paying.unit}"
        )
    lines.append(
        "con.describe(TABLE) lists columns, con.preview(SQL, epsilon=...) shows price and error"
    )
    return Shown(tables.table, tuple(lines))


def _describe_limit(catalog: Catalog, table: Table) -> str:
    if table.kind == "public":
        return "public, no limit"
    return "; ".join(list_row_limits(catalog, Scan(table.name))) or "each row is a unit"


def _describe_values(column: Column) -> str:
    """Describe in words which values the catalog allows in a column."""
    match column:
        case Id():
            return "names a person or a row: never shown"
        case Boolean():
            return "false, true"
        case Integer():
            return f"{column.lower} to {column.upper}"
        case Decimal():
            ends = f"{number_text(column.lower)} to {number_text(column.upper)}"
            return f"{ends}, rounded to {number_text(column.resolution)}"
        case Date():
            return f"{write_days(column.lower)} to {write_days(column.upper)}"
        case Timestamp():
            offset = column.offset_seconds
            low = write_seconds(column.lower, offset)
            return f"{low} to {write_seconds(column.upper, offset)}"
        case Text():
            return f"free text, cut at {column.width} characters"
        case Category():
            return _describe_labels(column)


def _describe_labels(column: Category) -> str:
    """Describe in words which labels a category has; the first few, and how many more."""
    if isinstance(column.values, Undeclared):
        return "labels that nobody listed: shown if enough people share them"
    if isinstance(column.values, FromPublic):
        return f"those of {column.values.table}.{column.values.column}"
    labels = [*column.values, *(["other"] if column.other == "keep" else [])]
    more = len(labels) - _MOST_LABELS
    return ", ".join(labels[:_MOST_LABELS]) + (f" and {more:,} more" if more > 0 else "")


def _describe_nulls(column: Column) -> str:
    if isinstance(column, Id):
        return ""
    return {"keep": "kept", "drop": "their rows dropped", "value": "replaced"}[column.nulls.rule]
