"""The bounds of a column in the rows of a plan, for those who ask about one column."""

from __future__ import annotations

from dither.catalog import Catalog
from dither.plan.algebra import Plan
from dither.plan.analyse import analyse
from dither.plan.facts import NO_FACTS, Facts
from dither.plan.keys import Interval, bounds_in


def bounds(column: str, plan: Plan, catalog: Catalog, facts: Facts = NO_FACTS) -> Interval:
    """Grid bounds of a numeric column in the rows of a plan, narrowed by the conditions every row
    meets.

    The narrowing is never trusted: an aggregate clamps its argument to exactly these bounds
    (rule clamp-to-priced-bounds).
    """
    return bounds_in(column, analyse(plan, catalog, facts).columns)
