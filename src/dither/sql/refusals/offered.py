"""A refused question in other words: SQL that means the same on every database, and is answered.

Each pass is a function, query and catalog in, query out. What the passes give is offered only where
it binds as it stands.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from dither.catalog import Catalog
from dither.errors import QueryError

_STRICT = (exp.Count, exp.Sum, exp.Avg, exp.Min, exp.Max)


def offer_rewrite(
    query: exp.Query, catalog: Catalog, bind: Callable[[exp.Query], object]
) -> str | None:
    """Find a question that means the same and is answered; None where no pass finds one.

    `bind` raises QueryError for a question that is refused.

    >>> from dither.catalog import parse as read_catalog
    >>> from dither.cli.demo import CATALOG
    >>> from dither.sql.parse import parse
    >>> refused = parse("WITH RECURSIVE v AS (SELECT cost FROM visits) SELECT COUNT(*) FROM v")
    >>> offer_rewrite(refused, read_catalog(CATALOG), lambda query: query)
    'WITH v AS (SELECT cost FROM visits) SELECT COUNT(*) FROM v'
    """
    rewritten = query.copy()
    for apply in _PASSES:
        rewritten = apply(rewritten, catalog)
    if rewritten == query:
        return None
    try:
        bind(rewritten.copy())
    except (QueryError, RecursionError):
        return None
    return rewritten.sql(dialect="duckdb")


def _write_semi_joins(query: exp.Query, catalog: Catalog) -> exp.Query:
    """Rewrite `a SEMI JOIN b ON ...`, which asks whether there is a row, as `WHERE EXISTS (...)`.

    An ANTI JOIN becomes NOT EXISTS.
    """
    for select in list(query.find_all(exp.Select)):
        for join in list(select.args.get("joins") or []):
            kind = str(join.kind or join.side or "").upper()
            on = join.args.get("on")
            is_last = join is select.args["joins"][-1]
            if kind not in ("SEMI", "ANTI") or on is None or not is_last:
                continue
            rows = exp.select("1").from_(join.this.copy()).where(on.copy())
            test: exp.Expr = exp.Exists(this=rows)
            select.set("joins", select.args["joins"][:-1] or None)
            select.where(exp.Not(this=test) if kind == "ANTI" else test, copy=False)
    return query


def _write_any_as_in(query: exp.Query, catalog: Catalog) -> exp.Query:
    """Rewrite `x = ANY (SELECT ...)` as `x IN (SELECT ...)`."""
    for node in list(query.find_all(exp.EQ)):
        rows = node.expression.this if isinstance(node.expression, exp.Any) else None
        if isinstance(rows, (exp.Subquery, exp.Select)) and node.parent is not None:
            subquery = rows if isinstance(rows, exp.Subquery) else exp.Subquery(this=rows.copy())
            node.replace(exp.In(this=node.this.copy(), query=subquery.copy()))
    return query


def _drop_recursive(query: exp.Query, catalog: Catalog) -> exp.Query:
    """Rewrite WITH RECURSIVE whose queries do not name themselves as WITH."""
    for clause in query.find_all(exp.With):
        names = {cte.alias.lower() for cte in clause.expressions}
        read = {
            table.name.lower() for cte in clause.expressions for table in cte.find_all(exp.Table)
        }
        if clause.args.get("recursive") and not names & read:
            clause.set("recursive", False)
    return query


def _count_in_where(query: exp.Query, catalog: Catalog) -> exp.Query:
    """Rewrite a lone `SELECT COUNT_IF(EXISTS (...))` as `SELECT COUNT(*) ...

    WHERE EXISTS (...)`.
    """
    clauses = ("group", "having", "order", "distinct", "qualify")
    if not isinstance(query, exp.Select) or len(query.expressions) != 1:
        return query
    output = query.expressions[0]
    count = output.unalias()
    if any(query.args.get(clause) for clause in clauses) or not isinstance(count, exp.CountIf):
        return query
    condition = count.this
    if isinstance(condition.unnest(), (exp.Exists, exp.Not)) and condition.find(exp.Exists):
        count.replace(exp.Count(this=exp.Star()))
        query.where(condition.copy(), copy=False)
    return query


def _join_where_unmatched_rows_add_nothing(query: exp.Query, catalog: Catalog) -> exp.Query:
    """Rewrite `public LEFT JOIN private` as `JOIN` if only private columns are aggregated.

    A public row without a match has nulls in the private columns, which these aggregates leave out.
    """
    joins = query.args.get("joins") or []
    is_plain = isinstance(query, exp.Select) and len(joins) == 1 and not query.args.get("where")
    if not is_plain or query.args.get("group") or str(joins[0].side).upper() != "LEFT":
        return query
    private = {table.name.lower() for table in catalog.private_tables}
    join = joins[0]
    name = join.this.alias_or_name.lower()
    if not isinstance(join.this, exp.Table) or join.this.name.lower() not in private:
        return query
    outputs = [output.unalias() for output in query.selects]
    if all(
        isinstance(output, _STRICT)
        and isinstance(output.this, exp.Column)
        and output.this.table.lower() == name
        and not output.expressions
        for output in outputs
    ):
        join.set("side", None)
    return query


_PASSES = (
    _write_semi_joins,
    _write_any_as_in,
    _drop_recursive,
    _count_in_where,
    _join_where_unmatched_rows_add_nothing,
)
