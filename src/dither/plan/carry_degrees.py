"""The degrees of a plan's node, from those of its sources: one rule for each operator.

Proof of each: docs/proofs/stability.md#degrees.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from dither.catalog import Catalog, Unit
from dither.plan.algebra import (
    Column,
    Distinct,
    Filter,
    Join,
    LimitGroups,
    LimitTotal,
    PerUnit,
    Plan,
    Project,
    Scan,
    UnionAll,
)
from dither.plan.conditions import columns_of
from dither.plan.domain import Columns
from dither.plan.expressions import Condition
from dither.plan.facts import Facts
from dither.plan.narrow import NUMERIC, count_labels
from dither.plan.stability.degrees import (
    Degree,
    RowDegrees,
    join_degrees,
    list_degrees,
    scan_degrees,
)
from dither.plan.stability.join import count_public_matches
from dither.plan.stability.owned import Node, Owned, Public
from dither.plan.stability.windows import add_window, fix_computed

MOST_DEGREES = 200
"""Of a node with more degrees only the number of rows is carried on."""
MOST_LABELS = 200
"""Of a category with more labels nobody counts how many a condition leaves."""


def carry_degrees(
    plan: Plan,
    node: Owned,
    columns: Columns,
    sources: tuple[tuple[Node, Columns], ...],
    catalog: Catalog,
    facts: Facts,
) -> Owned:
    """Return the node with its degrees, and with the bounds that follow from them where smaller.

    A degree bounds how many values some columns have where others are fixed.
    """
    if isinstance(plan, Scan):
        table = catalog.table(plan.table)
        owner = catalog.owner_column(table)
        keys = [[name for name in key if name != owner] for key in table.unique]
        degrees = scan_degrees(columns, keys, rows=node.rows, limit=node.most)
        degrees = add_window(degrees, catalog.unit, columns)
    elif isinstance(plan, UnionAll):
        degrees = scan_degrees(columns, (), rows=node.rows, limit=node.most)
    else:
        left = sources[0][0]
        assert isinstance(left, Owned) and left.degrees is not None
        if isinstance(plan, Join):
            degrees = _join(plan, left, sources[1], facts)
        else:
            degrees = _carry(plan, left.degrees, columns, sources[0][1], catalog.unit)
    if len(degrees.degrees) > MOST_DEGREES:  # a bound on work: what was known of keys ends here
        degrees = scan_degrees(columns, (), rows=node.rows, limit=node.most)
    counted_rows = degrees.count_rows()
    rows = min(node.rows, counted_rows)
    if rows < counted_rows:
        degrees = degrees.add(Degree(0, degrees.row, rows))
    distinct = min(node.distinct, rows, degrees.count_values(columns))
    all_rows = min(node.most, degrees.count_total())
    return replace(node, rows=rows, distinct=distinct, most=all_rows, degrees=degrees)


def _carry(
    plan: Plan, source: RowDegrees, columns: Columns, before: Columns, unit: Unit
) -> RowDegrees:
    """Carry degrees through an operator of one source.

    Each such operator keeps some of the rows, or one row for each.
    """
    if isinstance(plan, Project):
        passed = {named.name: named.of.name for named in plan.columns if type(named.of) is Column}
        expressions = {
            named.name: named.of for named in plan.columns if type(named.of) is not Column
        }
        return source.select(passed, fix_computed(expressions, source, before, unit))
    if isinstance(plan, PerUnit):
        chosen = source.add(Degree(source.mask(plan.keys), source.row, 1))
        computed = {named.name: source.row for named in plan.columns}
        return chosen.select({key: key for key in plan.keys}, computed)
    if isinstance(plan, Distinct):
        return source.add(Degree(source.mask(columns), source.row, 1))
    if isinstance(plan, LimitGroups):
        return source.add(Degree(0, source.mask(plan.keys), plan.groups))
    if isinstance(plan, LimitTotal):
        passed = {name: name for name in columns if name != plan.column}
        return source.select(passed, {plan.column: source.row})
    if isinstance(plan, Filter):
        return source.add(*_limit_values(plan, columns, before, source))
    return source


def _limit_values(
    plan: Filter, columns: Columns, before: Columns, source: RowDegrees
) -> Iterator[Degree]:
    """Yield, for each column of a filter, a bound of the number of values that its condition
    leaves."""
    for name in sorted(columns_of(plan.condition)):
        domain = columns[name]
        if domain.kind == "category" and len(domain.labels) <= MOST_LABELS:
            values = count_labels(name, plan.condition, columns)
            yield Degree(0, source.mask((name,)), max(1, values))
        elif domain != before[name]:
            yield Degree(0, source.mask((name,)), domain.high - domain.low + 1 + domain.nullable)


def count_public_values(plan: Filter, node: Public, columns: Columns) -> Public:
    """Return filtered public rows with how many values are left of each column that is not null.

    A column is known by its name in the table; one that is computed says nothing.
    """
    values = dict(node.values)
    for name in sorted(columns_of(plan.condition)):
        original = node.original(name)
        count = _count_present(name, plan.condition, columns)
        if original is not None and count is not None:
            values[original] = min(count, values.get(original, count))
    return replace(node, values=tuple(values.items()))


def _count_present(name: str, condition: Condition, columns: Columns) -> int | None:
    """How many values a column has where a condition is true; None if null may be among them."""
    domain = columns[name]
    if domain.kind == "category" and len(domain.labels) <= MOST_LABELS:
        present = {name: replace(domain, nullable=False)}
        labels = count_labels(name, condition, {**columns, **present})
        return labels if labels == count_labels(name, condition, columns) else None
    if domain.nullable or domain.kind not in NUMERIC:
        return None
    return domain.high - domain.low + 1


def _join(plan: Join, left: Owned, right_source: tuple[Node, Columns], facts: Facts) -> RowDegrees:
    """Carry the degrees of both inputs through a join; those of a public table come from its
    facts."""
    assert left.degrees is not None
    right, right_columns = right_source
    keys = tuple(right_key for _, right_key in plan.on)
    if isinstance(right, Owned):
        assert right.degrees is not None
        return join_degrees(
            left.degrees, right.degrees, plan.on, plan.kind, right.rows_per_match(keys)
        )
    assert isinstance(right, Public)
    matches = count_public_matches(right, keys, facts)
    listed = list_degrees(right_columns)
    listed = listed.add(Degree(listed.mask(keys), listed.row, matches))
    return join_degrees(left.degrees, listed, plan.on, plan.kind, matches)
