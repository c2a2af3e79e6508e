"""What a plan means, on Python lists: every value in its own units, every operator as its
definition reads."""

from __future__ import annotations

import datetime
import hashlib
from collections import defaultdict
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Any

from dither.audit.naive_functions import apply, compare
from dither.catalog import (
    Boolean,
    Bounded,
    Catalog,
    Category,
    Column,
    Date,
    FromPublic,
    Id,
    Text,
    Timestamp,
    Undeclared,
)
from dither.plan import algebra as plans
from dither.plan.algebra import Cells, Plan

Row = dict[str, Any]
Owned = tuple[str | None, Row]
P = 2**31 - 1


@dataclass(frozen=True)
class NaiveDatabase:
    """Registered tables, the labels of public columns, and the installation's key."""

    catalog: Catalog
    tables: dict[str, list[Row]]
    lists: dict[tuple[str, str], tuple[str, ...]]
    key: bytes
    sample_key: bytes = b""


class Label(str):
    """A category's label with its code."""

    code: int

    def __new__(cls, text: str, code: int) -> Label:
        label = super().__new__(cls, text)
        label.code = code
        return label


def decode_value(value: Any, column: Column, lists: dict[tuple[str, str], tuple[str, ...]]) -> Any:
    """Turn a registered value into its own units: labels, dates, numbers."""
    if value is None or isinstance(column, (Id, Text)):
        return value
    if isinstance(column, Category):
        if isinstance(column.values, Undeclared):
            return value
        values = column.values
        labels = lists[values.table, values.column] if isinstance(values, FromPublic) else values
        return Label([*labels, "other"][value], value)
    if isinstance(column, Boolean):
        return bool(value)
    if isinstance(column, Date):
        return datetime.date(1970, 1, 1) + datetime.timedelta(days=value)
    if isinstance(column, Timestamp):
        zone = datetime.timezone(datetime.timedelta(seconds=column.offset_seconds))
        return datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC).astimezone(
            zone
        ) + datetime.timedelta(seconds=value)
    assert isinstance(column, Bounded)
    return value * column.step


def rows(plan: Plan, database: NaiveDatabase) -> list[Owned]:
    """The rows of a plan, each with its owner (None where it has none)."""
    match plan:
        case plans.Scan(table):
            columns = {column.name: column for column in database.catalog.table(table).columns}
            return [
                (
                    row.get("owner"),
                    {
                        n: decode_value(v, columns[n], database.lists)
                        for n, v in row.items()
                        if n != "owner"
                    },
                )
                for row in database.tables[table]
            ]
        case plans.Filter(source, condition):
            return [(o, row) for o, row in rows(source, database) if holds(condition, row) is True]
        case plans.Project(source, columns):
            return [
                (o, {c.name: apply(c.of, row) for c in columns})
                for o, row in rows(source, database)
            ]
        case plans.Join():
            return _join(plan, database)
        case plans.UnionAll(left, right):
            both = [rows(left, database), rows(right, database)]
            keep = all(o is not None for branch_rows in both for o, _ in branch_rows)
            return [(o if keep else None, row) for branch_rows in both for o, row in branch_rows]
        case plans.Distinct(source, per_unit):
            once = {
                (o if per_unit else None, tuple(row.items())): None
                for o, row in rows(source, database)
            }
            return [(o, dict(entries)) for o, entries in once]
        case plans.PerUnit(source, keys, columns) | plans.Group(source, keys, columns):
            per_unit = isinstance(plan, plans.PerUnit)
            groups: dict[Any, list[Owned]] = defaultdict(list)
            for o, row in rows(source, database):
                groups[o if per_unit else None, tuple(row[key] for key in keys)].append((o, row))
            if not per_unit and not keys:
                groups.setdefault((None, ()), [])
            return [
                (
                    o,
                    {
                        **dict(zip(keys, values, strict=True)),
                        **{c.name: aggregate(c.of, group_rows) for c in columns},
                    },
                )
                for (o, values), group_rows in groups.items()
            ]
        case plans.LimitGroups(source, keys, most):
            all_rows = rows(source, database)
            chosen: dict[str | None, list[Any]] = defaultdict(list)
            for o, row in all_rows:
                chosen[o].append(_rank_group(o, row, keys, database))
            allowed = {o: sorted(set(ranks))[:most] for o, ranks in chosen.items()}
            return [
                (o, row) for o, row in all_rows if _rank_group(o, row, keys, database) in allowed[o]
            ]
        case plans.LimitTotal(source, keys, column, total):
            ordered = sorted(
                rows(source, database),
                key=lambda entry: (entry[0], _rank_group(entry[0], entry[1], keys, database)),
            )
            room: dict[str | None, Fraction] = defaultdict(lambda: total)
            limited = []
            for o, row in ordered:
                kept = max(-room[o], min(room[o], row[column]))
                room[o] -= abs(kept)
                limited.append((o, {**row, column: kept}))
            return limited
        case plans.SampleUnits(source, rate):
            digest = hashlib.sha256(
                database.sample_key + bytes.fromhex(plans.plan_hash(plan))
            ).digest()
            x, y, z = (int.from_bytes(digest[i : i + 8], "big") % P for i in (0, 8, 16))
            return [
                (o, row)
                for o, row in rows(source, database)
                if _is_sampled(o, (x, y, z), rate, database)
            ]
    raise AssertionError(plan)


def _is_sampled(
    owner: Any, by: tuple[int, int, int], rate: Fraction, database: NaiveDatabase
) -> bool:
    a, b = owner_hash(owner, database.key)
    return (by[0] * a + by[1] * b + by[2]) % P < int(P * rate)


def _join(plan: plans.Join, database: NaiveDatabase) -> list[Owned]:
    """Pair each left row with the right rows of the same owner (or none) that have equal keys.

    A left join keeps a row without a match, with nulls in the right columns.
    """
    joined: list[Owned] = []
    right = rows(plan.right, database)
    paired = {right_name for left_name, right_name in plan.on if left_name == right_name}
    names = list(right[0][1]) if right else _list_columns(plan.right, database)
    for owner, row in rows(plan.left, database):
        matches = [
            right_row
            for right_owner, right_row in right
            if right_owner in (None, owner)
            and all(row[a] is not None and row[a] == right_row[b] for a, b in plan.on)
        ]
        if plan.kind == "left" and not matches:
            matches = [dict.fromkeys(names)]
        joined += [
            (owner, {**row, **{n: v for n, v in m.items() if n not in paired}}) for m in matches
        ]
    return joined


def _list_columns(plan: Plan, database: NaiveDatabase) -> list[str]:
    """List the names of a plan's columns, also if it has no row."""
    match plan:
        case plans.Project(_, columns):
            return [column.name for column in columns]
        case plans.PerUnit(_, keys, columns) | plans.Group(_, keys, columns):
            return [*keys, *(column.name for column in columns)]
        case plans.Join(left, right, on, _):
            paired = {right_name for left_name, right_name in on if left_name == right_name}
            return [
                *_list_columns(left, database),
                *(name for name in _list_columns(right, database) if name not in paired),
            ]
        case plans.Scan(name):
            table = database.catalog.table(name)
            owner = database.catalog.owner_column(table) if table.kind == "private" else None
            return [column_name for column_name in table.column_names if column_name != owner]
    return _list_columns(plans.sources_of(plan)[0], database)


def owner_hash(owner: str, key: bytes) -> tuple[int, int]:
    """Two numbers derived from an owner and the installation's key."""
    text = f"64:{key.hex()}{len(owner.encode())}:{owner}"
    digest = hashlib.sha256(text.encode()).hexdigest()
    a, b = (int(digest[start : start + 8], 16) % (P - 1) + 1 for start in (0, 8))
    return a, b


def _rank_group(
    owner: str | None, row: Row, keys: tuple[str, ...], database: NaiveDatabase
) -> tuple[Any, ...]:
    """The rank of a group among its owner's groups: by hash, then by the keys, null last."""
    assert owner is not None
    a, b = owner_hash(owner, database.key)
    x = sum(_key_number(row[key]) * pow(48_271, i, P) for i, key in enumerate(keys)) % P
    return ((a * x + b) % P, *((row[key] is None, _sortable(row[key])) for key in keys))


def _key_number(value: Any) -> int:
    """Code one key value as an integer below P, for the hash that ranks an owner's groups."""
    if value is None:
        return P - 1
    if isinstance(value, Label):
        return value.code
    if isinstance(value, str):
        return (int(hashlib.sha256(value.encode()).hexdigest(), 16) % 2**31) % P
    if isinstance(value, datetime.datetime):  # whole seconds, the same in every zone
        return (
            int(
                (value - datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC))
                / datetime.timedelta(seconds=1)
            )
            % P
        )
    if isinstance(value, datetime.date):
        return (value - datetime.date(1970, 1, 1)).days % P
    assert Fraction(value).denominator == 1
    return int(value) % P


def _sortable(value: Any) -> Any:
    return value.code if isinstance(value, Label) else 0 if value is None else value


def holds(condition: plans.Condition, row: Row) -> bool | None:
    """Evaluate a condition in a row by SQL's three-valued truth; None is unknown."""
    match condition:
        case plans.IsNull(column):
            return row[column] is None
        case plans.Holds(expression):
            truth = apply(expression, row)
            return None if truth is None else bool(truth)
        case plans.Not(inner):
            inner_truth = holds(inner, row)
            return None if inner_truth is None else not inner_truth
        case plans.And(terms) | plans.Or(terms):
            truths = [holds(term, row) for term in terms]
            decisive = isinstance(condition, plans.Or)
            if decisive in truths:
                return decisive
            return None if None in truths else not decisive
        case plans.Compare(column, operator, constant):
            return compare(operator, row[column], constant)
    raise AssertionError(condition)


def aggregate(aggregation: Any, group: list[Owned]) -> Any:
    """Compute an exact aggregate of some rows; nulls are skipped."""
    if isinstance(aggregation, plans.Count):
        return Fraction(len(group))
    if isinstance(aggregation, plans.CountUnits):
        return Fraction(len({owner for owner, _ in group}))
    values = [row[aggregation.column] for _, row in group if row[aggregation.column] is not None]
    if isinstance(aggregation, plans.CountValues):
        return Fraction(len(values))
    if isinstance(aggregation, plans.CountDistinct):
        return Fraction(len(set(values)))
    if isinstance(aggregation, plans.Sum):
        return sum((_number(value) for value in values), Fraction(0))
    return (min if isinstance(aggregation, plans.Minimum) else max)(values) if values else None


def _number(value: Any) -> Fraction:
    """A value that is summed: days count from 1970-01-01."""
    if isinstance(value, datetime.date):
        return Fraction((value - datetime.date(1970, 1, 1)).days)
    return Fraction(value)


def grouped(query: Cells, database: NaiveDatabase) -> dict[tuple[Any, ...], list[Fraction]]:
    """Map each key that occurs, in its own units, to its aggregates, in theirs."""
    groups: dict[tuple[Any, ...], list[Owned]] = defaultdict(list)
    for owner, row in rows(query.plan, database):
        groups[tuple(row[key] for key in query.keys)].append((owner, row))
    if not query.keys:
        groups.setdefault((), [])
    return {
        key: [aggregate(aggregation, group_rows) for aggregation in query.columns]
        for key, group_rows in groups.items()
    }


def evaluate(query: Cells, catalog: Catalog, registered: list[Row]) -> list[list[int]]:
    """Answer a query over a plain table.

    The result has one list per declared key, in order, with one grid integer per aggregate.
    """
    plan: Plan = query.plan
    while not isinstance(plan, plans.Scan):
        plan = plans.sources_of(plan)[0]
    table = catalog.table(plan.table)
    groups = grouped(query, NaiveDatabase(catalog, {table.name: registered}, {}, b""))
    answers = []
    for key in product(*(_list_keys(table.column(name)) for name in query.keys)):
        cell = groups.get(key, [Fraction(0)] * len(query.columns))
        answers.append(
            [
                int(value / _step(aggregation, table))
                for value, aggregation in zip(cell, query.columns, strict=True)
            ]
        )
    return answers


def _step(aggregation: Any, table: Any) -> Fraction:
    column = table.column(aggregation.column) if isinstance(aggregation, plans.Sum) else None
    return column.step if isinstance(column, Bounded) else Fraction(1)


def _list_keys(column: Column) -> list[Any]:
    """List key values in order, null last if it is kept."""
    if isinstance(column, Category):
        assert isinstance(column.values, tuple)
        grid = range(len(column.values) + (column.other == "keep"))
    else:
        assert isinstance(column, Bounded)
        grid = range(column.lower_grid, column.upper_grid + 1)
    values = [decode_value(code, column, {}) for code in grid]
    assert not isinstance(column, Id)
    return [*values, None] if column.nulls.rule == "keep" else values
