"""Domains: which integers a column can hold in a plan, and which keys a GROUP BY returns. From the catalog alone."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor, prod
from typing import get_args

from dither.catalog import Boolean, Bounded, Catalog, Category, Column, Date, Integer, Table
from dither.errors import RefusedError
from dither.plan.algebra import (
    And,
    Cells,
    Compare,
    Condition,
    Filter,
    IsNull,
    Not,
    Operator,
    Or,
    Plan,
    Scan,
    Sum,
    conditions_of,
    scan_of,
)

MAX_CELLS = 1_000_000
Key = str | int | bool | float | datetime.date | None


@dataclass(frozen=True)
class Interval:
    """Grid integers from low to high, both included."""

    low: int
    high: int

    @property
    def largest(self) -> int:
        """The largest absolute value."""
        return max(abs(self.low), abs(self.high))


def table_of(plan: Plan, catalog: Catalog) -> Table:
    """The registered table under a plan."""
    return catalog.table(scan_of(plan).table)


def bounds(column: str, plan: Plan, catalog: Catalog) -> Interval:
    """Grid bounds of a numeric column in the rows of a plan, narrowed by the conditions every row meets.

    The narrowing is never trusted: an aggregate clamps its argument to exactly these bounds (privacy-rules 27).
    Contradicting conditions narrow nothing.
    """
    declared = table_of(plan, catalog).column(column)
    if not isinstance(declared, Bounded):
        raise RefusedError(f"{column} is no number", rule="an aggregate needs declared bounds")
    low, high = declared.lower_grid, declared.upper_grid
    for condition in conditions_of(plan):
        for part in _conjuncts(condition):
            if isinstance(part, Compare) and part.column == declared.name and isinstance(part.constant, Fraction):
                low, high = _narrow(low, high, part.operator, part.constant / declared.step)
    if low > high:
        low, high = declared.lower_grid, declared.upper_grid
    return Interval(low, high)


def _conjuncts(condition: Condition) -> tuple[Condition, ...]:
    if isinstance(condition, And):
        return tuple(part for each in condition.conditions for part in _conjuncts(each))
    return (condition,)


def _narrow(low: int, high: int, operator: str, at: Fraction) -> tuple[int, int]:
    match operator:
        case "<":
            return low, min(high, ceil(at) - 1)
        case "<=":
            return low, min(high, floor(at))
        case ">":
            return max(low, floor(at) + 1), high
        case ">=":
            return max(low, ceil(at)), high
        case "=":
            return max(low, ceil(at)), min(high, floor(at))
    return low, high


@dataclass(frozen=True)
class KeyDomain:
    """The keys of one GROUP BY column in the order of their codes; the last is NULL if nulls are kept.

    A row's code is its registered value minus `first`; null has the code after all others.
    """

    column: str
    first: int
    size: int
    has_null: bool

    @property
    def codes(self) -> int:
        return self.size + self.has_null


def key_domain(name: str, table: Table) -> KeyDomain:
    """The declared keys of a column."""
    column = table.column(name)
    if isinstance(column, Category):
        size = len(column.key_rows()) - (column.nulls.rule == "keep")
        return KeyDomain(column.name, 0, size, column.nulls.rule == "keep")
    if isinstance(column, Bounded):
        size = column.upper_grid - column.lower_grid + 1
        return KeyDomain(column.name, column.lower_grid, size, column.nulls.rule == "keep")
    raise RefusedError(f"{name} cannot be grouped by: it names people or rows", rule="ids are never keys")


def key_domains(query: Cells, catalog: Catalog) -> tuple[KeyDomain, ...]:
    """The domains of all keys; refused when their product is too large to return whole."""
    table = table_of(query.plan, catalog)
    domains = tuple(key_domain(name, table) for name in query.keys)
    cells = prod(domain.codes for domain in domains)
    if cells > MAX_CELLS:
        raise RefusedError(
            f"GROUP BY {', '.join(query.keys)} has {cells} declared keys: at most {MAX_CELLS} are returned. "
            "Group by a coarser column",
            rule="all declared keys are returned",
        )
    return domains


def shape(query: Cells, catalog: Catalog) -> tuple[int, int]:
    """(cells, aggregates): public, and the shape of what is measured and released."""
    return prod(domain.codes for domain in key_domains(query, catalog)), len(query.columns)


def key_values(name: str, table: Table) -> list[Key]:
    """What a person sees for each code of a key column, in order."""
    column = table.column(name)
    domain = key_domain(name, table)
    shown: list[Key] = [_shown(column, code, domain.first) for code in range(domain.size)]
    return [*shown, None] if domain.has_null else shown


def _shown(column: Column, code: int, first: int) -> Key:
    if isinstance(column, Category):
        return column.key_rows()[code]
    if isinstance(column, Boolean):
        return bool(code)
    if isinstance(column, Date):
        return datetime.date(1970, 1, 1) + datetime.timedelta(days=first + code)
    if isinstance(column, Integer):
        return first + code
    assert isinstance(column, Bounded)
    return float((first + code) * column.step)


def check_query(query: Cells, catalog: Catalog) -> None:
    """A query over declared columns, spelled as declared, with at least one aggregate."""
    if type(query) is not Cells:
        raise RefusedError(f"no rule for {type(query).__name__}", rule="a node without a rule is refused")
    check_plan(query.plan, catalog)
    names = table_of(query.plan, catalog).column_names
    used = [*query.keys, *(aggregate.column for aggregate in query.columns if isinstance(aggregate, Sum))]
    if unknown := [name for name in used if name not in names]:
        raise RefusedError(f"no column {unknown[0]}", rule="plans use declared names")
    if not query.columns:
        raise RefusedError("a query without an aggregate", rule="a node without a rule is refused")


def check_plan(plan: Plan, catalog: Catalog) -> None:
    """Every node, column and constant has a rule; anything else is refused (allow-list)."""
    conditions = []
    while isinstance(plan, Filter):
        conditions.append(plan.condition)
        plan = plan.source
    if not isinstance(plan, Scan):
        raise RefusedError(f"no rule for {type(plan).__name__}", rule="a node without a rule is refused")
    table = next((table for table in catalog.private_tables if table.name == plan.table), None)
    if table is None:
        raise RefusedError(f"{plan.table} is not a private table", rule="plans read registered private tables")
    for condition in conditions:
        _check_condition(condition, table)


def _check_condition(condition: Condition, table: Table) -> None:
    if isinstance(condition, (And, Or)):
        if not condition.conditions:
            raise RefusedError("an empty AND or OR", rule="a node without a rule is refused")
        for part in condition.conditions:
            _check_condition(part, table)
    elif isinstance(condition, Not):
        _check_condition(condition.condition, table)
    elif type(condition) in (Compare, IsNull):
        assert isinstance(condition, (Compare, IsNull))
        try:
            column = table.column(condition.column)
        except KeyError:
            raise RefusedError(f"no column {condition.column} in {table.name}", rule="columns are declared") from None
        if column.name != condition.column:
            raise RefusedError(f"write {column.name}, not {condition.column}", rule="plans use declared names")
        if not isinstance(column, (Bounded, Category)):
            raise RefusedError(f"{column.name} cannot be compared: it names people or rows", rule="ids are never read")
        if isinstance(condition, Compare):
            _check_constant(condition, column)
    else:
        raise RefusedError(f"no rule for {type(condition).__name__}", rule="a node without a rule is refused")


def _check_constant(compare: Compare, column: Bounded | Category) -> None:
    if type(compare.operator) is not str or compare.operator not in get_args(Operator):
        raise RefusedError(f"no rule for the operator {compare.operator!r}", rule="a node without a rule is refused")
    if isinstance(column, Category):
        labels = [label for label in column.key_rows() if label is not None]
        if compare.operator not in ("=", "<>") or compare.constant not in labels:
            raise RefusedError(
                f"{column.name} can be compared with = and <> to one of {labels}",
                rule="categories are compared by label",
            )
    elif type(compare.constant) is not Fraction:
        raise RefusedError(f"{column.name} is compared with a number", rule="types are declared")
