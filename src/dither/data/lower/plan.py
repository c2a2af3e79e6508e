"""An analysed plan as one SQL statement.

It is the tree that was analysed, node by node, and nothing else; columns that nobody reads may be
left out of it before (`keep_columns`).
"""

from __future__ import annotations

from collections.abc import Callable, Set
from dataclasses import replace

from dither.data.lower.distinct import distinct_sql
from dither.data.lower.filter import filter_sql
from dither.data.lower.group import group_sql
from dither.data.lower.join import find_unmatched, join_sql, unmatched_sql
from dither.data.lower.limit_groups import limit_sql
from dither.data.lower.limit_total import limit_total_sql
from dither.data.lower.per_unit import find_met_groups, join_groups_sql, per_unit_sql
from dither.data.lower.project import project_sql
from dither.data.lower.sample_units import sample_sql
from dither.data.lower.scan import scan_sql
from dither.data.lower.semi_join import find_repeated_matches, semi_join_sql
from dither.data.lower.union_all import union_sql
from dither.errors import RefusedError
from dither.plan.algebra import (
    Distinct,
    Filter,
    Group,
    Join,
    LimitGroups,
    LimitTotal,
    PerUnit,
    Project,
    SampleUnits,
    Scan,
    UnionAll,
)
from dither.plan.analyse import Analysed
from dither.plan.stability import Owned
from dither.rules import PrivacyRule


def keep_columns(rows: Analysed, names: Set[str]) -> Analysed:
    """The same nodes without the columns of other names, where the rows stay the same without them.

    DISTINCT reads all columns of its rows, and rows without an owner are nothing but columns.
    """
    is_bare = not isinstance(rows.node, Owned) and names.isdisjoint(rows.columns)
    if is_bare or isinstance(rows.plan, Distinct):
        names = {*names, *rows.columns}
    columns = {column: rows.columns[column] for column in rows.columns if column in names}
    sources = tuple(keep_columns(source, names) for source in rows.sources)
    return replace(rows, columns=columns, sources=sources)


def plan_sql(
    rows: Analysed, sample_key: bytes | None = None, *, only_unmatched: bool = False
) -> str:
    """Write the SELECT of a plan's rows, in no order.

    A sample of units is drawn by `sample_key`, the key of this release; RefusedError without one.
    `only_unmatched`: of a left join, which is `rows`, only those without a match.
    """
    plan = rows.plan
    if isinstance(plan, Scan):
        return scan_sql(plan, rows)
    before, *others = rows.sources
    source = plan_sql(before, sample_key, only_unmatched=find_unmatched(rows))
    if isinstance(plan, Join):
        write_join: Callable[..., str] = join_sql
        (right,) = others
        if only_unmatched:
            write_join, right = unmatched_sql, right.sources[0]
        elif (repeated := find_repeated_matches(plan, rows.sources)) is not None:
            write_join, right = semi_join_sql, repeated
        elif (ungrouped := find_met_groups(plan, rows.sources)) is not None:
            write_join, right = join_groups_sql, ungrouped
        # only what is used is written: in joins inside joins the work would double with each
        return write_join(plan, source, plan_sql(right, sample_key), rows.sources, rows)
    if isinstance(plan, UnionAll):
        return union_sql(source, plan_sql(others[0], sample_key), rows.sources, rows)
    match plan:
        case Filter():
            return filter_sql(plan, source, before, rows)
        case Project():
            return project_sql(plan, source, before, rows)
        case Distinct():
            return distinct_sql(source, rows)
        case PerUnit():
            return per_unit_sql(plan, source, before, rows)
        case Group():
            return group_sql(plan, source, before, rows)
        case LimitGroups():
            return limit_sql(plan, source, rows)
        case LimitTotal():
            return limit_total_sql(plan, source, before, rows)
        case SampleUnits():
            if sample_key is None:
                raise RefusedError(
                    "a sample needs a key that the kernel draws for the release",
                    rule=PrivacyRule.NO_SEED,
                )
            return sample_sql(plan, source, rows, sample_key)
    raise AssertionError(f"no lowering for {type(plan).__name__}")
