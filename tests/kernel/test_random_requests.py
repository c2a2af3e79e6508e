"""An attacker's search: random linear queries, choices by scores and vectors of units on random
tables and their neighbours, exact numbers by the code that the kernel runs, against what the kernel
claims."""

from __future__ import annotations

import random
from collections.abc import Callable
from fractions import Fraction as F
from typing import Any

import numpy as np
import pytest

from dither.audit.naive_plans import NaiveDatabase, grouped
from dither.audit.naive_vectors import Row
from dither.catalog import parse
from dither.data.vectors.add_up import add_unit_vectors, encode_rows
from dither.data.vectors.select import list_vector_columns
from dither.plan import analysed_query, scores, vectors
from dither.plan.algebra import Cells, Count, CountUnits, Linear, Scores, Sum, UnitVectors
from dither.plan.analysed_query import AnalysedQuery, Analyses
from dither.plan.linear import multiply_cells
from dither.plan.operator_norms import largest_norms
from dither.plan.operators import count_rows
from dither.plan.scores import ScoreMove, evaluate_scores
from dither.plan.utilities import (
    CellCounts,
    Coordinates,
    DistanceCandidate,
    Distances,
    RankDistance,
    Utility,
)
from tests.case_lists import mark_rest
from tests.plan.operator_samples import draw_operator
from tests.plan.vector_samples import ROWS, draw_row, draw_vectors, write_catalog

Numbered = list[tuple[int, Row]]
CELLS = 5
"""Cells of column `a`: 0 to 3, and null."""
VICTIM = 9


def draw_cells(draws: random.Random) -> Cells:
    aggregate = draws.choice([Count(), CountUnits(), Sum("x"), Sum("y")])
    return Cells(ROWS, ("a",), (aggregate,))


def draw_utility(draws: random.Random) -> Utility:
    kind = draws.randrange(3)
    if kind == 0:
        return CellCounts(tuple(draws.sample(range(CELLS), draws.randint(1, CELLS))))
    if kind == 1:
        return RankDistance(F(draws.randint(0, 7), 7))
    candidates = []
    for _ in range(draws.randint(1, 3)):
        operator = draw_operator(draws, CELLS)
        target = tuple(draws.randint(-20, 20) for _ in range(count_rows(operator)))
        candidates.append(DistanceCandidate(draws.randint(1, 30), operator, target))
    return Distances(draws.randint(1, 9), tuple(candidates))


def draw_query(draws: random.Random) -> Linear | Scores | UnitVectors:
    kind = draws.randrange(4)
    if kind == 0:
        operator = draw_operator(draws, CELLS)
        while not largest_norms(operator).linf:
            operator = draw_operator(draws, CELLS)
        return Linear(draw_cells(draws), operator)
    if kind == 1:
        return Scores(draw_cells(draws), draw_utility(draws))
    query = draw_vectors(draws)
    if kind == 2:
        return query
    return Scores(query, Coordinates(tuple(draws.choice([1, -1]) for _ in range(2))))


def measure_cells(analysed: AnalysedQuery, cells: Cells, rows: Numbered) -> Any:
    """The exact cells by the naive evaluator, one row each, in the order of their codes."""
    table: list[dict[str, Any]] = [
        {"owner": str(unit), **row, "long": None, "word": None} for unit, row in rows
    ]
    columns = analysed.rows.columns
    database = NaiveDatabase(
        parse(write_catalog()), {"t": table}, {("t", "b"): ("u", "v", "w")}, b""
    )
    (aggregate,) = cells.columns
    step = columns[aggregate.column].step if isinstance(aggregate, Sum) else F(1)
    numbers = grouped(cells, database)
    return np.array(
        [[int(numbers.get((key,), [F(0)])[0] / step)] for key in (0, 1, 2, 3, None)], object
    )


def measure_vectors(analysed: AnalysedQuery, query: UnitVectors, rows: Numbered) -> Any:
    domains = analysed.rows.columns
    columns = {
        name: np.array(
            [domains[name].high + 1 if row[name] is None else row[name] for _, row in rows],
            np.int64,
        )
        for name in list_vector_columns(query, analysed.rows).names
    }
    units = np.array([unit for unit, _ in rows], np.int64)
    return add_unit_vectors(
        query, analysed.rows, encode_rows(query, analysed.rows, [(units, columns)])
    )


def measure(analysed: AnalysedQuery, rows: Numbered) -> list[int]:
    """The exact numbers that noise is added to, or the exact scores, as the kernel makes them."""
    query = analysed.query
    inner = query.cells if isinstance(query, (Linear, Scores)) else query
    exact = (
        measure_vectors(analysed, inner, rows)
        if isinstance(inner, UnitVectors)
        else measure_cells(analysed, inner, rows)  # type: ignore[arg-type]
    )
    if isinstance(query, Linear):
        exact = multiply_cells(query, exact, analysed.largest_cells)
    elif isinstance(query, Scores):
        exact = evaluate_scores(query, exact, analysed.largest_cells)
    return [int(number) for number in np.ravel(exact)]


def find_excess(analysed: AnalysedQuery, move: list[int], joins: bool) -> str:
    """Which claim a move breaks; nothing where it breaks none. `joins`: a unit came, none left."""
    sizes = [abs(number) for number in move]
    if isinstance(analysed.query, Scores):
        claim = analysed.score_move
        if max(sizes) > claim.largest:
            return f"a score moves by {max(sizes)} > {claim.largest}"
        if claim.is_monotone and joins and min(move) < 0:
            return "a unit that joins lowers a score"
        return ""
    norms = analysed.sensitivity
    moved = {
        "l0": sum(size > 0 for size in sizes),
        "l1": sum(sizes),
        "l2_squared": sum(size * size for size in sizes),
        "linf": max(sizes),
    }
    return "; ".join(
        f"{norm} {size} > {getattr(norms, norm)}"
        for norm, size in moved.items()
        if size > getattr(norms, norm)
    )


def draw_rows(draws: random.Random, unit: int, rows: int) -> Numbered:
    return [(unit, draw_row(draws)) for _ in range(draws.randint(0, rows))]


def search_excess(seed: int, requests: int) -> str | None:
    """The first random request that some neighbour moves beyond its claim; None without one."""
    draws = random.Random(seed)
    for _ in range(requests):
        neighbours = draws.choice(["add_remove", "replace"])
        rows = draws.choice([1, 2, 3])
        catalog = parse(write_catalog(rows, neighbours))
        analysed = Analyses(catalog).analyse_query(draw_query(draws))
        assert analysed.released_rows > 0
        others = [
            row for unit in range(draws.randint(0, 3)) for row in draw_rows(draws, unit, rows)
        ]
        after = measure(analysed, [*others, *draw_rows(draws, VICTIM, rows)])
        before = others
        if neighbours == "replace":
            before = [*others, *draw_rows(draws, VICTIM, rows)]
        move = [a - b for a, b in zip(after, measure(analysed, before), strict=True)]
        if excess := find_excess(analysed, move, neighbours == "add_remove"):
            return f"{neighbours}: {excess}: {analysed.query}"
    return None


def test_no_random_request_is_moved_beyond_its_claim() -> None:
    assert search_excess(1, 250) is None


@pytest.mark.all
def test_no_request_of_ten_thousand_is_moved_beyond_its_claim() -> None:
    assert search_excess(2, 10_000) is None


def halve_vector_claim(honest: Callable[..., Any]) -> Callable[..., Any]:
    """Replace priced as add/remove."""
    return lambda query, rows, neighbours: honest(query, rows, "add_remove")


def halve_score_claim(honest: Callable[..., ScoreMove]) -> Callable[..., ScoreMove]:
    return lambda query, rows, neighbours: honest(query, rows, "add_remove")


@pytest.mark.parametrize(
    ("name", "plant"),
    mark_rest(
        [
            ("vector_sensitivity_in", halve_vector_claim(vectors.vector_sensitivity_in)),
            ("score_move_in", halve_score_claim(scores.score_move_in)),
        ],
        quick=1,
    ),
    ids=["vectors", "scores"],
)
def test_the_search_finds_replace_priced_as_add_and_remove(
    monkeypatch: pytest.MonkeyPatch, name: str, plant: Callable[..., Any]
) -> None:
    monkeypatch.setattr(analysed_query, name, plant)
    assert search_excess(1, 1_500) is not None
