"""What all rows of one unit add up to in a column, where that is less than rows times the largest.

The counts of a person's groups add up to the person's rows. Of rows without an owner: by how much
the values of all rows change together, when each row is compared with the row of the same group.
Proof: docs/proofs/stability.md#sums-of-aggregates.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from dither.plan.algebra import (
    Call,
    Column,
    Count,
    CountDistinct,
    CountValues,
    Distinct,
    Filter,
    Group,
    LimitGroups,
    LimitTotal,
    Named,
    PerUnit,
    Plan,
    Project,
    SampleUnits,
    Sum,
    Value,
)
from dither.plan.conditions import columns_of
from dither.plan.domain import Columns
from dither.plan.functions import domain_of
from dither.plan.stability.owned import ROWS, Loose, Node, Owned


def carry_sums(plan: Plan, node: Node, source: Node | None, before: Columns) -> Node:
    """Return the node with what is known of the sums of its columns, from its source.

    `before` are the columns of the source. The sums map a column to the most that one unit can
    change its sum by.
    """
    if not isinstance(node, (Owned, Loose)) or not isinstance(source, (Owned, Loose)):
        return node
    if isinstance(plan, PerUnit):
        return replace(node, sums=_start_sums(plan.columns, source, before))
    if isinstance(plan, Group):
        assert isinstance(node, Loose)
        # half of the rows that change are old rows of groups, half are new ones
        sums = {ROWS: node.rows // 2, **_start_sums(plan.columns, source, before)}
        return replace(node, sums=sums, fixed=frozenset(plan.keys))
    if isinstance(plan, Project):
        return _project(plan, node, source, before)
    if isinstance(plan, LimitTotal):
        steps = int(plan.total / before[plan.column].step)
        steps = min(steps, source.sums.get(plan.column, steps))
        return replace(node, sums={**source.sums, plan.column: steps})
    if isinstance(node, Loose):
        is_same = isinstance(plan, Filter) and columns_of(plan.condition) <= node.fixed
        return node if is_same else replace(node, sums={}, fixed=frozenset())
    is_part = isinstance(plan, (Filter, SampleUnits, LimitGroups, Distinct))
    return replace(node, sums=source.sums if is_part else {})


def _start_sums(
    columns: tuple[Named, ...], source: Owned | Loose, before: Columns
) -> Mapping[str, int]:
    """Bound the sums of new aggregates, by column.

    Each row below adds to one group: counts add up to rows, sums to what the rows add up to.
    """
    sums = {}
    for named in columns:
        match named.of:
            case Count() | CountValues() | CountDistinct():
                sums[named.name] = source.rows
            case Sum(column):
                largest_sum = source.rows * before[column].largest
                carried = (
                    source.sums.get(column, largest_sum)
                    if isinstance(source, Owned)
                    else largest_sum
                )
                sums[named.name] = min(largest_sum, carried)
    return sums


def _project(plan: Project, node: Node, source: Owned | Loose, before: Columns) -> Node:
    # in steps of the new column, which are finer for LEAST(n, 5.5), rounded up
    """Carry sums through a projection, for columns that are passed on or cut from above."""
    sums = {
        named.name: source.sums[column]
        * -(-before[column].step // domain_of(named.of, before).step)  # type: ignore[arg-type]
        for named in plan.columns
        if (column := read_summed(named.of, before)) is not None and column in source.sums
    }
    if ROWS in source.sums:
        sums[ROWS] = source.sums[ROWS]
    if isinstance(node, Owned):
        return replace(node, sums=sums)
    assert isinstance(node, Loose) and isinstance(source, Loose)
    fixed = frozenset(named.name for named in plan.columns if columns_of(named.of) <= source.fixed)
    return replace(node, sums=sums, fixed=fixed)


def read_summed(expression: object, before: Columns) -> str | None:
    """Find the column that moves at least as far as an expression; None where there is none.

    That is the column itself, also where it is cut from above: cutting at a constant of at least 0
    moves two numbers of at least 0 no further apart.
    """
    match expression:
        case Column(name):
            return name
        case Call("least", (Column(name), Value("number", cut))) if (
            not isinstance(cut, str)
            and cut >= 0
            and before[name].low >= 0
            and not before[name].nullable
        ):
            return name
    return None
