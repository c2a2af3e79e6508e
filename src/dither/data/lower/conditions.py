"""Conditions as SQL over registered integers: nothing can raise or depend on the order of rows.

A condition is true, false or unknown; a filter asks whether it is true, a NOT whether its part is
false. Both are written without NOT and without a null: an integer column's null is a value that
neither answer accepts.
"""

from __future__ import annotations

from fractions import Fraction
from math import ceil, floor

from dither.data.lower.columns import holds_null, null_code
from dither.data.lower.dialect import dialect
from dither.data.lower.expressions import Lowered
from dither.data.quoting import name
from dither.plan.domain import Columns, Domain, is_stored
from dither.plan.expressions import (
    And,
    Column,
    Compare,
    Condition,
    Expression,
    Holds,
    IsNull,
    Not,
    Or,
)
from dither.plan.narrow import OPPOSITE

Computed = dict[Expression, Lowered]


def expressions_in(condition: Condition) -> list[Expression]:
    """List the expressions that a condition needs computed."""
    match condition:
        case Holds(expression):
            return [expression]
        case Not(inner):
            return expressions_in(inner)
        case And(operands) | Or(operands):
            return [expression for operand in operands for expression in expressions_in(operand)]
    return []


def condition_sql(
    condition: Condition, columns: Columns, computed: Computed, *, answer: bool = True
) -> str:
    """Write SQL that is true where a condition has this answer; where it is unknown it has none."""
    match condition:
        case IsNull(column):
            return _is_null(name(column), columns[column], answer)
        case Holds(Column(column)):
            # As it is stored: null may be the integer 1, where only false is a value.
            return _compare(name(column), "=", Fraction(int(answer)), columns[column])
        case Holds(expression):
            return computed[expression].is_one if answer else computed[expression].is_zero
        case Not(inner):
            return condition_sql(inner, columns, computed, answer=not answer)
        case Or((Compare(column, "=", Fraction()), *_) as operands) if answer and _are_equalities(
            column, operands
        ):
            # One search of a list in place of many comparisons. Constants between the steps of the
            # grid or beyond the domain equal no value. SQL has no empty list: high + 1 is none too.
            domain = columns[column]
            listed = ", ".join(
                str(number.numerator)
                for number in (operand.constant / domain.step for operand in operands)  # type: ignore[union-attr, operator]
                if number.denominator == 1 and abs(number) <= domain.largest
            )
            return _and_not_null(
                name(column), f"{name(column)} IN ({listed or domain.high + 1})", domain
            )
        case And(operands) | Or(operands):
            word = " AND " if isinstance(condition, And) == answer else " OR "
            return (
                "("
                + word.join(
                    condition_sql(operand, columns, computed, answer=answer) for operand in operands
                )
                + ")"
            )
        case Compare(column, operator, constant):
            return _compare(
                name(column), operator if answer else OPPOSITE[operator], constant, columns[column]
            )
    raise AssertionError(f"no lowering for {type(condition).__name__}")


def _are_equalities(column: str, operands: tuple[Condition, ...]) -> bool:
    """Whether each of these conditions says that this column equals a number."""
    return all(
        isinstance(operand, Compare)
        and (operand.column, operand.operator) == (column, "=")
        and isinstance(operand.constant, Fraction)
        for operand in operands
    )


def _is_null(column: str, domain: Domain, answer: bool) -> str:
    """Write SQL that is true where a column is null, or with `answer` False where it is not."""
    if not is_stored(domain):
        return f"({column} IS {'' if answer else 'NOT '}NULL)"
    if not domain.nullable:
        return "false" if answer else "true"
    return f"({column} {'=' if answer else '<>'} {null_code(domain)})"


def _compare(column: str, operator: str, constant: Fraction | str, domain: Domain) -> str:
    """Write SQL that compares a column with a constant, in grid steps; false where it is null."""
    if isinstance(constant, str):
        if domain.kind != "category":
            return f"({column} {operator} {dialect().text(constant)})"
        return _and_not_null(column, f"{column} {operator} {domain.labels.index(constant)}", domain)
    grid_value = constant / domain.step
    if operator in ("=", "<>") and grid_value.denominator != 1:
        return "false" if operator == "=" else _and_not_null(column, "true", domain)
    whole = floor(grid_value) if operator in ("<=", ">") else ceil(grid_value)
    first, last = domain.listed  # beyond the values all constants compare alike
    low = min(first, domain.low) - 1
    high = max(last, domain.high) + 1
    return _and_not_null(column, f"{column} {operator} {max(low, min(high, whole))}", domain)


def _and_not_null(column: str, test: str, domain: Domain) -> str:
    return f"({test} AND {column} <> {null_code(domain)})" if holds_null(domain) else f"({test})"
