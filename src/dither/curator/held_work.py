"""Bound what texts cost that an engine holds: to join, group and tell rows apart by them.

A column that nothing above reads is not held: the engine leaves it out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from dither.curator.declared_rows import count_declared_rows
from dither.errors import RefusedError
from dither.plan.algebra import (
    Cells,
    CountDistinct,
    Distinct,
    Filter,
    Group,
    Join,
    Keys,
    LimitGroups,
    LimitTotal,
    MeasuredQuery,
    PerUnit,
    Plan,
    Project,
    Quantiles,
    UnitVectors,
)
from dither.plan.analyse import Analysed
from dither.plan.expressions import (
    And,
    Call,
    Column,
    Compare,
    Condition,
    Holds,
    IsNull,
    Not,
    Or,
)
from dither.plan.stability.owned import Owned
from dither.rules import PrivacyRule

HELD_CHARACTER_S = 8e-9
"""Seconds for one character of a text that is held: it is hashed, copied and compared, 1 to 2 ns
each."""
MOST_HELD_CHARACTERS = 64_000_000
"""The most characters of one unit that an operator holds."""


def bound_held(query: MeasuredQuery, rows: Analysed) -> float:
    """Bound the seconds that a statement takes for the texts that it holds.

    Raises RefusedError where one unit could fill the memory with them.
    """
    seconds = 0.0
    for held, width in _list_held(query, rows):
        if isinstance(held.node, Owned) and held.node.rows * width > MOST_HELD_CHARACTERS:
            raise RefusedError(
                f"one unit may have {held.node.rows:,} rows here, and texts of {width:,} "
                f"characters are kept of each: at most {MOST_HELD_CHARACTERS:,} characters of a "
                "unit are kept. Cut the texts, such as LEFT(text, 100), or limit the rows of a "
                "person first",
                rule=PrivacyRule.BOUNDED_WORK,
            )
        seconds += HELD_CHARACTER_S * width * count_declared_rows(held)
    return seconds


def _list_held(query: MeasuredQuery, rows: Analysed) -> Iterator[tuple[Analysed, int]]:
    """List the rows that are held somewhere in a statement, with the characters of each."""
    keys: tuple[str, ...] = query.keys
    needed = set(keys)
    if isinstance(query, (Cells, Keys, Quantiles)):
        distinct: list[str] = []
        if isinstance(query, Cells):
            needed |= _read_by_aggregates(query.columns)
            distinct = [of.column for of in query.columns if isinstance(of, CountDistinct)]
        if isinstance(query, Quantiles):
            needed.add(query.column)
        yield rows, _count_characters(rows, [*keys, *distinct])
    if isinstance(query, UnitVectors):
        needed = set(rows.columns)
    yield from _list_below(rows, needed)


def _list_below(rows: Analysed, needed: set[str]) -> Iterator[tuple[Analysed, int]]:
    """List the rows that the operators below hold; `needed` are the columns that are read of
    these."""
    plan = rows.plan
    for source in rows.sources:
        everything = set(source.columns)
        read = everything if isinstance(plan, Distinct) else _read_of(plan, needed) & everything
        if isinstance(plan, Join):
            yield source, _count_characters(source, read)
        elif isinstance(plan, (Distinct, PerUnit, Group)):
            keys = source.columns if isinstance(plan, Distinct) else plan.keys
            yield source, _count_characters(source, keys)
        elif isinstance(plan, (LimitGroups, LimitTotal)):
            yield source, _count_characters(source, read)
        yield from _list_below(source, read)


def _read_of(plan: Plan, needed: set[str]) -> set[str]:
    """Which columns of its sources an operator reads, so that it can give the `needed` ones."""
    match plan:
        case Filter(condition=condition):
            return needed | set(_read_by_condition(condition))
        case Project(columns=columns):
            return {name for named in columns for name in _read_by(named.of)}
        case Join(on=on):
            return needed | {name for pair in on for name in pair}
        case PerUnit(keys=keys, columns=columns) | Group(keys=keys, columns=columns):
            return set(keys) | _read_by_aggregates(named.of for named in columns)
        case LimitGroups(keys=keys):
            return needed | set(keys)
        case LimitTotal(keys=keys, column=column):
            return needed | {*keys, column}
    return needed


def _read_by_aggregates(aggregates: Iterable[object]) -> set[str]:
    return {of.column for of in aggregates if hasattr(of, "column")}


def _read_by(expression: object) -> Iterator[str]:
    if isinstance(expression, Column):
        yield expression.name
    elif isinstance(expression, Call):
        for argument in expression.arguments:
            yield from _read_by(argument)


def _read_by_condition(condition: Condition) -> Iterator[str]:
    match condition:
        case Holds(expression):
            yield from _read_by(expression)
        case Not(inner):
            yield from _read_by_condition(inner)
        case And(operands) | Or(operands):
            for operand in operands:
                yield from _read_by_condition(operand)
        case Compare(column=column) | IsNull(column=column):
            yield column


def _count_characters(rows: Analysed, names: Iterable[str]) -> int:
    """Count the characters that some columns of one row may have."""
    return sum(rows.columns[name].width for name in names if rows.columns[name].kind == "text")
