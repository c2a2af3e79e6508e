"""Conditions as SQL over registered integers: comparisons with constants, so nothing can raise or depend on order."""

from __future__ import annotations

from fractions import Fraction
from math import ceil, floor

from dither.catalog import Bounded, Category, Table
from dither.data.engines.duckdb import name
from dither.plan.algebra import And, Compare, Condition, IsNull, Not, Or

_SQL = {"=": "=", "<>": "<>", "<": "<", "<=": "<=", ">": ">", ">=": ">="}


def condition_sql(condition: Condition, table: Table) -> str:
    """SQL of a condition; three-valued, as in the plan."""
    match condition:
        case IsNull(column):
            return f"({name(column)} IS NULL)"
        case Not(inner):
            return f"(NOT {condition_sql(inner, table)})"
        case And(parts):
            return "(" + " AND ".join(condition_sql(part, table) for part in parts) + ")"
        case Or(parts):
            return "(" + " OR ".join(condition_sql(part, table) for part in parts) + ")"
        case Compare():
            return _compare(condition, table)
    raise AssertionError(f"no lowering for {type(condition).__name__}")


def _compare(compare: Compare, table: Table) -> str:
    column = table.column(compare.column)
    operator = _SQL[compare.operator]  # a fixed word: no text of a request ever becomes SQL
    if isinstance(column, Category):
        return f"({name(column.name)} {operator} {column.key_rows().index(str(compare.constant))})"
    assert isinstance(column, Bounded) and isinstance(compare.constant, Fraction)
    at = compare.constant / column.step
    if compare.operator in ("=", "<>") and at.denominator != 1:
        truth = "false" if compare.operator == "=" else "true"
        return f"(CASE WHEN {name(column.name)} IS NULL THEN NULL ELSE {truth} END)"
    whole = floor(at) if compare.operator in ("<=", ">") else ceil(at)
    low, high = column.lower_grid - 1, column.upper_grid + 1  # beyond the bounds all constants compare alike
    return f"({name(column.name)} {operator} {max(low, min(high, whole))})"
