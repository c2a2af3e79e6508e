"""What the SQL of all functions shares: arguments with their SQL, widths, grids and division.

A function's SQL is *total*: it cannot raise, whatever rows the engine feeds it and in whatever
order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from dither.data.lower.dialect import dialect
from dither.errors import RefusedError
from dither.plan.domain import INTEGERS, LIMIT, Domain
from dither.plan.functions.table import Arguments, scaled
from dither.rules import PrivacyRule


@dataclass(frozen=True)
class SqlArguments(Arguments):
    """The arguments of one call with their SQL.

    Column names or literals, so that repeating one costs nothing.
    """

    sql: tuple[str, ...] = ()


FunctionSql: TypeAlias = Callable[[SqlArguments, Domain], str]
"""Writes the SQL of one call from its arguments and the domain of its result."""


def cast(sql: str, *sizes: int) -> str:
    """Write a cast to an integer type that holds every size named.

    Raises RefusedError above 37 digits.
    """
    largest = max(map(abs, sizes))
    if largest >= LIMIT:
        raise RefusedError(
            "an intermediate value could have more than 37 digits", rule=PrivacyRule.WIDTHS
        )
    return f"CAST({sql} AS {dialect().integer_type(largest)})"


def divide_floor(top: str, bottom: str, largest: int = 0) -> str:
    """SQL of floor(top / bottom) for bottom > 0, where division cuts towards zero.

    Both are integers up to `largest`.

    >>> divide_floor("a", "2")
    '((a) // (2) - CAST((a) % (2) < 0 AS BIGINT))'
    """
    quotient = dialect().divide(f"({top})", f"({bottom})", largest)
    return f"({quotient} - {dialect().truth(f'({top}) % ({bottom}) < 0')})"


def clamp_value(sql: str, low: int | str, high: int | str) -> str:
    """SQL of a value moved between two ends.

    Null stays null, and no row takes another path than its neighbours.

    >>> clamp_value("x", 0, 5)
    'CASE WHEN x < 0 THEN 0 WHEN x > 5 THEN 5 ELSE x END'
    """
    return f"CASE WHEN {sql} < {low} THEN {low} WHEN {sql} > {high} THEN {high} ELSE {sql} END"


def scaled_sql(a: SqlArguments) -> list[str]:
    """Write the SQL of all arguments on their common grid."""
    _, factors = a.common()
    largest = max(abs(end) for interval in scaled(a)[0] for end in interval)
    return [
        f"({cast(sql, largest)}{f' * {factor}' * (factor != 1)})"
        for sql, factor in zip(a.sql, factors, strict=True)
    ]


def aligned_sql(a: SqlArguments) -> tuple[str, ...]:
    """Write the SQL of all arguments as one kind on one grid.

    It follows `plan.functions.align.align_arguments`, which does the same to their domains.
    """
    kinds = {domain.kind for domain in a.domains}
    if kinds == {"number"}:
        _, factors = a.common()
        largest = max(
            domain.largest * factor for domain, factor in zip(a.domains, factors, strict=True)
        )
        return tuple(
            cast(sql, largest) + f" * {factor}" * (factor != 1)
            for sql, factor in zip(a.sql, factors, strict=True)
        )
    if kinds == {"category", "text"}:
        labels = next(domain.labels for domain in a.domains if domain.kind == "category")
        pairs = enumerate(zip(a.domains, a.sql, strict=True))
        return tuple(
            str(labels.index(a.text(i))) if domain.kind == "text" else sql
            for i, (domain, sql) in pairs
        )
    return tuple(cast(sql, 0) for sql in a.sql) if kinds <= set(INTEGERS) else a.sql
