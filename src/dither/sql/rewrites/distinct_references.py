"""`COUNT(DISTINCT order_id)` of lines counts the orders that have a line: GROUP BY order_id first.

An id that refers to another table's row, or that others refer to, names one owner. So a row for
each id and key, which belongs to that owner, is what there is to count; a row without an id is not
counted.
"""

from __future__ import annotations

from sqlglot import exp

from dither.catalog import Catalog, OwnerReference
from dither.catalog.owners import owner_names
from dither.sql.per_unit import is_aggregate
from dither.sql.rewrites.distinct_ids import list_referenced
from dither.sql.rewrites.nest_rows import list_keys, nest_rows
from dither.sql.rewrites.sources import find_source, list_selects, list_sources
from dither.sql.tree_nodes import list_own_nodes


def rewrite_distinct_references(query: exp.Query, catalog: Catalog) -> exp.Query:
    """Count rows of a subquery in the place of ids that refer to another table's rows.

    Only where all tables are joined by plain joins, and beside it only rows and values are counted,
    added up or averaged: those are counted and added up for each id first.
    """
    for select in list_selects(query):
        counted = _find_counted(select)
        joins = select.args.get("joins") or []
        has_outer = any(join.side for join in joins)
        if counted is None or has_outer or not _names_one_owner(counted, select, catalog):
            continue
        keys = list_keys(select, list_sources(select, catalog))
        if keys is not None:
            nest_rows(select, counted, keys)
    return query


def _find_counted(select: exp.Select) -> exp.Column | None:
    """The one column whose distinct values a SELECT counts.

    None where there are several, or where another aggregate is not counted for each id first.
    """
    having = select.args.get("having")
    order = select.args.get("order")
    clauses = [*select.expressions, *(clause for clause in (having, order) if clause is not None)]
    aggregates = [
        node for clause in clauses for node in list_own_nodes(clause) if is_aggregate(node)
    ]
    columns = set()
    for node in aggregates:
        is_distinct = isinstance(node.this, exp.Distinct)
        if isinstance(node, exp.Count) and is_distinct and len(node.this.expressions) == 1:
            columns.add(node.this.expressions[0])
            continue
        is_added = type(node) in (exp.Count, exp.Sum, exp.Avg) and not is_distinct
        if not is_added or isinstance(node.parent, exp.Filter):
            return None
    only = columns.pop() if len(columns) == 1 else None
    return only if isinstance(only, exp.Column) else None


def _names_one_owner(column: exp.Column, select: exp.Select, catalog: Catalog) -> bool:
    """Whether a column is the whole key of a row that rows refer to, or the reference to it."""
    name = find_source(column, list_sources(select, catalog))
    clause = select.args.get("from_")
    nodes = [clause.this, *(join.this for join in select.args.get("joins") or [])] if clause else []
    tables = {table.name.lower() for table in catalog.tables}
    for node in nodes:
        is_named = isinstance(node, exp.Table) and node.alias_or_name.lower() == name
        if not is_named or node.name.lower() not in tables:
            continue
        table = catalog.table(node.name)
        if table.kind != "private":
            return False
        owners = {owner.lower() for owner in owner_names(catalog, table)}
        if column.name.lower() in owners:  # people are counted as such
            return False
        keys = list_referenced(table.name, catalog)
        if isinstance(table.owner, OwnerReference) and len(table.owner.by) == 1:
            keys = keys | {table.owner.by[0][0].lower()}
        return column.name.lower() in keys
    return False
