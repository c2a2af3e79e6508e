"""What one unit moves in a linear query: the claim against all neighbours of tiny tables.

A unit has at most k rows of (cell, value), every combination is tried: all contributions for
add/remove, all pairs of them for replace. The rows go through the plan in the naive evaluator, the
product through the full matrix. Operators have at most four cells (rules P2, P3, P38, P39 of the
review: docs/proofs/linear-queries.md).
"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import cache
from itertools import combinations, combinations_with_replacement, product
from math import prod

import numpy as np
import pytest
from numpy.typing import NDArray

from dither.audit.naive_linear import write_matrix
from dither.audit.naive_plans import NaiveDatabase, grouped
from dither.catalog import parse
from dither.errors import RefusedError
from dither.plan import linear
from dither.plan.algebra import (
    Aggregate,
    Cells,
    Count,
    CountDistinct,
    CountUnits,
    CountValues,
    LimitGroups,
    Linear,
    Plan,
    Scan,
    Sum,
)
from dither.plan.analysed_query import Analyses
from dither.plan.norms import Sensitivity
from dither.plan.operator_norms import Norms, largest_norms
from dither.plan.operators import Dense, Identity, Kronecker, LinearOperator, Total
from tests.case_lists import mark_between
from tests.datasets.catalog_texts import write_head, write_private_head
from tests.plan.operator_samples import CONTRAST, OF_FOUR, draw_operator

KEYS = 2
ROWS = Scan("t")
FEW = LimitGroups(ROWS, ("a", "b"), 1)
AGGREGATES: dict[str, Aggregate] = {
    "count": Count(),
    "values": CountValues("x"),
    "units": CountUnits(),
    "sum": Sum("x"),
}


def write_catalog(neighbours: str, rows: int, low: int, high: int) -> str:
    return (
        write_head("tiny", "tiny", "pid: {protected: true}", neighbours=neighbours)
        + write_private_head("t", "{column: pid}", rows)
        + "      pid: {type: id}\n"
        + "      a: {type: integer, bounds: [0, 1], nulls: drop, provenance: test}\n"
        + "      b: {type: integer, bounds: [0, 1], nulls: drop, provenance: test}\n"
        + f"      x: {{type: integer, bounds: [{low}, {high}], nulls: drop, provenance: test}}\n"
    )


@cache
def list_contributions(
    plan: Plan, aggregate: Aggregate, rows: int, low: int, high: int
) -> NDArray[np.int64]:
    """The cells of every database that holds at most so many rows of one unit, one row each."""
    catalog = parse(write_catalog("add_remove", rows, low, high))
    query = Cells(plan, ("a", "b"), (aggregate,))
    kinds = list(product(range(KEYS), range(KEYS), sorted({low, 0, high})))
    contributions = set()
    for count in range(rows + 1):
        for chosen in combinations_with_replacement(kinds, count):
            table = [{"owner": "u", "a": a, "b": b, "x": x} for a, b, x in chosen]
            cells = grouped(query, NaiveDatabase(catalog, {"t": table}, {}, b""))
            contributions.add(
                tuple(int(cells.get((a, b), [0])[0]) for a, b in product(range(KEYS), range(KEYS)))
            )
    return np.array(sorted(contributions))


def largest_moves(
    operator: LinearOperator, contributions: NDArray[np.int64], neighbours: str
) -> Sensitivity:
    """The largest move in every norm over all neighbours."""
    numbers = contributions @ np.array(write_matrix(operator)).T
    moves = numbers
    if neighbours == "replace":
        moves = (numbers[:, None, :] - numbers[None, :, :]).reshape(-1, numbers.shape[1])
    sizes = np.abs(moves)
    return Sensitivity(
        int((sizes > 0).sum(axis=1).max()),
        int(sizes.sum(axis=1).max()),
        int((sizes**2).sum(axis=1).max()),
        int(sizes.max()),
    )


def find_claim(
    operator: LinearOperator,
    aggregate: Aggregate,
    neighbours: str,
    plan: Plan = ROWS,
    rows: int = 2,
    low: int = -2,
    high: int = 3,
) -> tuple[Sensitivity, Sensitivity]:
    """What is claimed for a linear query, and the largest that happens."""
    analyses = Analyses(parse(write_catalog(neighbours, rows, low, high)))
    query = Linear(Cells(plan, ("a", "b"), (aggregate,)), operator)
    claimed = analyses.analyse_query(query).sensitivity
    contributions = list_contributions(plan, aggregate, rows, low, high)
    return claimed, largest_moves(operator, contributions, neighbours)


def holds(claimed: Sensitivity, moved: Sensitivity) -> bool:
    return all(
        getattr(moved, norm) <= getattr(claimed, norm)
        for norm in ("l0", "l1", "l2_squared", "linf")
    )


@pytest.mark.parametrize("neighbours", ["add_remove", "replace"])
@pytest.mark.parametrize("plan", [ROWS, FEW], ids=["rows", "one cell"])
@pytest.mark.parametrize("aggregate", mark_between(AGGREGATES, step=3))
@pytest.mark.parametrize("name", OF_FOUR)
def test_no_neighbour_moves_a_product_beyond_the_claim(
    name: str, aggregate: str, plan: Plan, neighbours: str
) -> None:
    claimed, moved = find_claim(OF_FOUR[name], AGGREGATES[aggregate], neighbours, plan)
    assert holds(claimed, moved), (claimed, moved)


def test_no_random_operator_is_moved_beyond_its_claim() -> None:
    """An attacker's search: operators of any nesting, all neighbours of each."""
    draws = random.Random(7)
    for _ in range(150):
        operator = draw_operator(draws, 4)
        if not largest_norms(operator).linf:
            continue
        for neighbours in ("add_remove", "replace"):
            aggregate = AGGREGATES[draws.choice(["count", "units", "sum"])]
            claimed, moved = find_claim(operator, aggregate, neighbours)
            assert holds(claimed, moved), (operator, claimed, moved)


@pytest.mark.parametrize("aggregate", ["count", "sum"])
@pytest.mark.parametrize("name", OF_FOUR)
def test_the_claim_is_reached_where_all_rows_fall_into_the_worst_cell(
    name: str, aggregate: str
) -> None:
    """k b max_j ||A_j|| is exact for add/remove: the figure of the rule, norm by norm."""
    claimed, moved = find_claim(OF_FOUR[name], AGGREGATES[aggregate], "add_remove")
    assert (claimed.l1, claimed.l2_squared, claimed.linf) == (
        moved.l1,
        moved.l2_squared,
        moved.linf,
    )


@pytest.mark.parametrize("aggregate", ["count", "sum"])
@pytest.mark.parametrize("name", OF_FOUR)
def test_replace_is_twice_add_and_remove(name: str, aggregate: str) -> None:
    single = find_claim(OF_FOUR[name], AGGREGATES[aggregate], "add_remove")[0]
    double = find_claim(OF_FOUR[name], AGGREGATES[aggregate], "replace")[0]
    assert (double.l1, double.l2_squared, double.linf) == (
        2 * single.l1,
        4 * single.l2_squared,
        2 * single.linf,
    )


def test_the_smaller_of_rows_and_cells_bounds_the_move() -> None:
    """One cell of at most k rows: r b g = k b here; of COUNT(DISTINCT unit) g alone."""
    whole = find_claim(Identity(4), CountUnits(), "add_remove")[0]
    limited = find_claim(Identity(4), CountUnits(), "add_remove", FEW)[0]
    assert (whole.l1, limited.l1) == (2, 1)


# -- planted mistakes: each states less than what happens on some neighbour
# --------------------------------------------------------------------------------------------------

Planted = Callable[[LinearOperator, int, str], Sensitivity]


def by_differences_of_columns(operator: LinearOperator, bound: int, neighbours: str) -> Sensitivity:
    """Replace as the largest difference of two columns: nobody without a row, no value in place."""
    columns = list(zip(*write_matrix(operator), strict=True))
    moves = [
        [bound * abs(a - b) for a, b in zip(first, second, strict=True)]
        for first, second in combinations(columns, 2)
    ]
    return Sensitivity(
        len(moves[0]),
        max(map(sum, moves)),
        max(sum(size**2 for size in move) for move in moves),
        max(map(max, moves)),
    )


def by_exactly_four_columns(operator: LinearOperator, bound: int, neighbours: str) -> Sensitivity:
    """The sum of exactly g columns: those of a contrast cancel."""
    move = [bound * abs(sum(row)) for row in write_matrix(operator)]
    return Sensitivity(len(move), sum(move), sum(size**2 for size in move), max(move))


@pytest.mark.parametrize(
    ("planted", "operator", "aggregate", "neighbours"),
    [
        (by_differences_of_columns, Total(4), Count(), "replace"),
        (by_differences_of_columns, OF_FOUR["prefix"], Sum("x"), "replace"),
        (by_exactly_four_columns, Kronecker((CONTRAST, Total(2))), Count(), "add_remove"),
    ],
    ids=["total by differences", "prefixes by differences", "a contrast of exactly four"],
)
def test_a_claim_by_a_wrong_theorem_is_caught(
    monkeypatch: pytest.MonkeyPatch,
    planted: Planted,
    operator: LinearOperator,
    aggregate: Aggregate,
    neighbours: str,
) -> None:
    bound = 1 if aggregate == Count() else 3
    monkeypatch.setattr(
        "dither.plan.analysed_query.linear_sensitivity_in",
        lambda query, rows, neighbours: planted(query.operator, bound, neighbours),
    )
    claimed, moved = find_claim(operator, aggregate, neighbours, rows=1)
    assert not holds(claimed, moved)


def test_norms_taken_before_rounding_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """A strategy of columns (0.6, 0.6, ...) rounds up to ones: its real norms are too small."""
    rounded = Dense(((1, 1, 1, 1),) * 3)
    real = [0.6**2 * 3, 0.6 * 3]
    assert find_claim(rounded, Count(), "add_remove", rows=1)[0].l2_squared == 3
    honest = linear.largest_norms
    monkeypatch.setattr(
        linear,
        "largest_norms",
        lambda operator: honest(operator)._replace(l2_squared=int(real[0]), l1=int(real[1])),
    )
    assert not holds(*find_claim(rounded, Count(), "add_remove", rows=1))


def test_sums_of_columns_of_a_kronecker_product_do_not_factor() -> None:
    """Two rows in cells (0, 0) and (1, 1): the product of the factors' largest sums is too small.

    So the claim is k b times one column, never a figure made factor by factor.
    """
    factors = (Dense(((-1, 1), (-3, 3))), Dense(((-2, 2), (2, -2))))
    by_factors = prod(map(largest_sum_of_two_columns, factors))
    claimed, moved = find_claim(Kronecker(factors), Count(), "add_remove")
    assert (by_factors, moved.l2_squared) == (80, 320)
    assert holds(claimed, moved)


def largest_sum_of_two_columns(operator: Dense) -> int:
    """The largest squared L2 norm of a sum of one or two columns, each once, plus signs."""
    columns = np.array(operator.entries).T
    return max(
        int((columns[list(chosen)].sum(axis=0) ** 2).sum()) for chosen in ((0,), (1,), (0, 1))
    )


# -- refused before anything is read
# --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cells", "operator", "why"),
    [
        (Cells(ROWS, ("a", "b"), (Count(),)), Total(3), "the keys have 4"),
        (Cells(ROWS, ("a", "b"), (Count(), Sum("x"))), Total(4), "one COUNT"),
        (Cells(ROWS, ("a", "b"), (CountDistinct("x"),)), Total(4), "one COUNT"),
        (Cells(ROWS, ("a", "b"), ()), Total(4), "one COUNT"),
        (Cells(ROWS, ("a", "b"), (Count(),)), Dense(((0, 0, 0, 0),)), "zeros"),
        (Cells(ROWS, ("a", "pid"), (Count(),)), Total(4), "pid"),
    ],
    ids=["other size", "two columns", "distinct", "none", "zeros", "an id"],
)
def test_a_query_without_a_rule_is_refused(
    cells: Cells, operator: LinearOperator, why: str
) -> None:
    analyses = Analyses(parse(write_catalog("add_remove", 2, 0, 1)))
    with pytest.raises(RefusedError, match=why):
        _ = analyses.analyse_query(Linear(cells, operator)).released_rows


def test_a_product_past_the_widest_number_is_refused() -> None:
    analyses = Analyses(parse(write_catalog("add_remove", 2, 0, 1)))
    huge = Dense(((2**40,),))
    operator = Kronecker((huge, huge, Identity(4)))
    query = Linear(Cells(ROWS, ("a", "b"), (Count(),)), operator)
    assert analyses.analyse_query(query).largest_values == (1000 * 2**80,)
    wider = Linear(query.cells, Kronecker((huge, operator)))
    with pytest.raises(RefusedError, match="10\\^38"):
        _ = analyses.analyse_query(wider).largest_values


def test_an_operator_that_takes_too_much_memory_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    analyses = Analyses(parse(write_catalog("add_remove", 2, 0, 1)))
    query = Linear(Cells(ROWS, ("a", "b"), (Count(),)), Total(4))
    monkeypatch.setattr(linear, "MOST_BYTES", 100)
    with pytest.raises(RefusedError, match="bytes: at most 100"):
        _ = analyses.analyse_query(query).released_rows


def test_boxes_that_are_taken_for_disjoint_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three boxes hold cell 2: one row moves three numbers."""
    claimed, moved = find_claim(OF_FOUR["boxes"], Count(), "add_remove", rows=1)
    assert holds(claimed, moved) and claimed.l1 == 3
    monkeypatch.setattr(linear, "largest_norms", lambda operator: Norms(1, 1, 1, 1))
    claimed, moved = find_claim(OF_FOUR["boxes"], Count(), "add_remove", rows=1)
    assert not holds(claimed, moved)
