"""`(SELECT 5)` is the constant 5."""

from __future__ import annotations

from sqlglot import exp

from dither.catalog import Catalog
from dither.sql.tree_nodes import find_nodes


def rewrite_constant_subqueries(query: exp.Query, catalog: Catalog) -> exp.Query:
    """Put the constant of a subquery without FROM in its place.

    It reads no table and no column, and has one row.
    """
    for subquery in reversed(find_nodes(query, exp.Subquery)):  # the innermost first
        select = subquery.this
        in_expression = not isinstance(
            subquery.parent, (exp.From, exp.Join, exp.In, exp.Exists, exp.Any, exp.All, exp.CTE)
        )
        if in_expression and not subquery.alias and _is_constant(select):
            subquery.replace(exp.Paren(this=select.expressions[0].unalias().copy()))
    return query


def _is_constant(select: exp.Expr) -> bool:
    """Whether a SELECT reads no table and shows one expression of constants."""
    clauses = [clause for clause, value in select.args.items() if value]
    return (
        isinstance(select, exp.Select)
        and clauses == ["expressions"]
        and len(select.expressions) == 1
        and not select.expressions[0].find(exp.Column, exp.Query, exp.AggFunc, exp.Star, exp.Window)
    )
