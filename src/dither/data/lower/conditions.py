"""Conditions as SQL over registered integers: nothing can raise or depend on the order of rows."""

from __future__ import annotations

from fractions import Fraction
from math import ceil, floor

from dither.data.engines.duckdb import name, text
from dither.plan.domain import Columns
from dither.plan.expressions import And, Compare, Condition, Expression, Holds, IsNull, Not, Or


def expressions_in(condition: Condition) -> list[Expression]:
    """The expressions that a condition needs computed."""
    match condition:
        case Holds(expression):
            return [expression]
        case Not(inner):
            return expressions_in(inner)
        case And(parts) | Or(parts):
            return [each for part in parts for each in expressions_in(part)]
    return []


def condition_sql(condition: Condition, columns: Columns, computed: dict[Expression, str]) -> str:
    """SQL of a condition; three-valued, as in the plan."""
    match condition:
        case IsNull(column):
            return f"({name(column)} IS NULL)"
        case Holds(expression):
            return f"({computed[expression]} = 1)"
        case Not(inner):
            return f"(NOT {condition_sql(inner, columns, computed)})"
        case And(parts):
            return "(" + " AND ".join(condition_sql(part, columns, computed) for part in parts) + ")"
        case Or(parts):
            return "(" + " OR ".join(condition_sql(part, columns, computed) for part in parts) + ")"
        case Compare():
            return _compare(condition, columns)
    raise AssertionError(f"no lowering for {type(condition).__name__}")


def _compare(compare: Compare, columns: Columns) -> str:
    domain, column = columns[compare.column], name(compare.column)
    if isinstance(compare.constant, str):
        if domain.kind == "category":
            return f"({column} {compare.operator} {domain.labels.index(compare.constant)})"
        return f"({column} {compare.operator} {text(compare.constant)})"
    assert isinstance(compare.constant, Fraction)
    at = compare.constant / domain.step
    if compare.operator in ("=", "<>") and at.denominator != 1:
        truth = "false" if compare.operator == "=" else "true"
        return f"(CASE WHEN {column} IS NULL THEN NULL ELSE {truth} END)"
    whole = floor(at) if compare.operator in ("<=", ">") else ceil(at)
    first, last = domain.listed  # beyond the values all constants compare alike
    low, high = min(first, domain.low) - 1, max(last, domain.high) + 1
    return f"({column} {compare.operator} {max(low, min(high, whole))})"
