"""Count the cells of an answer that can hold rows, by the question and public facts alone.

An answer has a cell for every declared key. `WHERE nation = 'FRANCE'` leaves rows in one of them,
and all others are noise. Limits are chosen for the cells that can hold rows. A condition on one
public table also bounds the values of a table that is joined with it: how many suppliers one nation
has at most is a public fact, the multiplicity of the key.

The kernel does not use this number. A wrong one costs accuracy and no privacy.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, prod

from dither.plan.algebra import (
    Column,
    Compare,
    Filter,
    Group,
    Join,
    PerUnit,
    Project,
    Scan,
    UnionAll,
    conjuncts,
)
from dither.plan.analyse import Analysed
from dither.plan.conditions import columns_of
from dither.plan.facts import Facts
from dither.plan.narrow import count_labels
from dither.plan.stability import Public

_MOST_LABELS = 1000
"""Categories with more labels are not narrowed by conditions, which would take long."""
_MOST_ROUNDS = 20
"""How often the dependences are applied, at most."""


@dataclass(frozen=True)
class _Dependence:
    """A column has at most `values` values for each value of the column `by`."""

    column: str
    by: str
    values: int


@dataclass(frozen=True)
class _ValueCounts:
    """How many values each column of a node can have, and which columns bound which others."""

    values: dict[str, float]
    dependences: tuple[_Dependence, ...] = ()


def count_possible_cells(rows: Analysed, keys: tuple[str, ...], facts: Facts) -> int:
    """Count the cells of these keys that a row can be in; at least 1."""
    counts = _count_values(rows, facts)
    values = _apply_dependences(counts)
    determined = {
        (dependence.by, dependence.column)
        for dependence in counts.dependences
        if dependence.values == 1
    }
    free_keys: list[str] = []
    for key in sorted(keys, key=lambda key: -sum((key, other) in determined for other in keys)):
        if not any((other, key) in determined for other in free_keys):
            free_keys.append(key)
    listed_cells = prod(_count_listed(rows, key) for key in keys)
    return int(max(1, min(listed_cells, prod(values[key] for key in free_keys))))


def _apply_dependences(counts: _ValueCounts) -> dict[str, float]:
    """Apply every dependence to the counts, again and again until no count gets smaller."""
    values = dict(counts.values)
    for _ in range(_MOST_ROUNDS):
        before = dict(values)
        for bound in counts.dependences:
            if bound.by in values and bound.column in values:
                most = values[bound.by] * bound.values
                values[bound.column] = min(values[bound.column], most)
        if values == before:
            break
    return values


def _count_values(rows: Analysed, facts: Facts) -> _ValueCounts:
    """Count the values that every column of a node can have, from those of its sources."""
    plan = rows.plan
    sources = [_count_values(source, facts) for source in rows.sources]
    listed = {name: _count_listed(rows, name) for name in rows.columns}
    match plan:
        case Scan(table):
            return _ValueCounts(listed, _list_dependences(rows, table, facts))
        case Join():
            return _count_joined(plan, listed, sources)
        case Filter():
            values = sources[0].values
            narrowed = {
                name: min(count, values[name], _count_allowed(rows, plan, name))
                for name, count in listed.items()
            }
            return _ValueCounts(narrowed, sources[0].dependences)
        case Project():
            return _count_projected(plan, listed, sources[0])
        case PerUnit() | Group():
            values = sources[0].values
            return _ValueCounts(
                {name: min(count, values.get(name, inf)) for name, count in listed.items()}
                if plan.keys
                else listed
            )
        case UnionAll():
            return _ValueCounts(listed)
    return _ValueCounts(
        {name: min(count, sources[0].values[name]) for name, count in listed.items()},
        sources[0].dependences,
    )


def _count_listed(rows: Analysed, name: str) -> float:
    """Count the values that a column's domain lists; infinite for free texts and ids."""
    domain = rows.columns[name]
    if domain.kind in ("text", "id") and not domain.labels:
        return inf
    first, last = domain.listed
    count = len(domain.labels) if domain.kind == "text" else last - first + 1
    return count + domain.nullable


def _count_allowed(rows: Analysed, plan: Filter, name: str) -> float:
    """Count the values of a column that a condition allows; infinite where it says nothing."""
    if any(
        isinstance(test, Compare) and (test.column, test.operator) == (name, "=")
        for test in conjuncts(plan.condition)
    ):
        return 1
    domain = rows.columns[name]
    if domain.kind == "category" and len(domain.labels) <= _MOST_LABELS:
        return count_labels(name, plan.condition, rows.sources[0].columns)
    return inf


def _list_dependences(rows: Analysed, table: str, facts: Facts) -> tuple[_Dependence, ...]:
    """List how single columns of a public table bound its other columns."""
    if not isinstance(rows.node, Public):
        return ()
    return tuple(
        _Dependence(column, key[0], most)
        for name, key, most in facts.multiplicities
        if name == table and len(key) == 1
        for column in rows.columns
        if column != key[0]
    )


def _count_joined(
    plan: Join, listed: dict[str, float], sources: list[_ValueCounts]
) -> _ValueCounts:
    """Count the values after a join; an inner join keeps the values that both sides have."""
    left, right = sources
    values = {
        name: min(count, left.values.get(name, inf), right.values.get(name, inf))
        if plan.kind == "inner"
        else min(count, left.values.get(name, inf))
        for name, count in listed.items()
    }
    if plan.kind != "inner":
        return _ValueCounts(values, left.dependences)
    equal = [
        _Dependence(column, by, 1)
        for pair in plan.on
        for column, by in (pair, pair[::-1])
        if column != by
    ]
    return _ValueCounts(values, (*left.dependences, *right.dependences, *equal))


def _count_projected(plan: Project, listed: dict[str, float], source: _ValueCounts) -> _ValueCounts:
    """Count the values of projected columns, at most those of what they are computed from."""
    values = {}
    new_names: dict[str, str] = {}
    settled = _apply_dependences(source)
    for named in plan.columns:
        read = columns_of(named.of)
        count = prod(settled[name] for name in read) if read else 1
        values[named.name] = min(listed[named.name], count)
        if isinstance(named.of, Column):
            new_names[named.of.name] = named.name
    dependences = tuple(
        _Dependence(new_names[bound.column], new_names[bound.by], bound.values)
        for bound in source.dependences
        if bound.column in new_names and bound.by in new_names
    )
    return _ValueCounts(values, dependences)
