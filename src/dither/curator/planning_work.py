"""Bound how long an engine plans the expressions of a request, however few rows there are.

Each call is a column of a statement with a value and perhaps a flag for null, and planning takes
longer the more arguments it combines. It is the same in all worlds, but a miss at will where
nothing is charged for it.
"""

from __future__ import annotations

from collections.abc import Iterable

from dither.curator.declared_rows import list_nodes
from dither.curator.expression_work import list_expressions
from dither.plan.analyse import Analysed
from dither.plan.expressions import Call, Expression, Value

PLANNED_S = 1e-3
"""Seconds for one call, twice, and for each argument that is no constant: 0.2 to 0.9 ms."""
FEW_PLANNED = 20
"""So many are planned in the fixed part of the slots."""


def bound_planning(statements: Iterable[Analysed]) -> float:
    """Bound the seconds that all statements together are planned beyond the fixed part."""
    planned = 0
    for rows in statements:
        for node in list_nodes(rows):
            seen: set[Expression] = set()
            planned += sum(_count_planned(root, seen) for root in list_expressions(node.plan))
    return PLANNED_S * max(0, planned - FEW_PLANNED)


def _count_planned(expression: Expression, seen: set[Expression]) -> int:
    """Count calls, twice, and their arguments; a call that occurs twice is planned once."""
    if not isinstance(expression, Call) or expression in seen:
        return 0
    seen.add(expression)
    below = sum(_count_planned(argument, seen) for argument in expression.arguments)
    return 2 + sum(not isinstance(of, Value) for of in expression.arguments) + below
