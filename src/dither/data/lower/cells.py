"""Queries as one SQL statement each: the keys without a list, a code for the listed ones, exact integers."""

from __future__ import annotations

from dither.data.engines.duckdb import name
from dither.data.lower.aggregates import aggregate_sql
from dither.data.lower.columns import UNIT, holds_null, integer, listed, null_code, recoded
from dither.data.lower.plan import Lowering, plan_sql
from dither.plan.algebra import Keys, Quantiles, Query
from dither.plan.domain import Columns
from dither.plan.domains import KeyDomain, key_domains_in, open_keys_in
from dither.plan.functions.table import clamped
from dither.plan.grids import points_in


def query_sql(query: Query, at: Lowering) -> str:
    """SELECT unlisted keys, then what the query asks for; groups in no order, absent ones missing."""
    columns = at.analysed(query.plan).columns
    unlisted = list(open_keys_in(query.keys, columns))
    source = f"({plan_sql(query.plan, at)})"
    if isinstance(query, Keys):
        return f"SELECT {listed(unlisted)}, count(DISTINCT {UNIT}) FROM {source} GROUP BY {listed(unlisted)}"
    shown = [name(key) for key in unlisted]
    shown.append(f"{_code(key_domains_in(query.keys, columns), columns)} AS code")
    if isinstance(query, Quantiles):
        points, value = points_in(query.column, columns), integer(name(query.column), columns[query.column])
        place = f"CAST(({clamped(value, points.low, points.high)} - ({points.low})) // {points.step} AS BIGINT)"
        shown.append(f"{place} AS place")
        measured = "count(*)"
        if holds_null(columns[query.column]):
            source += f" WHERE {name(query.column)} <> {null_code(columns[query.column])}"
    else:
        measured = ", ".join(aggregate_sql(aggregate, columns) for aggregate in query.columns)
    groups = ", ".join(str(1 + place) for place in range(len(shown)))
    grouped = f" GROUP BY {groups}" if query.keys or isinstance(query, Quantiles) else ""
    return f"SELECT {', '.join(shown)}, {measured} FROM {source}{grouped}"


def _code(domains: tuple[KeyDomain, ...], columns: Columns) -> str:
    """SQL: the position of a row's cell in the order of the declared keys, last key fastest."""
    code = "CAST(0 AS BIGINT)"
    for domain in domains:
        value = recoded(name(domain.column), columns[domain.column], domain.first + domain.size)
        value = f"CAST({value} - ({domain.first}) AS BIGINT)"
        code = value if domain is domains[0] else f"({code}) * {domain.codes} + ({value})"
    return code
