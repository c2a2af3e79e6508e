"""Exact aggregates: integers, clamped arguments, no order of rows, no float."""

from __future__ import annotations

from dither.data.engines.duckdb import name
from dither.data.lower.columns import OWNER, integer
from dither.plan.algebra import Aggregate, Count, CountDistinct, CountUnits, CountValues, Maximum, Minimum, Sum
from dither.plan.domain import Columns
from dither.plan.functions.table import clamped


def aggregate_sql(aggregate: Aggregate, columns: Columns) -> str:
    """SQL: an exact integer; the argument of a sum is clamped to the bounds that its sensitivity used."""
    match aggregate:
        case Count():
            return "CAST(count(*) AS HUGEINT)"
        case CountValues(column):
            return f"CAST(count({name(column)}) AS HUGEINT)"
        case CountDistinct(column):
            return f"CAST(count(DISTINCT {name(column)}) AS HUGEINT)"
        case CountUnits():
            return f"CAST(count(DISTINCT {OWNER}) AS HUGEINT)"
        case Sum(column):
            domain, quoted = columns[column], name(column)
            return f"coalesce(sum({clamped(integer(quoted, domain), domain.low, domain.high)}), 0)"
        case Minimum(column):
            return f"min({name(column)})"
        case Maximum(column):
            return f"max({name(column)})"
    raise AssertionError(f"no lowering for {type(aggregate).__name__}")
