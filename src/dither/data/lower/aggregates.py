"""Exact aggregates: integers, clamped arguments, no order of rows, no float."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from dither.data.lower.columns import UNIT, holds_null, integer, null_code, null_flag
from dither.data.lower.dialect import dialect
from dither.data.lower.functions.sql import clamp_value
from dither.data.quoting import name
from dither.plan.algebra import (
    Aggregate,
    Count,
    CountDistinct,
    CountUnits,
    CountValues,
    Maximum,
    Minimum,
    Sum,
)
from dither.plan.domain import Columns, Domain


def aggregate_sql(
    aggregate: Aggregate,
    columns: Columns,
    shifts: Mapping[str, int] = {},
    inside: Collection[str] = (),
) -> str:
    """Write the SQL of an aggregate, which is an exact integer.

    The argument of a sum is clamped to the bounds that its sensitivity used. `shifts` maps columns
    that stand for their value less a constant to that constant (lower/shifted.py). `inside`:
    columns that no row brings here from outside their bounds (lower/stored.py).
    """
    match aggregate:
        case Count():
            return _wide("count(*)")
        case CountUnits():
            return _wide(f"count(DISTINCT {UNIT})")
        case CountValues(column):
            return _wide(_count(name(column), columns[column]))
        case CountDistinct(column):
            return _wide(_count_distinct(name(column), columns[column]))
        case Sum(column):
            domain = columns[column]
            summand = name(column) if column in inside else _summand(name(column), domain)
            total = dialect().sum(summand, domain.largest)
            if by := shifts.get(column, 0):
                total += f" - {_wide(str(by))} * count(*)"
            return f"coalesce({total}, 0)"
        case Minimum(column):
            # null is above all values: it stays where there is nothing else
            return f"min({name(column)})"
        case Maximum(column):
            return _maximum(name(column), columns[column])
    raise AssertionError(f"no lowering for {type(aggregate).__name__}")


def _wide(sql: str) -> str:
    return f"CAST({sql} AS {dialect().wide_type})"


def _count(column: str, domain: Domain) -> str:
    """Write the SQL that counts the values of a column that are not null."""
    return (
        f"coalesce(sum(1 - {null_flag(column, domain)}), 0)"
        if holds_null(domain)
        else f"count({column})"
    )


def _count_distinct(column: str, domain: Domain) -> str:
    """Null is above all values, so it is among them if it is the largest."""
    if not holds_null(domain):
        return f"count(DISTINCT {column})"
    return f"(count(DISTINCT {column}) - coalesce({null_flag(f'max({column})', domain)}, 0))"


def _summand(column: str, domain: Domain) -> str:
    value = clamp_value(integer(column, domain), domain.low, domain.high)
    return f"({value}) * (1 - {null_flag(column, domain)})" if holds_null(domain) else value


def _maximum(column: str, domain: Domain) -> str:
    """Write the SQL of a maximum.

    Null is stored above all values: it is moved below them, and back where nothing else is there.
    """
    if not holds_null(domain):
        return f"max({column})"
    below = domain.low - 1
    wide = integer(column, domain)
    # One literal, so that it has a type that holds it: the engine subtracts narrowly.
    moved = null_code(domain) - below
    maximum = f"max({wide} - {null_flag(column, domain)} * {moved})"
    is_below = dialect().truth(f"{maximum} = {below}", dialect().flag_type)
    return f"({maximum} + {is_below} * {moved})"
