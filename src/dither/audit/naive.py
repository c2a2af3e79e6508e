"""The naive evaluator: what registration and plans mean, on Python lists, slowly and plainly.

The oracle of the tests. It starts from raw rows (texts, before registration), works in Fractions, and shares nothing
with the engine's path but the plan's and the catalog's words.
"""

from __future__ import annotations

import datetime
import hashlib
import math
import re
from collections import defaultdict
from fractions import Fraction
from itertools import product
from typing import Any

from dither.catalog import Boolean, Bounded, Catalog, Category, Column, Date, Decimal, Id, Integer, OwnerColumn, Table
from dither.plan.algebra import And, Cells, Compare, Condition, Count, Filter, IsNull, Not, Or, Plan, Scan

Raw = dict[str, str | None]
Row = dict[str, Any]
_GONE = object()


def registered(rows: list[Raw], table: Table, key: bytes) -> list[Row]:
    """The rows that registration keeps, repaired, each with its `owner`, in no order that means anything."""
    assert isinstance(table.owner, OwnerColumn) and table.rows_per_unit is not None
    owner_column = table.owner.column
    owned: dict[str, list[Row]] = defaultdict(list)
    for raw in rows:
        owner = raw[owner_column] or None
        if owner is None:
            continue
        columns = [column for column in table.columns if column.name != owner_column]
        row: Row = {column.name: repair(raw[column.name] or None, column) for column in columns}
        if _GONE not in row.values():
            owned[owner].append(row)
    kept: list[Row] = []
    for owner, mine in owned.items():
        ranked = _ranked(owner, mine, key)
        for unique in table.unique:
            names = [name for name in unique if name != owner_column]
            first: dict[tuple[Any, ...], Row] = {}
            for row in ranked:
                first.setdefault(tuple(row[name] for name in names), row)
            ranked = list(first.values())
        kept += [{"owner": owner, **row} for row in ranked[: table.rows_per_unit]]
    return kept


def _ranked(owner: str, rows: list[Row], key: bytes) -> list[Row]:
    """One owner's rows by the digest of (key, owner, content, ordinal among identical ones)."""
    seen: dict[tuple[Any, ...], int] = defaultdict(int)
    digests: list[tuple[str, int, Row]] = []
    for row in rows:
        content = tuple(row.values())
        seen[content] += 1
        fields = [key.hex(), owner, *content, seen[content]]
        text = "".join("-" if field is None else f"{len(str(field).encode())}:{field}" for field in fields)
        digests.append((hashlib.sha256(text.encode()).hexdigest(), len(digests), row))
    return [row for _, _, row in sorted(digests, key=lambda item: item[:2])]


def repair(raw: str | None, column: Column) -> Any:
    """A raw text as its registered value; `_GONE` if the row is dropped because of it."""
    if isinstance(column, Id):
        return raw
    if isinstance(column, Category):
        assert isinstance(column.values, tuple)
        if raw is None:
            return _null(column)
        if raw in column.values:
            return column.values.index(raw)
        return len(column.values) if column.other == "keep" else _GONE
    value = None if raw is None else _read(raw.strip(" "), column)
    if value is None:
        return _null(column)
    assert isinstance(column, Bounded)
    return max(column.lower_grid, min(column.upper_grid, value))


def _null(column: Any) -> Any:
    if column.nulls.rule == "drop":
        return _GONE
    if column.nulls.rule == "keep":
        return None
    if isinstance(column, Category):
        assert isinstance(column.values, tuple)
        return column.values.index(str(column.nulls.value))
    return column.nulls.value


def _read(text: str, column: Column) -> int | None:
    """The grid integer that a text denotes, before the clamp on the grid; None if it is no value of the type."""
    if isinstance(column, Integer):
        return int(text.split(".")[0]) if re.fullmatch(r"[+-]?[0-9]{1,30}(\.0*)?", text) else None
    if isinstance(column, Boolean):
        words = {"true": 1, "t": 1, "yes": 1, "y": 1, "1": 1, "false": 0, "f": 0, "no": 0, "n": 0, "0": 0}
        return words.get(text.lower()) if text.isascii() else None
    if isinstance(column, Date):
        if not re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}([ T][0-9:.,Z+-]{0,40})?", text):
            return None
        try:
            return (datetime.date.fromisoformat(text[:10]) - datetime.date(1970, 1, 1)).days
        except ValueError:
            return None
    assert isinstance(column, Decimal)
    if not re.fullmatch(
        r"[+-]?(([0-9]{1,400}(\.[0-9]{0,400})?|\.[0-9]{1,400})([eE][+-]?[0-9]{1,3})?|(?i:nan|inf|infinity))", text
    ):
        return None
    number = float(text)
    if math.isnan(number):
        return None
    number = max(float(column.lower), min(float(column.upper), number))
    return math.floor(number * column.multiplier / column.divisor + 0.5)


def evaluate(query: Cells, catalog: Catalog, rows: list[Row]) -> list[list[int]]:
    """One list per declared key, in order, with one integer per aggregate."""
    table = _table(query.plan, catalog)
    found = _rows(query.plan, table, rows)
    answers = []
    for wanted in product(*(_keys(table.column(name)) for name in query.keys)):
        group = [row for row in found if all(row[name] == key for name, key in zip(query.keys, wanted, strict=True))]
        cell = []
        for aggregate in query.columns:
            if isinstance(aggregate, Count):
                cell.append(len(group))
            else:
                cell.append(sum(row[aggregate.column] for row in group if row[aggregate.column] is not None))
        answers.append(cell)
    return answers


def _table(plan: Plan, catalog: Catalog) -> Table:
    return catalog.table(plan.table) if isinstance(plan, Scan) else _table(plan.source, catalog)


def _keys(column: Column) -> list[Any]:
    """Registered key values in order, null last if it is kept."""
    if isinstance(column, Category):
        assert isinstance(column.values, tuple)
        values: list[Any] = list(range(len(column.values) + (column.other == "keep")))
    else:
        assert isinstance(column, Bounded)
        values = list(range(column.lower_grid, column.upper_grid + 1))
    return [*values, None] if column.nulls.rule == "keep" else values


def _rows(plan: Plan, table: Table, rows: list[Row]) -> list[Row]:
    if isinstance(plan, Filter):
        return [row for row in _rows(plan.source, table, rows) if _holds(plan.condition, table, row) is True]
    return rows


def _holds(condition: Condition, table: Table, row: Row) -> bool | None:
    """SQL's three-valued truth; None is unknown."""
    if isinstance(condition, IsNull):
        return row[condition.column] is None
    if isinstance(condition, Not):
        inner = _holds(condition.condition, table, row)
        return None if inner is None else not inner
    if isinstance(condition, (And, Or)):
        parts = [_holds(part, table, row) for part in condition.conditions]
        decisive = isinstance(condition, Or)
        if decisive in parts:
            return decisive
        return None if None in parts else not decisive
    return _compares(condition, table, row[condition.column])


def _compares(compare: Compare, table: Table, value: int | None) -> bool | None:
    if value is None:
        return None
    column = table.column(compare.column)
    if isinstance(column, Category):
        assert isinstance(column.values, tuple)
        labels = [*column.values, "other"]
        same = labels[value] == compare.constant
        return same if compare.operator == "=" else not same
    assert isinstance(column, Bounded) and isinstance(compare.constant, Fraction)
    left, right = value * column.step, compare.constant
    return {
        "=": left == right,
        "<>": left != right,
        "<": left < right,
        "<=": left <= right,
        ">": left > right,
        ">=": left >= right,
    }[compare.operator]
