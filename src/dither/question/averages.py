"""Which sums and counts are an average: a count of the values that were summed."""

from __future__ import annotations

from dither.plan.algebra import (
    Aggregate,
    Call,
    Cells,
    Column,
    Count,
    CountValues,
    Expression,
    Filter,
    LimitGroups,
    Plan,
    Project,
    SampleUnits,
    Sum,
    Value,
)


def counts_summands(summed: Cells, total: Sum, counted: Cells, counter: Aggregate) -> bool:
    """Whether a count is of the values that were summed, perhaps less a constant, or of all rows
    that they are in."""
    if not _reads_same_rows(summed.plan, counted.plan):
        return False
    if isinstance(counter, Count):
        return True
    if not isinstance(counter, CountValues):
        return False
    value = find_expression(counted.plan, counter.column)
    match summand := find_expression(summed.plan, total.column):
        case Call("subtract", (inner, Value())) if inner == value:
            return True
    return summand == value


def find_expression(plan: Plan, column: str) -> Expression | Aggregate:
    """Find what a column of a plan is computed from.

    Below nodes that keep columns as they are, it is a projection's expression, else the column
    itself.
    """
    while isinstance(plan, (Filter, LimitGroups, SampleUnits)):  # these keep columns as they are
        plan = plan.source
    computed = plan.columns if isinstance(plan, Project) else ()
    return next((named.of for named in computed if named.name == column), Column(column))


def _reads_same_rows(first: Plan, second: Plan) -> bool:
    """Whether two plans differ in the columns that they compute, at most."""
    return first == second or _strip_project(first) == _strip_project(second)


def _strip_project(plan: Plan) -> Plan:
    return plan.source if isinstance(plan, Project) else plan
