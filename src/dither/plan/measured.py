"""Which queries the data layer measures for a query of a request."""

from __future__ import annotations

from dither.plan.algebra import JointScores, MeasuredQuery, OverCells, Query


def measured_query(query: Query) -> MeasuredQuery:
    """The query whose integers the data layer measures, the first where there are several."""
    return measured_queries(query)[0]


def measured_queries(query: Query) -> tuple[MeasuredQuery, ...]:
    """The queries whose integers the data layer measures: the query itself, or its cells."""
    if isinstance(query, JointScores):
        return tuple(member.cells for member in query.members)
    return (query.cells if isinstance(query, OverCells) else query,)
