"""Bound how long an engine plans the expressions of a request, however few rows there are.

The engine plans each call as a column of a statement, with a value and perhaps a flag for null, and
the more arguments a call has, the longer that takes. The time is the same whatever the rows hold.
But if nothing were charged for it, whoever asks could let a slot be missed whenever they like.
"""

from __future__ import annotations

from collections.abc import Iterable

from dither.curator.declared_rows import list_nodes
from dither.curator.expression_work import list_expressions
from dither.plan.algebra import Filter, Join
from dither.plan.analyse import Analysed
from dither.plan.expressions import (
    And,
    Call,
    Compare,
    Condition,
    Expression,
    IsNull,
    Not,
    Or,
    Value,
)

PLANNED_S = 1e-3
"""Seconds of planning that are charged for one unit of `_count_planned`: measured 0.2 to 0.9 ms."""
COMPARISONS = 4
"""So many comparisons of columns with constants are one unit: 8,000 of them took 1.9 s, which a
question without another bound for them could miss its slots by."""
JOINS = 400
"""The cube of the number of joins, over this, is in units too: 40 inner joins with a table of four
rows took 0.14 s, and 120 took 3.8 s: their order is searched for."""
LOOKUP = "index_in"
"""A call of this function is a join with its list: 160 calls took 3.2 s, and 320 took 23 s."""
FEW_PLANNED = 20
"""So many units are planned within the fixed part of a slot, and are not charged."""


def bound_planning(statements: Iterable[Analysed]) -> float:
    """Bound the seconds that all statements together are planned beyond the fixed part."""
    planned = 0
    for rows in statements:
        nodes = list(list_nodes(rows))
        joins = sum(isinstance(node.plan, Join) for node in nodes)
        for node in nodes:
            counted: set[Expression] = set()
            planned += sum(_count_planned(root, counted) for root in list_expressions(node.plan))
            joins += sum(isinstance(call, Call) and call.function == LOOKUP for call in counted)
            if isinstance(node.plan, Filter):
                planned += _count_comparisons(node.plan.condition) // COMPARISONS
        planned += joins**3 // JOINS
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


def _count_comparisons(condition: Condition) -> int:
    """Count the columns that a condition compares with a constant or null, each as often as it
    does."""
    match condition:
        case Compare() | IsNull():
            return 1
        case Not(inner):
            return _count_comparisons(inner)
        case And(operands) | Or(operands):
            return sum(map(_count_comparisons, operands))
    return 0
