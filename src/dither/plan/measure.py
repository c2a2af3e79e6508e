"""The sensitivity of a query: what one unit can change, in every norm, from plan and catalog alone.

COUNT over at most k rows per unit: k. SUM of a column clamped to [L, U]: k * max(|L|, |U|). However the rows are spread
over groups, the L1 change is the same and at most k cells move. Proof: docs/proofs/stability.md#aggregates.
"""

from __future__ import annotations

from dither.catalog import Catalog
from dither.errors import RefusedError
from dither.plan.algebra import Aggregate, Cells, Count, Sum
from dither.plan.domains import bounds, check_query, shape, table_of
from dither.plan.sensitivity import Sensitivity
from dither.plan.stability import stability

MAX_SUM = 10**38 - 1


def sensitivity(query: Cells, catalog: Catalog) -> Sensitivity:
    """Exact bounds over all add/remove neighbours of the registered table."""
    check_query(query, catalog)
    if catalog.neighbours != "add_remove":
        raise RefusedError("replace neighbours have no rule here", rule="a node without a rule is refused")
    rows = stability(query.plan, catalog).rows
    cells, _ = shape(query, catalog)
    moves = [rows * _per_row(aggregate, query, catalog) for aggregate in query.columns]
    return Sensitivity.of(cells=min(rows, cells) * len(moves), largest=max(moves), l1=sum(moves))


def _per_row(aggregate: Aggregate, query: Cells, catalog: Catalog) -> int:
    """How far one row can move an aggregate."""
    if isinstance(aggregate, Count):
        return 1
    if isinstance(aggregate, Sum):
        return bounds(aggregate.column, query.plan, catalog).largest
    raise RefusedError(f"no rule for {type(aggregate).__name__}", rule="a node without a rule is refused")


def largest_value(aggregate: Aggregate, query: Cells, catalog: Catalog) -> int:
    """The public bound of |aggregate|: max_rows times what one row adds. Nothing measured can pass it."""
    rows = table_of(query.plan, catalog).max_rows
    if rows is None:
        raise RefusedError("the table has no max_rows", rule="widths come from the catalog")
    largest = rows * _per_row(aggregate, query, catalog)
    if largest > MAX_SUM:
        raise RefusedError("a sum could pass 10^38 - 1", rule="widths come from the catalog")
    return largest
