"""The remedy of a refusal in the names of the asker's tables and columns.

The table of refusals speaks of the clinic of the reference page: `patient_id`, `cost`, `date`,
`v.visit_id`. A message names what the tables of the question have.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from sqlglot import exp

from dither.catalog import Catalog, Date, Decimal, Id, Integer, Table, Timestamp
from dither.catalog.owners import owner_names
from dither.sql.refusals.refusal import Refusal

_Kind: TypeAlias = Integer | Decimal | Date | Timestamp
_PAIR = "a.patient_id = b.patient_id"
_OWNER = re.compile(r"\bpatient_id\b")
_NUMBER = re.compile(r"\bcost\b")
_DATE = re.compile(r"\bdate\b(?= \+|,)")
_ROW = re.compile(r"\bv\.visit_id\b")


@dataclass(frozen=True)
class NamedTable:
    """A private table of the question, and the name that it goes by there."""

    name: str
    table: Table


def write_remedy(refusal: Refusal, catalog: Catalog, node: exp.Expr | None) -> str:
    """Write what to put instead of a node, with names from the tables of the question."""
    text = refusal.instead
    tables = list_private_tables(node, catalog)
    if _OWNER.search(text):
        text = _write_owner(refusal, catalog, tables)
    text = _NUMBER.sub(_find_column(node, tables, Integer, Decimal), text)
    text = _DATE.sub(_find_column(node, tables, Date, Timestamp), text)
    return _ROW.sub(_name_row(tables), text)


def list_private_tables(node: exp.Expr | None, catalog: Catalog) -> list[NamedTable]:
    """List the private tables of the question around a node, the nearest first."""
    if node is None:
        return [NamedTable(table.name, table) for table in catalog.private_tables]
    select = node if isinstance(node, exp.Query) else node.parent_select
    nearest = list(select.find_all(exp.Table)) if select is not None else []
    nodes = [*nearest, *node.root().find_all(exp.Table)]
    private = {table.name.lower(): table for table in catalog.private_tables}
    named: dict[str, NamedTable] = {}
    for source in nodes:
        table = private.get(source.name.lower())
        if table is not None:
            named.setdefault(source.alias_or_name, NamedTable(source.alias_or_name, table))
    return list(named.values()) or list_private_tables(None, catalog)


def _write_owner(refusal: Refusal, catalog: Catalog, tables: Sequence[NamedTable]) -> str:
    """Write the remedy with the owner's column; another remedy where rows are protected by
    themselves."""
    owned = [
        (source.name, column)
        for source in tables
        if (column := _find_owner(source.table, catalog)) is not None
    ]
    text = refusal.instead
    if len(owned) > 1:
        (left, left_column), (right, right_column) = owned[:2]
        text = text.replace(_PAIR, f"{left}.{left_column} = {right}.{right_column}")
    if owned:
        return _OWNER.sub(owned[0][1], text)
    for source in tables:
        if (column := catalog.owner_column(source.table)) is not None:
            parent = catalog.owner_path(source.table)[-1].name
            return f"{_OWNER.sub(column, text)}. {column} is a column of {parent}: join it"
    return refusal.without_owner


def _find_owner(table: Table, catalog: Catalog) -> str | None:
    """The column of a table that names the owner of its rows, if it has one."""
    return min(owner_names(catalog, table), default=None)


def _find_column(node: exp.Expr | None, tables: Sequence[NamedTable], *kinds: type[_Kind]) -> str:
    """Name a column of one of these kinds, one of the node's if it has any; dots where there is
    none."""
    columns = [
        column.name
        for source in tables
        for column in source.table.columns
        if isinstance(column, kinds)
    ]
    written = {column.name.lower() for column in node.find_all(exp.Column)} if node else set()
    named = [name for name in columns if name.lower() in written]
    return next(iter([*named, *columns]), "...")


def _name_row(tables: Sequence[NamedTable]) -> str:
    """A column that every row of a private table has: its id, or else its first."""
    for source in tables:
        columns = sorted(source.table.columns, key=lambda column: not isinstance(column, Id))
        return f"{source.name}.{columns[0].name}"
    return "..."
