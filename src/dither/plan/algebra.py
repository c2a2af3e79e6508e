"""Plans: relational algebra over registered tables, as frozen public data.

A plan speaks of a registered table, whose rows are already cast, clamped, rounded and limited. Conditions compare one
column with constants in that column's own units (a number, a label, a day, a truth value) under SQL's three-valued
logic. What a plan means is fixed by two independent readers that tests hold against each other: `data/lower` (engine
SQL) and `audit/naive.py` (Python lists).

>>> adults = Filter(Scan("patients"), Compare("age", ">=", Fraction(18)))
>>> plan_hash(adults) == plan_hash(Filter(Scan("patients"), Compare("age", ">=", Fraction(18))))
True
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from fractions import Fraction
from typing import Any, Literal, TypeAlias

from dither.canonical import digest, fraction_text

Operator = Literal["=", "<>", "<", "<=", ">", ">="]
Constant: TypeAlias = Fraction | str


@dataclass(frozen=True)
class Compare:
    """column <operator> constant; a Fraction for numbers, days and truth values, a text for categories."""

    column: str
    operator: Operator
    constant: Constant


@dataclass(frozen=True)
class IsNull:
    """column IS NULL: true or false, never unknown."""

    column: str


@dataclass(frozen=True)
class Not:
    """NOT condition; unknown stays unknown."""

    condition: Condition


@dataclass(frozen=True)
class And:
    """All of at least one condition."""

    conditions: tuple[Condition, ...]


@dataclass(frozen=True)
class Or:
    """Any of at least one condition."""

    conditions: tuple[Condition, ...]


Condition: TypeAlias = Compare | IsNull | Not | And | Or


@dataclass(frozen=True)
class Scan:
    """All rows of a registered table."""

    table: str


@dataclass(frozen=True)
class Filter:
    """The rows of `source` for which the condition is true (not unknown)."""

    source: Plan
    condition: Condition


Plan: TypeAlias = Scan | Filter


@dataclass(frozen=True)
class Count:
    """COUNT(*): rows."""


@dataclass(frozen=True)
class Sum:
    """SUM(column) on the column's grid; nulls are skipped and an empty group sums to 0."""

    column: str


Aggregate: TypeAlias = Count | Sum


@dataclass(frozen=True)
class Cells:
    """One integer per key and aggregate: the query of counts and sums. Its shape is public."""

    plan: Plan
    keys: tuple[str, ...]
    columns: tuple[Aggregate, ...]


Query: TypeAlias = Cells


def scan_of(plan: Plan) -> Scan:
    """The table at the bottom of a plan.

    >>> scan_of(Filter(Scan("patients"), IsNull("age")))
    Scan(table='patients')
    """
    while not isinstance(plan, Scan):
        plan = plan.source
    return plan


def conditions_of(plan: Plan) -> tuple[Condition, ...]:
    """The conditions that every row of the plan meets, from the bottom up."""
    return () if isinstance(plan, Scan) else (*conditions_of(plan.source), plan.condition)


def to_json(node: Any) -> dict[str, Any]:
    """Canonical dict of a query, plan, condition or aggregate."""
    tree: dict[str, Any] = {"type": type(node).__name__.lower(), "v": 1}
    for item in fields(node):
        tree[item.name] = _value(getattr(node, item.name))
    return tree


def _value(value: Any) -> Any:
    if isinstance(value, str):
        return value
    if isinstance(value, Fraction):
        return {"number": fraction_text(value)}  # apart from the text "1/2"
    if isinstance(value, tuple):
        return [_value(part) for part in value]
    return to_json(value)


def plan_hash(node: Any) -> str:
    """sha256 of the canonical JSON."""
    return digest(to_json(node))
