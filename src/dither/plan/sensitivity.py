"""The sensitivity of a query: what one unit can change, in every norm, from plan and catalog alone.

A unit has k rows in the plan, in at most g cells and at most r in one cell. COUNT moves by 1 a row,
SUM of a column clamped to [L, U] by max(|L|, |U|). Under replace a change is one removal and one
addition. Proof: docs/proofs/stability.md#aggregates.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from dither.catalog import Neighbours
from dither.errors import RefusedError
from dither.plan.algebra import (
    Aggregate,
    Cells,
    Count,
    CountDistinct,
    CountUnits,
    CountValues,
    Keys,
    Query,
    Sum,
)
from dither.plan.analyse import Analysed
from dither.plan.domain import is_stored
from dither.plan.keys import bounds_in, key_domains_in
from dither.plan.norms import Sensitivity
from dither.plan.stability.owned import ROWS, Loose, Owned
from dither.rules import PrivacyRule

MAX_SUM = 10**38 - 1


@dataclass(frozen=True)
class Reach:
    """How far the rows of one unit reach: rows in all, cells touched, rows in one cell."""

    rows: int
    cells: int
    rows_per_cell: int


@dataclass(frozen=True)
class Touched:
    """The cells that a query has, and how far the rows of one unit reach in them."""

    cells: int
    reach: Reach


@dataclass(frozen=True)
class Box:
    """The sum over all cells of max_i(|change of number i| / side i) is at most `rows`, for all
    neighbours."""

    sides: tuple[int, ...]
    rows: int


def find_touched(query: Query, rows: Analysed) -> Touched:
    """Count the cells of a query, and bound how far the rows of one unit reach in them."""
    cells = _count_cells(query, rows)
    return Touched(cells, _find_reach(rows, query.keys, cells))


def sensitivity_in(
    query: Cells, rows: Analysed, neighbours: Neighbours, touched: Touched | None = None
) -> Sensitivity:
    """Bound how far one unit moves all cells of a query, in each norm.

    The bounds hold for all neighbours of the registered tables. `touched` is that of the query,
    where the caller has it.
    """
    if not query.columns:
        raise RefusedError("a query without aggregates", rule=PrivacyRule.NO_RULE)
    touched = touched or find_touched(query, rows)
    moves = [
        _bound_change(aggregate, rows, touched, neighbours, query.keys)
        for aggregate in query.columns
    ]
    return Sensitivity(
        l0=sum(move.l0 for move in moves),
        l1=sum(move.l1 for move in moves),
        l2_squared=sum(move.l2_squared for move in moves),
        linf=max(move.linf for move in moves),
    )


def box_in(
    query: Cells, rows: Analysed, neighbours: Neighbours, touched: Touched | None = None
) -> Box:
    """Bound how far one unit moves the numbers of all cells together, in boxes of what one row
    adds."""
    reach = (touched or find_touched(query, rows)).reach
    most = max(1, min(reach.rows, reach.cells * reach.rows_per_cell))
    sides = tuple(
        max(1, *map(abs, _bound_row_change(aggregate, rows))) for aggregate in query.columns
    )
    return Box(sides, 2 * most if neighbours == "replace" else most)


def unit_box_in(
    query: Cells, rows: Analysed, neighbours: Neighbours, touched: Touched | None = None
) -> Box:
    """The same in boxes of what one unit moves in one cell: as many as it has cells.

    A replaced unit leaves its cells and joins others: twice as many boxes. Or it changes what it
    adds to a cell, from anything between the least and the largest to any other such number: one
    box of that width in each cell. The one that is smaller for every number is taken.
    """
    within = touched or find_touched(query, rows)

    def bound_sides(neighbours: Neighbours) -> tuple[int, ...]:
        moves = [
            _bound_change(aggregate, rows, within, neighbours, query.keys)
            for aggregate in query.columns
        ]
        return tuple(max(1, move.linf) for move in moves)

    sides = bound_sides("add_remove")
    cells = max(1, within.reach.cells)
    if neighbours != "replace":
        return Box(sides, cells)
    widths = bound_sides("replace")
    changed = min(2 * cells, max(1, within.cells))
    is_narrower = all(
        width * changed <= 2 * cells * length for width, length in zip(widths, sides, strict=True)
    )
    return Box(widths, changed) if is_narrower else Box(sides, 2 * cells)


def _bound_row_change(aggregate: Aggregate, analysed: Analysed) -> tuple[int, int]:
    """Bound what one row can add: the least and the largest.

    A row is at most one value, and at most one unit, more in its cell.
    """
    if isinstance(aggregate, (CountUnits, CountDistinct)):
        _bound_contribution(aggregate, analysed, Reach(1, 1, 1))  # refuses what cannot be counted
        return 0, 1
    return _bound_row(aggregate, analysed)


def touched_in(
    query: Query, rows: Analysed, neighbours: Neighbours, touched: Touched | None = None
) -> Reach:
    """Bound how far the rows of one unit reach in a query that is answered cell by cell.

    That is quantiles and key selection. As `sensitivity_in`, under replace: a unit leaves its cells
    and joins others. Rows without an owner may come and go together, so that a replaced unit
    changes twice as many of one cell. Keys are counted by owners: they need one, else RefusedError.
    """
    if isinstance(query, Keys) and not isinstance(rows.node, Owned):
        raise RefusedError(
            "keys are selected by their owners: these rows have none", rule=PrivacyRule.LOST_OWNER
        )
    within = touched or find_touched(query, rows)
    reach = within.reach
    # a join with an empty public table has no rows at all, and is answered like any other
    reach = Reach(max(1, reach.rows), max(1, reach.cells), max(1, reach.rows_per_cell))
    if neighbours != "replace":
        return reach
    twice = 1 if isinstance(rows.node, Owned) else 2
    return Reach(
        2 * reach.rows, min(2 * reach.cells, max(1, within.cells)), twice * reach.rows_per_cell
    )


def _count_cells(query: Query, analysed: Analysed) -> int:
    """The number of cells; without a list of keys there is no bound, and none is used."""
    domains = key_domains_in(query.keys, analysed.columns)
    if len(domains) < len(query.keys):
        return MAX_SUM
    return prod(domain.codes for domain in domains)


def _find_reach(analysed: Analysed, keys: tuple[str, ...], cells: int) -> Reach:
    """Find how many rows and cells one unit can reach, and how many rows in one cell."""
    node = analysed.node
    if isinstance(node, Owned):
        return Reach(node.rows, min(node.groups(keys), cells), node.rows_per_group(keys))
    assert isinstance(node, Loose)
    return Reach(node.rows, min(node.rows, cells), node.rows)


def _bound_change(
    aggregate: Aggregate,
    analysed: Analysed,
    within: Touched,
    neighbours: Neighbours,
    keys: tuple[str, ...],
) -> Sensitivity:
    """Bound how far one unit moves all cells of one aggregate, in each norm."""
    reach = within.reach
    cells = within.cells
    low, high = _bound_contribution(aggregate, analysed, reach)
    most = _bound_sum(aggregate, analysed, keys)
    low = max(low, -most)
    high = min(high, most)
    one_cell = max(abs(low), abs(high))
    if isinstance(aggregate, CountUnits):
        total = reach.cells
    elif isinstance(aggregate, CountDistinct):
        total = min(reach.rows, reach.cells * one_cell)
    else:
        row_size = max(map(abs, _bound_row(aggregate, analysed)))
        total = min(reach.rows * row_size, reach.cells * one_cell)
        total = min(total, most)
    touched = reach.cells
    if neighbours == "replace":
        # rows without an owner may come and go together: only owned contributions stay between low
        # and high
        one_cell = high - low if isinstance(analysed.node, Owned) else 2 * one_cell
        touched = min(2 * touched, cells)
        total = min(2 * total, cells * one_cell)
    squares = min(total * one_cell, touched * one_cell * one_cell)
    return Sensitivity(
        l0=min(touched, total), l1=total, l2_squared=squares, linf=min(one_cell, total)
    )


def _bound_sum(aggregate: Aggregate, analysed: Analysed, keys: tuple[str, ...]) -> int:
    """Bound what a sum or count changes in all cells together, where more is known than bounds.

    MAX_SUM where nothing is. Rows without an owner stay in their cell where the keys are among the
    fixed columns.
    """
    node = analysed.node
    if not isinstance(aggregate, (Count, Sum)) or not isinstance(node, (Owned, Loose)):
        return MAX_SUM
    if isinstance(node, Loose) and not set(keys) <= node.fixed:
        return MAX_SUM
    return node.sums.get(aggregate.column if isinstance(aggregate, Sum) else ROWS, MAX_SUM)


def _bound_contribution(aggregate: Aggregate, analysed: Analysed, reach: Reach) -> tuple[int, int]:
    """Return the least and the largest that one unit can add to one cell; 0 lies between them.

    Raises RefusedError where units are counted in rows without an owner.
    """
    if isinstance(aggregate, CountUnits):
        if not isinstance(analysed.node, Owned):
            raise RefusedError(
                "units are counted in rows that have an owner", rule=PrivacyRule.LOST_OWNER
            )
        return 0, 1
    if isinstance(aggregate, CountDistinct):
        return 0, min(reach.rows_per_cell, _count_values(aggregate.column, analysed))
    low, high = _bound_row(aggregate, analysed)
    return reach.rows_per_cell * low, reach.rows_per_cell * high


def _count_values(column: str, analysed: Analysed) -> int:
    """Count the values that a column can have; MAX_SUM where that is not known.

    Raises RefusedError for ids.
    """
    domain = analysed.columns.get(column)
    if domain is None or domain.kind == "id":
        raise RefusedError(f"no values of {column} to count", rule=PrivacyRule.IDS_NEVER_READ)
    return domain.high - domain.low + 1 if is_stored(domain) else MAX_SUM


def _bound_row(aggregate: Aggregate, analysed: Analysed) -> tuple[int, int]:
    """Return the least and the largest that one row can add; 0 lies between them."""
    if isinstance(aggregate, Count):
        return 0, 1
    if isinstance(aggregate, CountValues):
        _count_values(aggregate.column, analysed)
        return 0, 1
    if isinstance(aggregate, Sum):
        interval = bounds_in(aggregate.column, analysed.columns)
        return min(0, interval.low), max(0, interval.high)
    raise RefusedError(f"no rule for {type(aggregate).__name__}", rule=PrivacyRule.NO_RULE)


def largest_value_in(aggregate: Aggregate, rows: Analysed) -> int:
    """Bound |aggregate| in public: the plan's largest number of rows times what one adds.

    Raises RefusedError where a sum could have more than 38 digits.
    """
    added = (
        (0, 1)
        if isinstance(aggregate, (CountUnits, CountDistinct))
        else _bound_row(aggregate, rows)
    )
    assert isinstance(rows.node, (Owned, Loose))
    largest = rows.node.most * max(map(abs, added))
    if largest > MAX_SUM:
        raise RefusedError("a sum could pass 10^38 - 1", rule=PrivacyRule.WIDTHS)
    return largest
