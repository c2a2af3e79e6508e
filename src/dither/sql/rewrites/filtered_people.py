"""`COUNT(DISTINCT person) FILTER (WHERE ...)` by keys without a list: a row for each person first.

Such keys are selected among all rows, and the people are counted among fewer. In a row for each
person and key a number says whether the person counts, and the keys are those of all rows.
"""

from __future__ import annotations

from sqlglot import exp

from dither.catalog import Catalog, Category, Table, Undeclared
from dither.catalog.owners import owner_names
from dither.sql.per_unit import is_aggregate
from dither.sql.rewrites.nest_rows import list_keys, nest_rows
from dither.sql.rewrites.sources import find_definition, list_selects, list_sources
from dither.sql.tree_nodes import list_own_nodes


def rewrite_filtered_people(query: exp.Query, catalog: Catalog) -> exp.Query:
    """Count people per person first, where a key has no list and only some people are counted.

    Only where beside them rows and values are counted, added up or averaged, over registered
    tables and plain joins.
    """
    for select in list_selects(query):
        if not find_filters(select):
            continue
        tables = _list_tables(select, catalog)
        person = _find_person(select, tables, catalog) if tables else None
        keys = list_keys(select, list_sources(select, catalog))
        if person is not None and keys and any(_is_open(key, tables) for key in keys.values()):
            nest_rows(select, person, keys)
    return query


def find_filters(select: exp.Select) -> list[exp.Filter]:
    """The counts of distinct values with FILTER among the aggregates of a SELECT."""
    return [
        node
        for output in select.expressions
        for node in list_own_nodes(output)
        if isinstance(node, exp.Filter)
        and isinstance(node.this, exp.Count)
        and isinstance(node.this.this, exp.Distinct)
    ]


def _list_tables(select: exp.Select, catalog: Catalog) -> list[Table]:
    """The registered tables that a SELECT reads by plain joins; none where it reads others too."""
    joins = select.args.get("joins") or []
    clause = select.args.get("from_")
    nodes = [clause.this, *(join.this for join in joins)] if clause is not None else []
    known = {table.name.lower() for table in catalog.tables}
    is_plain = all(
        isinstance(node, exp.Table) and find_definition(node) is None and node.name.lower() in known
        for node in nodes
    )
    has_outer = any(join.side for join in joins)
    return [catalog.table(node.name) for node in nodes] if is_plain and not has_outer else []


def _find_person(select: exp.Select, tables: list[Table], catalog: Catalog) -> exp.Column | None:
    """The owner's column that all counts of distinct values count; None where another aggregate is
    in the way."""
    owners = {
        name.lower()
        for table in tables
        if table.kind == "private"
        for name in owner_names(catalog, table)
    }
    having = select.args.get("having")
    order = select.args.get("order")
    clauses = [*select.expressions, *(clause for clause in (having, order) if clause is not None)]
    people: list[exp.Column] = []
    for node in (
        node for clause in clauses for node in list_own_nodes(clause) if is_aggregate(node)
    ):
        inner = node.this if isinstance(node, exp.Filter) else node
        is_distinct = isinstance(inner.this, exp.Distinct)
        if isinstance(inner, exp.Count) and is_distinct and len(inner.this.expressions) == 1:
            people.append(inner.this.expressions[0])
            continue
        is_added = type(node) in (exp.Count, exp.Sum, exp.Avg) and not is_distinct
        if not is_added or isinstance(node.parent, exp.Filter):
            return None
    is_owner = all(
        isinstance(column, exp.Column) and column.name.lower() in owners for column in people
    )
    return people[0] if people and is_owner else None


def _is_open(key: exp.Expr, tables: list[Table]) -> bool:
    """Whether a key is a column of a category without a list."""
    return isinstance(key, exp.Column) and any(
        isinstance(column, Category)
        and isinstance(column.values, Undeclared)
        and column.name.lower() == key.name.lower()
        for table in tables
        for column in table.columns
    )
