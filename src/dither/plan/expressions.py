"""Expressions and conditions of plans, as frozen public data.

A value is a number on an exact grid, a day, a second, a truth value, a label or a text. Conditions
follow SQL's three-valued logic. What a function means is said in the function table
(`plan/functions`) and, independently, in `audit/naive_functions.py`.

>>> Call("multiply", (Value("number", Fraction(2)), Column("salary")))
Call(function='multiply', arguments=(Value(kind='number', value=Fraction(2, 1)), Column(...)))
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, TypeAlias

from dither.stored import stored

Operator = Literal["=", "<>", "<", "<=", ">", ">="]
Constant: TypeAlias = Fraction | str
Kind = Literal["number", "date", "timestamp", "boolean", "category", "text", "id"]


@stored("column", name="name")
@dataclass(frozen=True)
class Column:
    """A column of the source, by its name."""

    name: str


@stored("value", kind="kind", value="value")
@dataclass(frozen=True)
class Value:
    """A constant. Days and seconds count from 1970-01-01 (UTC), truth values are 0 and 1, texts are
    texts."""

    kind: Kind
    value: Constant


@stored("call", function="function", arguments="arguments")
@dataclass(frozen=True)
class Call:
    """A function of the table, applied."""

    function: str
    arguments: tuple[Expression, ...]


Expression: TypeAlias = Column | Value | Call


@stored("compare", column="column", operator="operator", constant="constant")
@dataclass(frozen=True)
class Compare:
    """column <operator> constant; a Fraction for numbers, days and truth values, a text for
    categories."""

    column: str
    operator: Operator
    constant: Constant


@stored("isnull", column="column")
@dataclass(frozen=True)
class IsNull:
    """column IS NULL: true or false, never unknown."""

    column: str


@stored("holds", expression="expression")
@dataclass(frozen=True)
class Holds:
    """A boolean expression is true (not false, not unknown)."""

    expression: Expression


@stored("not", condition="condition")
@dataclass(frozen=True)
class Not:
    """NOT condition; unknown stays unknown."""

    condition: Condition


@stored("and", conditions="conditions")
@dataclass(frozen=True)
class And:
    """All of at least one condition."""

    conditions: tuple[Condition, ...]


@stored("or", conditions="conditions")
@dataclass(frozen=True)
class Or:
    """Any of at least one condition."""

    conditions: tuple[Condition, ...]


Condition: TypeAlias = Compare | IsNull | Holds | Not | And | Or


def conjuncts(condition: Condition) -> tuple[Condition, ...]:
    """List the conditions that all hold where `condition` is true.

    Comparisons in expressions are among them.

    >>> conjuncts(Holds(Call("lt", (Column("age"), Value("number", Fraction(25))))))
    (Compare(column='age', operator='<', constant=Fraction(25, 1)),)
    """
    if isinstance(condition, And):
        return tuple(
            conjunct for operand in condition.conditions for conjunct in conjuncts(operand)
        )
    if isinstance(condition, Holds) and isinstance(condition.expression, Call):
        call = condition.expression
        if call.function == "and":
            return tuple(
                conjunct for operand in call.arguments for conjunct in conjuncts(Holds(operand))
            )
        if call.function in _COMPARISONS and len(call.arguments) == 2:
            left, right = call.arguments
            if isinstance(left, Column) and isinstance(right, Value):
                return (Compare(left.name, _COMPARISONS[call.function], right.value),)
    return (condition,)


_COMPARISONS: dict[str, Operator] = {
    "eq": "=",
    "ne": "<>",
    "lt": "<",
    "le": "<=",
    "gt": ">",
    "ge": ">=",
}
