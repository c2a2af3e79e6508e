"""How many cells of an answer can hold anything, by the conditions of the question alone.

All declared keys are returned. `WHERE nation = 'FRANCE'` leaves one of them rows, and the others
are nothing but noise: what errs least is judged by the cells that matter.
"""

from __future__ import annotations

from math import prod

from dither.plan.algebra import Column, Filter, Join, Project
from dither.plan.analyse import Analysed
from dither.plan.narrow import count_labels

_MOST_LABELS = 1000


def count_possible_cells(rows: Analysed, keys: tuple[str, ...]) -> int:
    """The number of cells that a row can be in."""
    return max(1, prod(_count_values(rows, key) for key in keys))


def _count_values(rows: Analysed, name: str) -> int:
    """How many values a column can have in the rows of a plan."""
    domain = rows.columns[name]
    first, last = domain.listed
    values = last - first + 1 + domain.nullable
    plan = rows.plan
    is_short_list = domain.kind == "category" and len(domain.labels) <= _MOST_LABELS
    if isinstance(plan, Filter) and is_short_list:
        values = min(values, count_labels(name, plan.condition, rows.sources[0].columns))
    below = name
    if isinstance(plan, Project):
        value = next(column.of for column in plan.columns if column.name == name)
        if not isinstance(value, Column):
            return values
        below = value.name
    sources = rows.sources if isinstance(plan, Join) else rows.sources[:1]
    for source in sources:
        if below in source.columns:
            return min(values, _count_values(source, below))
    return values
