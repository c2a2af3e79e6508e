"""Linear queries: what one unit can change in the product of a public operator with cells.

One unit moves the cells of a count or sum by a vector v whose entries sum to at most V by absolute
value, so every norm of A v is at most V times the largest such norm of a column of A. Under replace
it is twice that, always: a unit may have no row in one of the two databases, and its value may
change in place. Proof: docs/proofs/linear-queries.md#sensitivity.
"""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from dither.catalog import Neighbours
from dither.errors import RefusedError
from dither.plan.algebra import Aggregate, Cells, Count, CountUnits, CountValues, Linear, Sum
from dither.plan.analyse import Analysed
from dither.plan.apply_operator import apply_operator
from dither.plan.keys import open_keys_in
from dither.plan.norms import Sensitivity
from dither.plan.operator_norms import largest_factor, largest_norms, memory_bytes
from dither.plan.operators import check_operator, count_columns, count_rows
from dither.plan.sensitivity import MAX_SUM, largest_value_in, sensitivity_in
from dither.rules import PrivacyRule

MOST_BYTES = 1 << 30
"""Memory of the product of an operator with cells, beside the cells themselves."""
_ADDED_UP = (Count, CountValues, CountUnits, Sum)


def find_aggregate(cells: Cells) -> Aggregate:
    """The one count or sum of the cells; refused where there is none or another."""
    columns = cells.columns if type(cells) is Cells else ()
    if len(columns) != 1 or not isinstance(columns[0], _ADDED_UP):
        raise RefusedError(
            "a linear query and a choice by scores take the cells of one COUNT, COUNT(column), "
            "COUNT(DISTINCT unit) or SUM",
            rule=PrivacyRule.NO_RULE,
        )
    return columns[0]


def refuse_open_keys(cells: Cells, rows: Analysed) -> None:
    """Refuse cells whose keys are not all declared."""
    if unlisted := open_keys_in(cells.keys, rows.columns):
        raise RefusedError(
            f"{', '.join(unlisted)} has no list of keys: list them in the catalog",
            rule=PrivacyRule.KEY_SELECTION,
        )


def check_linear(query: Linear, rows: Analysed, cells: int) -> None:
    """Refuse an operator that is no operator over exactly these cells, or takes too much memory."""
    find_aggregate(query.cells)
    refuse_open_keys(query.cells, rows)
    operator = check_operator(query.operator)
    if count_columns(operator) != cells:
        raise RefusedError(
            f"an operator for {count_columns(operator):,} cells, and the keys have {cells:,}",
            rule=PrivacyRule.NO_RULE,
        )
    if not largest_norms(operator).linf:
        raise RefusedError("an operator of zeros asks for nothing", rule=PrivacyRule.NO_RULE)
    memory = memory_bytes(operator, bound_cells(query.cells, rows))
    if memory > MOST_BYTES:
        raise RefusedError(
            f"this operator takes {memory:,} bytes: at most {MOST_BYTES:,}. Ask for fewer numbers, "
            f"or in several questions",
            rule=PrivacyRule.BOUNDED_WORK,
        )


def bound_cells(cells: Cells, rows: Analysed) -> int:
    """The public bound of the absolute values of all cells together: every row is in one cell."""
    return largest_value_in(cells.columns[0], rows)


def bound_products(query: Linear, rows: Analysed) -> int:
    """The public bound of every number of the product."""
    largest = bound_cells(query.cells, rows) * largest_factor(query.operator)
    if largest > MAX_SUM:
        raise RefusedError("a product could pass 10^38 - 1", rule=PrivacyRule.WIDTHS)
    return largest


def move_of_cells(cells: Cells, rows: Analysed, neighbours: Neighbours) -> Sensitivity:
    """How far one unit moves the cells: the add/remove bounds, doubled under replace; never 0."""
    moved = sensitivity_in(cells, rows, "add_remove")
    times = 2 if neighbours == "replace" else 1
    return Sensitivity(
        l0=times * max(1, moved.l0),
        l1=times * max(1, moved.l1),
        l2_squared=(times * max(1, moved.l1)) ** 2,
        linf=times * max(1, moved.l1),
    )


def linear_sensitivity_in(query: Linear, rows: Analysed, neighbours: Neighbours) -> Sensitivity:
    """Exact bounds over all neighbours, from the operator's own column norms."""
    moved = move_of_cells(query.cells, rows, neighbours)
    norms = largest_norms(query.operator)
    return Sensitivity(
        l0=min(count_rows(query.operator), moved.l0 * norms.l0),
        l1=moved.l1 * norms.l1,
        l2_squared=moved.l1**2 * norms.l2_squared,
        linf=moved.l1 * norms.linf,
    )


def multiply_cells(query: Linear, measured: NDArray[Any], largest: int) -> NDArray[Any]:
    """The exact numbers of a linear query from the measured cells: one row of one number each.

    `largest` is the public bound of all cells together.
    """
    products = apply_operator(query.operator, measured[:, 0], largest)
    return products.reshape(-1, 1)
