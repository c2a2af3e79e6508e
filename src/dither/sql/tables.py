"""Registered tables as relations: their columns, their owner, and which row an id names."""

from __future__ import annotations

from sqlglot import exp

from dither.catalog import Catalog, Id, OwnerReference, Table
from dither.plan.algebra import Column, Scan
from dither.sql.refuse import did_you_mean, refused
from dither.sql.scope import Context, Field, Relation

_TABLE_PARTS = {"this", "alias", "joins"}


def check_tables(query: exp.Expr, at: Context) -> None:
    """Every table that the text names exists: an unknown one is said before any unknown column."""
    named = {each.alias.lower() for each in query.find_all(exp.CTE)}
    for node in query.find_all(exp.Table):
        if isinstance(node.this, exp.Identifier) and not node.args.get("db") and node.name.lower() not in named:
            find_table(node, at)


def find_table(node: exp.Table, at: Context) -> Table:
    """The registered table of that name, in any case."""
    try:
        return at.catalog.table(node.name)
    except KeyError:
        hint = did_you_mean(node.name, [table.name for table in at.catalog.tables])
        raise at.error(f"no table {node.name}: {hint}", node) from None


def check_plain(node: exp.Table, at: Context) -> None:
    """A table by its name and perhaps an alias, and nothing else."""
    if node.args.get("db") or not isinstance(node.this, exp.Identifier):
        raise refused("from", at.sql, node)
    if node.args.get("sample"):
        raise refused("sample", at.sql, node)
    if extra := [part for part, value in node.args.items() if value and part not in _TABLE_PARTS]:
        raise at.error(f"FROM {node.name} with {', '.join(extra)} is not answered: remove it", node)


def table_relation(table: Table, at: Context) -> Relation:
    """All columns of a table under its name; the owner is a field, and no column."""
    owner = at.catalog.owner_column(table) if table.kind == "private" else None
    fields = tuple(
        Field(
            table.name,
            column.name,
            None if column.name == owner else Column(column.name),
            anchor=_anchor(table, column.name, at.catalog) if isinstance(column, Id) else None,
            public=table.kind == "public",
        )
        for column in table.columns
    )
    return Relation(Scan(table.name), fields)


def _anchor(table: Table, column: str, catalog: Catalog) -> tuple[str, str] | None:
    """The parent's row that an id names, where registration made sure that it has one owner."""
    if table.kind == "public":
        return None
    if isinstance(table.owner, OwnerReference) and len(table.owner.by) == 1 and table.owner.by[0][0] == column:
        return table.owner.references, table.owner.by[0][1]
    for child in catalog.private_tables:
        above = child.owner
        if isinstance(above, OwnerReference) and (above.references, *(b for _, b in above.by)) == (table.name, column):
            return table.name, column
    return None
