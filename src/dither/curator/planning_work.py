"""Bound how long an engine plans the expressions of a request, however few rows there are.

The engine plans each call as a column of a statement, with a value and perhaps a flag for null, and
the more arguments a call has, the longer that takes. The time is the same whatever the rows hold.
But if nothing were charged for it, whoever asks could let a slot be missed whenever they like.
"""

from __future__ import annotations

from collections.abc import Iterable

from dither.curator.declared_rows import list_nodes
from dither.curator.expression_work import list_expressions
from dither.plan.analyse import Analysed
from dither.plan.expressions import Call, Expression, Value

PLANNED_S = 1e-3
"""Seconds of planning that are charged for one unit of `_count_planned`: measured 0.2 to 0.9 ms."""
FEW_PLANNED = 20
"""So many units are planned within the fixed part of a slot, and are not charged."""


def bound_planning(statements: Iterable[Analysed]) -> float:
    """Bound the seconds that all statements together are planned beyond the fixed part."""
    planned = 0
    for rows in statements:
        for node in list_nodes(rows):
            counted: set[Expression] = set()
            planned += sum(_count_planned(root, counted) for root in list_expressions(node.plan))
    return PLANNED_S * max(0, planned - FEW_PLANNED)


def _count_planned(expression: Expression, counted: set[Expression]) -> int:
    """Count two units for each call, and one for each argument that is no constant.

    A call that occurs again in the same operator is planned once: `counted` holds those before.
    """
    if not isinstance(expression, Call) or expression in counted:
        return 0
    counted.add(expression)
    below = sum(_count_planned(argument, counted) for argument in expression.arguments)
    return 2 + sum(not isinstance(argument, Value) for argument in expression.arguments) + below
