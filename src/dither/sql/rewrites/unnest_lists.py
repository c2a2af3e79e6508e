"""UNNEST of a list that is written out: `IN UNNEST([1, 2])` is `IN (1, 2)`; rows are repeated, once
for each member.

`SELECT UNNEST([a, b]) AS x FROM t` is `SELECT a AS x FROM t UNION ALL SELECT b AS x FROM t`, and so
is `FROM t, UNNEST([a, b]) AS u(x)`: how many rows one row becomes is known from the text.
"""

from __future__ import annotations

from sqlglot import exp

from dither.catalog import Catalog
from dither.sql.per_unit import has_aggregates
from dither.sql.tree_nodes import find_nodes

MOST_MEMBERS = 50


def rewrite_unnest(query: exp.Query, catalog: Catalog) -> exp.Query:
    """Write out every UNNEST of a list that can be; any other stays, and is refused."""
    return write_lists(query)


def write_lists(query: exp.Query) -> exp.Query:
    """As `rewrite_unnest`, which no catalog is needed for."""
    for node in find_nodes(query, exp.In):
        members = _read_constants(node)
        if members is not None:
            node.replace(exp.In(this=node.this.copy(), expressions=members))
    for select in reversed(find_nodes(query, exp.Select)):
        _move_into_from(select)
    for select in reversed(find_nodes(query, exp.Select)):
        _repeat_select(select)
    return query


def _read_list(node: exp.Expr | None) -> list[exp.Expr] | None:
    """The members of a list that is written out: at least one, and not too many."""
    if not isinstance(node, exp.Array) or not 1 <= len(node.expressions) <= MOST_MEMBERS:
        return None
    return list(node.expressions)


def _read_constants(node: exp.In) -> list[exp.Expr] | None:
    """The constants of `IN UNNEST([...])` and `IN (SELECT UNNEST([...]))`."""
    unnest = node.args.get("unnest")
    query = node.args.get("query")
    listed: exp.Expr | None = None
    if isinstance(unnest, exp.Unnest) and len(unnest.expressions) == 1:
        listed = unnest.expressions[0]
    elif query is not None and isinstance(query.this, exp.Select):
        clauses = [clause for clause, value in query.this.args.items() if value]
        output = query.this.expressions[0].unalias()
        is_alone = clauses == ["expressions"] and len(query.this.expressions) == 1
        listed = output.this if is_alone and isinstance(output, exp.Explode) else None
    members = _read_list(listed)
    if members is None or any(member.find(exp.Column, exp.Query) for member in members):
        return None
    return [member.copy() for member in members]


def _move_into_from(select: exp.Select) -> None:
    """Write `FROM t, UNNEST([...]) AS u(x)` as a subquery in FROM that shows x beside all of t."""
    clause = select.args.get("from_")
    joins = select.args.get("joins") or []
    if clause is None or len(joins) != 1 or not isinstance(joins[0].this, exp.Unnest):
        return
    join = joins[0]
    source = clause.this
    is_plain = str(join.kind or "").upper() in ("", "CROSS") and not any(
        join.args.get(part) for part in ("on", "using", "side", "method")
    )
    alias = join.this.args.get("alias")
    has_name = alias is not None and bool(source.alias_or_name)
    if not is_plain or not has_name or join.this.args.get("offset") or source.args.get("joins"):
        return
    if len(join.this.expressions) != 1 or _read_list(join.this.expressions[0]) is None:
        return
    columns = alias.args.get("columns") or []
    name = columns[0].name if columns else alias.name
    for column in find_nodes(select, exp.Column):
        is_value = (
            column.name.lower() == name.lower() and column.table.lower() == alias.name.lower()
        )
        if is_value and column.parent_select is select:
            column.set("table", exp.to_identifier(source.alias_or_name))
    value = exp.alias_(exp.Explode(this=join.this.expressions[0].copy()), name)
    rows = exp.Select(expressions=[exp.Star(), value]).from_(source.copy())
    select.set("from_", exp.From(this=rows.subquery(source.alias_or_name)))
    select.set("joins", None)


def _repeat_select(select: exp.Select) -> None:
    """Write a subquery with one UNNEST among its outputs as a UNION ALL over the members."""
    outputs = [output for output in select.expressions if output.find(exp.Explode)]
    if len(outputs) != 1 or not isinstance(outputs[0].unalias(), exp.Explode):
        return
    members = _read_list(outputs[0].unalias().this)
    clauses = ("group", "having", "distinct", "order", "limit", "offset", "qualify", "with_")
    has_more = has_aggregates(select) or any(select.args.get(clause) for clause in clauses)
    if members is None or has_more or not isinstance(select.parent, exp.Subquery):
        return
    name = outputs[0].alias or "unnest"
    position = next(i for i, output in enumerate(select.expressions) if output is outputs[0])
    union: exp.Query | None = None
    for member in members:
        copied = select.copy()
        copied.expressions[position].replace(exp.alias_(member.copy(), name))
        union = copied if union is None else exp.union(union, copied, distinct=False)
    assert union is not None
    select.replace(union)
