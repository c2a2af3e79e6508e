"""Cells as one SQL statement: a code per key column, one exact integer per aggregate."""

from __future__ import annotations

from dither.catalog import Catalog
from dither.data.engines.duckdb import name
from dither.data.lower.conditions import condition_sql
from dither.plan.algebra import Aggregate, Cells, Count, Sum, conditions_of
from dither.plan.domains import KeyDomain, bounds, key_domains, table_of


def cells_sql(query: Cells, catalog: Catalog) -> str:
    """SELECT code of each group present, aggregates; groups in no order, absent ones missing."""
    table = table_of(query.plan, catalog)
    domains = key_domains(query, catalog)
    code = _code(domains)
    measured = ", ".join(_aggregate(aggregate, query, catalog) for aggregate in query.columns)
    parts = [condition_sql(condition, table) for condition in conditions_of(query.plan)]
    where = f" WHERE {' AND '.join(parts)}" if parts else ""
    grouped = " GROUP BY 1" if domains else ""
    return f"SELECT {code} AS code, {measured} FROM {name(table.name)}{where}{grouped}"


def _code(domains: tuple[KeyDomain, ...]) -> str:
    """SQL: the position of a row's cell in the order of the declared keys, last key fastest."""
    code = "CAST(0 AS BIGINT)"
    for domain in domains:
        value = f"CAST({name(domain.column)} AS BIGINT) - ({domain.first})"
        if domain.has_null:
            value = f"coalesce({value}, {domain.size})"
        code = value if domain is domains[0] else f"({code}) * {domain.codes} + ({value})"
    return code


def _aggregate(aggregate: Aggregate, query: Cells, catalog: Catalog) -> str:
    """SQL: an exact integer; the argument of a sum is clamped to the bounds that its sensitivity used."""
    match aggregate:
        case Count():
            return "CAST(count(*) AS HUGEINT)"
        case Sum(column):
            domain = bounds(column, query.plan, catalog)
            value = f"CAST({name(column)} AS BIGINT)"
            clamped = f"greatest({domain.low}, least({domain.high}, {value}))"
            return f"coalesce(sum(CASE WHEN {name(column)} IS NULL THEN 0 ELSE {clamped} END), 0)"
    raise AssertionError(f"no lowering for {type(aggregate).__name__}")
