"""Cells as one SQL statement: a code per key column, one exact integer per aggregate."""

from __future__ import annotations

from dither.data.engines.duckdb import name
from dither.data.lower.aggregates import aggregate_sql
from dither.data.lower.columns import integer
from dither.data.lower.plan import Lowering, plan_sql
from dither.plan.algebra import Cells
from dither.plan.domain import Columns
from dither.plan.domains import KeyDomain, key_domains_in


def cells_sql(query: Cells, at: Lowering) -> str:
    """SELECT code of each group present, aggregates; groups in no order, absent ones missing."""
    columns = at.analysed(query.plan).columns
    domains = key_domains_in(query.keys, columns)
    measured = ", ".join(aggregate_sql(aggregate, columns) for aggregate in query.columns)
    grouped = " GROUP BY 1" if domains else ""
    return f"SELECT {_code(domains, columns)} AS code, {measured} FROM ({plan_sql(query.plan, at)}){grouped}"


def _code(domains: tuple[KeyDomain, ...], columns: Columns) -> str:
    """SQL: the position of a row's cell in the order of the declared keys, last key fastest."""
    code = "CAST(0 AS BIGINT)"
    for domain in domains:
        value = integer(name(domain.column), columns[domain.column])
        value = f"CAST({value} - ({domain.first}) AS BIGINT)"
        if domain.has_null:
            value = f"coalesce({value}, {domain.size})"
        code = value if domain is domains[0] else f"({code}) * {domain.codes} + ({value})"
    return code
