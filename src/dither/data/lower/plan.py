"""A plan as one SQL statement: the tree that was analysed, node by node, and nothing else."""

from __future__ import annotations

from dataclasses import dataclass, field

from dither.catalog import Catalog
from dither.data.lower.distinct import distinct_sql
from dither.data.lower.filter import filter_sql
from dither.data.lower.group import group_sql
from dither.data.lower.join import join_sql
from dither.data.lower.limit_groups import limit_sql
from dither.data.lower.per_unit import per_unit_sql
from dither.data.lower.project import project_sql
from dither.data.lower.sample_units import sample_sql
from dither.data.lower.scan import scan_sql
from dither.data.lower.union_all import union_sql
from dither.errors import RefusedError
from dither.plan.algebra import (
    Distinct,
    Filter,
    Group,
    Join,
    LimitGroups,
    PerUnit,
    Plan,
    Project,
    SampleUnits,
    Scan,
    UnionAll,
)
from dither.plan.analyse import Analysed, Seen, analyse_node
from dither.plan.facts import NO_FACTS, Facts


@dataclass(frozen=True)
class Lowering:
    """What lowering reads beside the plan: public facts, and the key of this release's sample."""

    catalog: Catalog
    facts: Facts = NO_FACTS
    sample_key: bytes | None = None
    seen: Seen = field(default_factory=dict, compare=False)

    def analysed(self, plan: Plan) -> Analysed:
        return analyse_node(plan, self.catalog, self.facts, self.seen)


def plan_sql(plan: Plan, at: Lowering) -> str:
    """SELECT of the plan's rows, in no order."""
    here = at.analysed(plan)
    match plan:
        case Scan():
            return scan_sql(plan, here)
        case Join(left, right):
            sides = (at.analysed(left), at.analysed(right))
            return join_sql(plan, plan_sql(left, at), plan_sql(right, at), sides, here)
        case UnionAll(left, right):
            sides = (at.analysed(left), at.analysed(right))
            return union_sql(plan_sql(left, at), plan_sql(right, at), sides, here)
    source, before = plan_sql(plan.source, at), at.analysed(plan.source)
    match plan:
        case Filter():
            return filter_sql(plan, source, before, here)
        case Project():
            return project_sql(plan, source, before, here)
        case Distinct():
            return distinct_sql(source, here)
        case PerUnit():
            return per_unit_sql(plan, source, before, here)
        case Group():
            return group_sql(plan, source, before, here)
        case LimitGroups():
            return limit_sql(plan, source, here)
        case SampleUnits():
            if at.sample_key is None:
                raise RefusedError(
                    "a sample needs a key that the kernel draws for the release", rule="no analyst's seed"
                )
            return sample_sql(plan, source, here, at.sample_key)
    raise AssertionError(f"no lowering for {type(plan).__name__}")
