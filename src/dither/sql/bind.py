"""A SELECT becomes queries over plans and a recipe for the columns a person asked for.

`SELECT key, COUNT(*), SUM(x) FROM t WHERE ... GROUP BY key`: one query per distinct aggregate. Whatever has no rule
here is refused with its place in the text (allow-list).
"""

from __future__ import annotations

from sqlglot import exp

from dither.answer.recipe import KeyColumn, Recipe, ValueColumn
from dither.catalog import Bounded, Catalog, Date, Id, Table, Timestamp
from dither.plan.algebra import Aggregate, Cells, Count, Filter, Plan, Scan, Sum
from dither.plan.domains import key_domain
from dither.sql.conditions import condition, find_column
from dither.sql.parse import parse
from dither.sql.refuse import did_you_mean, refuse

_ANSWERED = {"expressions", "from_", "where", "group", "kind"}
_NAMES = {"joins": "JOIN", "order": "ORDER BY", "with_": "WITH", "laterals": "LATERAL", "windows": "WINDOW"}
MAX_COLUMNS = 50


def bind(sql: str, catalog: Catalog) -> Recipe:
    """The queries and output columns of a question."""
    try:
        return _bind(parse(sql), sql, catalog)
    except RecursionError:
        raise refuse("the question is nested too deeply: write it flatter", sql) from None


def _bind(select: exp.Select, sql: str, catalog: Catalog) -> Recipe:
    for part, value in select.args.items():
        if value and part not in _ANSWERED:
            name = _NAMES.get(part, part.rstrip("_").upper())
            raise refuse(f"{name} is not answered yet: remove it", sql, value if isinstance(value, exp.Expr) else None)
    table = _table(select, catalog, sql)
    plan: Plan = Scan(table.name)
    if where := select.args.get("where"):
        plan = Filter(plan, condition(where.this, table, sql))
    keys = _keys(select, table, sql)
    columns, aggregates = _columns(select, table, keys, sql)
    queries = tuple(Cells(plan, keys, (aggregate,)) for aggregate in aggregates)
    return Recipe(sql, table, queries, columns)


def _table(select: exp.Select, catalog: Catalog, sql: str) -> Table:
    source = select.args.get("from_")
    if source is None:
        raise refuse("a question needs FROM and a table", sql)
    node = source.this
    if not isinstance(node, exp.Table) or node.args.get("db") or not isinstance(node.this, exp.Identifier):
        raise refuse("FROM takes the name of one registered table", sql, node)
    if extra := [part for part, value in node.args.items() if value and part not in ("this", "alias")]:
        raise refuse(f"FROM {node.name} with {', '.join(extra)} is not answered yet: remove it", sql, node)
    try:
        return catalog.table(node.name)
    except KeyError:
        hint = did_you_mean(node.name, [table.name for table in catalog.private_tables])
        raise refuse(f"no table {node.name}: {hint}", sql, node) from None


def _keys(select: exp.Select, table: Table, sql: str) -> tuple[str, ...]:
    group = select.args.get("group")
    if group is None:
        return ()
    if any(value for part, value in group.args.items() if part != "expressions"):
        raise refuse("GROUP BY takes column names only, so far", sql, group)
    keys = []
    for node in group.expressions:
        if not isinstance(node, exp.Column):
            raise refuse("GROUP BY takes column names only, so far", sql, node)
        column = find_column(node, table, sql)
        if isinstance(column, Id):
            raise refuse(f"{column.name} cannot be grouped by: it names people or rows", sql, node)
        keys.append(key_domain(node.name, table).column)
    if len(set(keys)) != len(keys):
        raise refuse("a column stands twice in GROUP BY: name it once", sql, group)
    return tuple(keys)


def _columns(
    select: exp.Select, table: Table, keys: tuple[str, ...], sql: str
) -> tuple[tuple[KeyColumn | ValueColumn, ...], tuple[Aggregate, ...]]:
    columns: list[KeyColumn | ValueColumn] = []
    aggregates: list[Aggregate] = []
    if len(select.expressions) > MAX_COLUMNS:
        raise refuse(f"at most {MAX_COLUMNS} columns in one question", sql)
    for node in select.expressions:
        inner = node.this if isinstance(node, exp.Alias) else node
        alias = node.alias if isinstance(node, exp.Alias) else None
        if isinstance(inner, exp.Column):
            columns.append(_key(inner, alias, table, keys, sql))
            continue
        aggregate, default = _aggregate(inner, table, sql)
        if aggregate not in aggregates:
            aggregates.append(aggregate)
        columns.append(ValueColumn(alias or default, aggregates.index(aggregate)))
    if not aggregates:
        raise refuse("a question needs an aggregate, such as COUNT(*): rows are never shown", sql)
    taken: set[str] = set()
    for column in columns:
        for name in column.names:
            if name.lower() in taken:
                raise refuse(f"two columns would be called {name}: rename one with AS", sql)
            taken.add(name.lower())
    return tuple(columns), tuple(aggregates)


def _key(node: exp.Column, alias: str | None, table: Table, keys: tuple[str, ...], sql: str) -> KeyColumn:
    column = find_column(node, table, sql)
    name = column.name
    if name not in keys:
        remedy = (
            f"add it to GROUP BY, or aggregate it as in SUM({name})" if isinstance(column, Bounded) else "group by it"
        )
        if isinstance(column, Id):
            remedy = "it names people or rows, and is never shown"
        raise refuse(f"{name} is neither a key nor inside an aggregate: {remedy}", sql, node)
    return KeyColumn(alias or name, keys.index(name))


def _aggregate(node: exp.Expr, table: Table, sql: str) -> tuple[Aggregate, str]:
    if isinstance(node, exp.Count) and isinstance(node.this, exp.Star) and not node.expressions:
        return Count(), "count"
    if isinstance(node, exp.Sum) and isinstance(node.this, exp.Column):
        column = find_column(node.this, table, sql)
        if not isinstance(column, Bounded) or isinstance(column, (Date, Timestamp)):
            raise refuse(f"SUM needs a number with declared bounds; {column.name} is a {column.type}", sql, node.this)
        return Sum(column.name), f"sum_{column.name}"
    raise refuse(f"no rule for {node.sql(dialect='duckdb')} yet: COUNT(*) and SUM(column) are answered", sql, node)
