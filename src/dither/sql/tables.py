"""Registered tables as relations: their columns, their owner, and which row an id names."""

from __future__ import annotations

from collections.abc import Container

from sqlglot import exp

from dither.catalog import Catalog, Id, OwnerReference, Table
from dither.catalog.owners import owner_names
from dither.plan.algebra import Column, Scan
from dither.sql.refusals.refuse import did_you_mean, make_refusal
from dither.sql.scope import Anchor, Context, Field, Relation

_TABLE_CLAUSES = {"this", "alias", "joins"}


def check_tables(nodes: list[exp.Expr], context: Context) -> None:
    """Raise QueryError for a table among the nodes of a question that does not exist.

    It comes before any error about a column.
    """
    named = {node.alias.lower() for node in nodes if isinstance(node, exp.CTE)}
    for node in nodes:
        if (
            isinstance(node, exp.Table)
            and isinstance(node.this, exp.Identifier)
            and not node.args.get("db")
            and node.name.lower() not in named
        ):
            find_table(node, context)


def check_private(select: exp.Select, context: Context, names: Container[str]) -> None:
    """Refuse a SELECT whose FROM names public tables alone: its rows are nobody's."""
    clause = select.args.get("from_")
    if clause is None:
        return
    public = {table.name.lower() for table in context.catalog.tables if table.kind == "public"}
    all_read = {table.name.lower() for table in select.find_all(exp.Table)}
    if all_read and all_read <= public and not any(name in names for name in all_read):
        raise make_refusal("public only", context, clause)
    sources = [clause.this, *(join.this for join in select.args.get("joins") or ())]
    if not all(isinstance(source, exp.Table) for source in sources):
        return
    inner_joins = [join.this for source in sources for join in source.args.get("joins") or ()]
    read = {source.name.lower() for source in (*sources, *inner_joins)}
    if not read <= public or any(name in names for name in read):
        return
    raise make_refusal("public rows", context, clause)


def find_table(node: exp.Table, context: Context) -> Table:
    """Return the registered table of that name, in any case.

    Raises QueryError where there is none.
    """
    try:
        return context.catalog.table(node.name)
    except KeyError:
        hint = did_you_mean(node.name, [table.name for table in context.catalog.tables])
        raise context.error(f"no table {node.name}: {hint}", node) from None


def check_plain(node: exp.Table, context: Context) -> None:
    """Raise QueryError unless FROM has a table by its name and perhaps an alias, and nothing
    else."""
    if not isinstance(node.this, exp.Identifier):
        raise make_refusal("from", context, node)
    if node.args.get("db"):
        names = f"main and {context.catalog.dataset}"
        raise context.error(
            f"no schema {node.text('db')}: the schemas are {names}, and both may be left out", node
        )
    if node.args.get("sample"):
        raise make_refusal("sample", context, node)
    if extra := [
        clause for clause, value in node.args.items() if value and clause not in _TABLE_CLAUSES
    ]:
        raise context.error(
            f"FROM {node.name} with {', '.join(extra)} is not answered: remove it", node
        )


def bind_table(table: Table, context: Context) -> Relation:
    """Bind a table: all its columns are fields under its name; the owner is a field, and no
    column."""
    owners = owner_names(context.catalog, table) if table.kind == "private" else frozenset()
    refers = (
        {column_name for column_name, _ in table.owner.by}
        if isinstance(table.owner, OwnerReference)
        else set()
    )
    listed = (*context.facts.lists, *context.facts.texts)
    texts = {column: values for name, column, values in listed if name == table.name}
    fields = tuple(
        Field(
            table.name,
            column.name,
            None if column.name in owners else Column(column.name),
            anchor=_find_anchor(table, column.name, context.catalog)
            if isinstance(column, Id)
            else None,
            is_reference=column.name in refers,
            public=table.kind == "public",
            texts=texts.get(column.name, ()),
        )
        for column in table.columns
    )
    return Relation(Scan(table.name), fields)


def _find_anchor(table: Table, column: str, catalog: Catalog) -> Anchor | None:
    """Find which part of a parent's key an id is; None where it is none.

    Registration made sure that the key has one owner.
    """
    if table.kind == "public":
        return None
    references = [(table.owner, 0)] if isinstance(table.owner, OwnerReference) else []
    references += [
        (child.owner, 1)
        for child in catalog.private_tables
        if isinstance(child.owner, OwnerReference) and child.owner.references == table.name
    ]
    for reference, position in references:
        for pair in reference.by:
            if pair[position] == column:
                return (
                    reference.references,
                    tuple(parent_column for _, parent_column in reference.by),
                    pair[1],
                )
    return None
