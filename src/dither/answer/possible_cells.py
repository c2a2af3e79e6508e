"""How many cells of an answer can hold anything, by the conditions of the question alone.

All declared keys are returned. `WHERE nation = 'FRANCE'` leaves one of them rows, and the others
are nothing but noise: what errs least is judged by the cells that matter. A condition on one public
table also bounds the values of another that is joined with it: one nation has at most as many
suppliers as the multiplicity of its key, a public fact, says.

Nothing here is trusted: a wrong number costs utility.
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
_MOST_ROUNDS = 20


@dataclass(frozen=True)
class _Dependence:
    """For each value of the column `by`, `column` has at most so many."""

    column: str
    by: str
    values: int


@dataclass(frozen=True)
class _ValueCounts:
    """How many values each column of a node can have, and which columns bound others."""

    values: dict[str, float]
    dependences: tuple[_Dependence, ...] = ()


def count_possible_cells(rows: Analysed, keys: tuple[str, ...], facts: Facts) -> int:
    """The number of cells that a row can be in."""
    counts = _count_values(rows, facts)
    values = _settle(counts)
    unique = {
        (dependence.by, dependence.column)
        for dependence in counts.dependences
        if dependence.values == 1
    }
    kept: list[str] = []
    for key in sorted(keys, key=lambda key: -sum((key, other) in unique for other in keys)):
        if not any((other, key) in unique for other in kept):
            kept.append(key)
    listed = prod(_count_listed(rows, key) for key in keys)
    return int(max(1, min(listed, prod(values[key] for key in kept))))


def _settle(counts: _ValueCounts) -> dict[str, float]:
    """The counts after every dependence was applied until none says more."""
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
    plan = rows.plan
    sources = [_count_values(source, facts) for source in rows.sources]
    listed = {name: _count_listed(rows, name) for name in rows.columns}
    match plan:
        case Scan(table):
            return _ValueCounts(listed, _list_dependences(rows, table, facts))
        case Join():
            return _join(plan, listed, sources)
        case Filter():
            values = sources[0].values
            narrowed = {
                name: min(count, values[name], _count_left(rows, plan, name))
                for name, count in listed.items()
            }
            return _ValueCounts(narrowed, sources[0].dependences)
        case Project():
            return _project(plan, listed, sources[0])
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
    """How many values a column's domain lists; texts and ids have no end."""
    domain = rows.columns[name]
    if domain.kind in ("text", "id") and not domain.labels:
        return inf
    first, last = domain.listed
    count = len(domain.labels) if domain.kind == "text" else last - first + 1
    return count + domain.nullable


def _count_left(rows: Analysed, plan: Filter, name: str) -> float:
    """How many values of a column a condition leaves."""
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
    """What single columns of a public table say about its others."""
    if not isinstance(rows.node, Public):
        return ()
    return tuple(
        _Dependence(column, key[0], most)
        for name, key, most in facts.multiplicities
        if name == table and len(key) == 1
        for column in rows.columns
        if column != key[0]
    )


def _join(plan: Join, listed: dict[str, float], sources: list[_ValueCounts]) -> _ValueCounts:
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


def _project(plan: Project, listed: dict[str, float], source: _ValueCounts) -> _ValueCounts:
    """Columns under new names; a computed one has no more values than what it is computed from."""
    values = {}
    passed: dict[str, str] = {}
    settled = _settle(source)
    for named in plan.columns:
        read = columns_of(named.of)
        count = prod(settled[name] for name in read) if read else 1
        values[named.name] = min(listed[named.name], count)
        if isinstance(named.of, Column):
            passed[named.of.name] = named.name
    dependences = tuple(
        _Dependence(passed[bound.column], passed[bound.by], bound.values)
        for bound in source.dependences
        if bound.column in passed and bound.by in passed
    )
    return _ValueCounts(values, dependences)
