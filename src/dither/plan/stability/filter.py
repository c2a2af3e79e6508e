"""WHERE: the rows that a condition keeps. Proof: docs/proofs/stability.md#filter."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from dither.plan.domain import Columns, narrowed
from dither.plan.expressions import Compare, Condition, conjuncts
from dither.plan.stability.owned import Node, Public


def filter_rows(source: Node) -> Node:
    """A condition looks at one row at a time, so a filter never adds rows to a unit.

    Values are moved into narrowed bounds, so rows which differed might be equal: what was unique is
    not known to be.

    >>> from dither.plan.stability.owned import Owned
    >>> filter_rows(Owned(3)) == Owned(3)
    True
    """
    return replace(source, unique=None) if isinstance(source, Public) else source


def filter_columns(source: Columns, condition: Condition) -> Columns:
    """Narrow the domains of columns by what every row meets.

    Lowering moves the values into them (rule clamp-to-priced-bounds).
    """
    columns = dict(source)
    for conjunct in conjuncts(condition):
        if isinstance(conjunct, Compare) and isinstance(conjunct.constant, Fraction):
            domain = columns[conjunct.column]
            if domain.kind in ("number", "date", "timestamp", "boolean"):
                columns[conjunct.column] = narrowed(domain, conjunct.operator, conjunct.constant)
    return columns
