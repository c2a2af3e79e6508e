"""Bound how long an engine takes for texts that it holds, to join, group and compare rows by them.

A column that no later operator reads is not held: the engine leaves it out.
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
from dither.plan.conditions import columns_of
from dither.plan.stability.owned import Owned
from dither.rules import PrivacyRule

HELD_CHARACTER_S = 8e-9
"""Seconds for one character of a text that is held: to hash, to copy and to compare it take 1 to 2
ns each."""
MOST_HELD_CHARACTERS = 64_000_000
"""The most characters of one unit that an operator may hold."""


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
    """List the rows that some operator of a statement holds, with the characters held of each."""
    keys: tuple[str, ...] = query.keys
    needed = set(keys)
    if isinstance(query, (Cells, Keys, Quantiles)):
        distinct: list[str] = []
        if isinstance(query, Cells):
            needed |= _find_aggregate_columns(query.columns)
            distinct = [of.column for of in query.columns if isinstance(of, CountDistinct)]
        if isinstance(query, Quantiles):
            needed.add(query.column)
        yield rows, _count_characters(rows, [*keys, *distinct])
    if isinstance(query, UnitVectors):
        needed = set(rows.columns)
    yield from _list_below(rows, needed)


def _list_below(rows: Analysed, needed: set[str]) -> Iterator[tuple[Analysed, int]]:
    """List the rows that the operators below hold. `needed` columns of `rows` are read."""
    plan = rows.plan
    for source in rows.sources:
        needed_below = set(source.columns)
        if not isinstance(plan, Distinct):
            needed_below &= _find_read_columns(plan, needed)
        if isinstance(plan, Join):
            yield source, _count_characters(source, needed_below)
        elif isinstance(plan, (Distinct, PerUnit, Group)):
            keys = source.columns if isinstance(plan, Distinct) else plan.keys
            yield source, _count_characters(source, keys)
        elif isinstance(plan, (LimitGroups, LimitTotal)):
            yield source, _count_characters(source, needed_below)
        yield from _list_below(source, needed_below)


def _find_read_columns(plan: Plan, needed: set[str]) -> set[str]:
    """Find which columns of its sources an operator reads to return the `needed` ones."""
    match plan:
        case Filter(condition=condition):
            return needed | columns_of(condition)
        case Project(columns=columns):
            return {name for named in columns for name in columns_of(named.of)}
        case Join(on=on):
            return needed | {name for pair in on for name in pair}
        case PerUnit(keys=keys, columns=columns) | Group(keys=keys, columns=columns):
            return set(keys) | _find_aggregate_columns(named.of for named in columns)
        case LimitGroups(keys=keys):
            return needed | set(keys)
        case LimitTotal(keys=keys, column=column):
            return needed | {*keys, column}
    return needed


def _find_aggregate_columns(aggregates: Iterable[object]) -> set[str]:
    return {of.column for of in aggregates if hasattr(of, "column")}


def _count_characters(rows: Analysed, names: Iterable[str]) -> int:
    """Count the most characters that some columns of one row can have."""
    return sum(rows.columns[name].width for name in names if rows.columns[name].kind == "text")
