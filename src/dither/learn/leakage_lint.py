"""Signs that a feature knows the target, read off names and the request alone: no row is looked at.

A model that may look at its target scores well in training and is of no use. Whether a column does
is a fact about the data; what is said here follows from the SQL and the catalog, and is the same
for every database.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from dither.plan.algebra import Filter, Group, PerUnit, Plan, Project, Scan
from dither.plan.conditions import columns_of

_SHORTEST_STEM = 5


def lint_target(plan: Plan, target: str | None, features: Sequence[str]) -> tuple[str, ...]:
    """A sentence for each sign that a feature, or the choice of rows, knows the target."""
    if target is None:
        return ()
    sources = find_sources(plan, target)
    warnings = []
    for name in features:
        if find_sources(plan, name) & sources:
            warnings.append(
                f"{name!r} is computed from what {target!r} is computed from: leave it out, unless "
                f"it is known when the model is used"
            )
        elif share_stem(name, target):
            warnings.append(
                f"{name!r} is named like the target {target!r}: leave it out, unless it is known "
                f"when the model is used"
            )
    if find_conditions(plan) & sources:
        warnings.append(f"rows are chosen by {target!r}: the model is for such rows alone")
    return tuple(warnings)


def find_sources(plan: Plan, column: str) -> frozenset[str]:
    """The columns of tables that a column of a plan is computed from."""
    if isinstance(plan, Scan):
        return frozenset([column])
    names = frozenset([column])
    if isinstance(plan, (Project, PerUnit, Group)):
        named = {item.name: item for item in plan.columns}
        if column in named:
            names = columns_of(named[column].of)
    return frozenset().union(
        *(find_sources(source, name) for source in _list_sources(plan) for name in names)
    )


def find_conditions(plan: Plan) -> frozenset[str]:
    """The columns of tables by which rows are chosen."""
    below = frozenset().union(*(find_conditions(source) for source in _list_sources(plan)))
    if not isinstance(plan, Filter):
        return below
    return below.union(*(find_sources(plan.source, name) for name in columns_of(plan.condition)))


def _list_sources(plan: Plan) -> list[Plan]:
    """The plans right below a plan."""
    names = ("source", "left", "right")
    return [getattr(plan, name) for name in names if hasattr(plan, name)]


def share_stem(name: str, target: str) -> bool:
    """Whether two names share a word, or the first letters of one.

    >>> share_stem("days_readmitted", "readmission"), share_stem("age", "readmitted")
    (True, False)
    """
    words = _list_stems(target)
    return bool(words & _list_stems(name))


def _list_stems(name: str) -> frozenset[str]:
    words = re.findall(r"[a-z]+", re.sub(r"([a-z])([A-Z])", r"\1_\2", name).lower())
    return frozenset(word[:_SHORTEST_STEM] for word in words if len(word) >= _SHORTEST_STEM)
