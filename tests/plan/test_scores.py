"""Scores: the exact utilities against their definitions, and what one unit moves against all
neighbours of tiny tables (rules P24 and P40 of the review: docs/proofs/score-selection.md)."""

from __future__ import annotations

import random
from collections.abc import Callable
from fractions import Fraction as F
from itertools import combinations

import numpy as np
import pytest
from numpy.typing import NDArray

from dither.audit.naive_linear import multiply, write_matrix
from dither.catalog import parse
from dither.errors import RefusedError
from dither.plan import scores
from dither.plan.algebra import Cells, Count, CountDistinct, Distinct, Scores, Sum
from dither.plan.analysed_query import AnalysedQuery, Analyses
from dither.plan.operators import HaarWavelet, Identity, Marginal, Total
from dither.plan.scores import ScoreMove, evaluate_scores
from dither.plan.utilities import (
    CellCounts,
    DistanceCandidate,
    Distances,
    RankDistance,
    Utility,
    check_utility,
)
from tests.plan.test_linear import AGGREGATES, ROWS, list_contributions, write_catalog

KEYS = ("a", "b")
UTILITIES: dict[str, Utility] = {
    "counts": CellCounts((0, 1, 2, 3)),
    "some counts": CellCounts((3, 1)),
    "distances": Distances(
        1,
        (
            DistanceCandidate(1, Marginal((2, 2), (0,)), (1, 0)),
            DistanceCandidate(1, Marginal((2, 2), (1,)), (0, 3)),
            DistanceCandidate(1, Total(4), (2,)),
        ),
    ),
    "weighted and scaled": Distances(
        5,
        (
            DistanceCandidate(2, Identity(4), (0, 0, 1, 7)),
            DistanceCandidate(26, Marginal((2, 2), ()), (3,)),
        ),
    ),
    "wavelets": Distances(3, (DistanceCandidate(2, HaarWavelet(4), (0, 1, -1, 0)),)),
    "median": RankDistance(F(1, 2)),
    "upper quantile": RankDistance(F(7, 10)),
}


def score_naively(utility: Utility, cells: list[int]) -> list[int]:
    """Every score by the words of its class."""
    if isinstance(utility, CellCounts):
        return [cells[position] for position in utility.candidates]
    if isinstance(utility, RankDistance):
        a, b = utility.share.as_integer_ratio()
        total = sum(cells)
        return [
            -max(
                0,
                b * sum(cells[:position]) - a * total,
                b * sum(cells[position + 1 :]) - (b - a) * total,
            )
            for position in range(len(cells))
        ]
    return [
        candidate.weight
        * sum(
            abs(utility.scale * number - goal)
            for number, goal in zip(
                multiply(write_matrix(candidate.operator), cells), candidate.target, strict=True
            )
        )
        for candidate in utility.candidates
    ]


def analyse(
    utility: Utility, aggregate: str = "count", neighbours: str = "add_remove", rows: int = 2
) -> AnalysedQuery:
    analyses = Analyses(parse(write_catalog(neighbours, rows, -2, 3)))
    return analyses.analyse_query(Scores(Cells(ROWS, KEYS, (AGGREGATES[aggregate],)), utility))


@pytest.mark.parametrize("name", UTILITIES)
def test_scores_are_those_of_the_definition(name: str) -> None:
    draws = random.Random(1)
    analysed = analyse(UTILITIES[name], "sum")
    query = analysed.query
    assert isinstance(query, Scores)
    for _ in range(50):
        cells = [draws.randint(-20, 20) for _ in range(4)]
        measured = np.array([[cell] for cell in cells], object)
        assert evaluate_scores(query, measured, analysed.largest_cells).tolist() == score_naively(
            query.utility, cells
        )


def largest_moves(
    utility: Utility, contributions: NDArray[np.int64], neighbours: str
) -> tuple[int, bool]:
    """The largest move of any score, and whether some unit that joins lowers one: beside three
    other databases, which matter to distances and ranks."""
    largest = 0
    lowers = False
    for others in ([0, 0, 0, 0], [1, 0, 2, 0], [0, 5, 0, 1]):
        scored = [score_naively(utility, list(row)) for row in contributions + np.array(others)]
        alone = score_naively(utility, others)
        pairs = [(alone, with_unit) for with_unit in scored]
        lowers = lowers or any(
            after < before for pair in pairs for before, after in zip(*pair, strict=True)
        )
        if neighbours == "replace":
            pairs = list(combinations(scored, 2))
        moves = (abs(x - y) for pair in pairs for x, y in zip(*pair, strict=True))
        largest = max(largest, *moves)
    return largest, lowers


@pytest.mark.parametrize("neighbours", ["add_remove", "replace"])
@pytest.mark.parametrize("aggregate", ["count", "sum"])
@pytest.mark.parametrize("name", UTILITIES)
def test_no_neighbour_moves_a_score_beyond_the_claim(
    name: str, aggregate: str, neighbours: str
) -> None:
    rows = 2 if neighbours == "add_remove" else 1
    claimed = analyse(UTILITIES[name], aggregate, neighbours, rows).score_move
    contributions = list_contributions(ROWS, AGGREGATES[aggregate], rows, -2, 3)
    largest, lowers = largest_moves(UTILITIES[name], contributions, neighbours)
    assert 0 < largest <= claimed.largest
    assert not (claimed.is_monotone and (lowers or neighbours == "replace"))
    if neighbours == "add_remove" and name != "wavelets":
        assert largest == claimed.largest  # k b times weight and scale is reached


def test_only_counts_of_owned_rows_are_monotone_and_only_under_add_and_remove() -> None:
    assert analyse(CellCounts((0, 1))).score_move.is_monotone
    for other in (
        analyse(CellCounts((0, 1)), "sum"),
        analyse(CellCounts((0, 1)), "count", "replace"),
        analyse(UTILITIES["distances"]),
        analyse(UTILITIES["median"]),
    ):
        assert not other.score_move.is_monotone
    analyses = Analyses(parse(write_catalog("add_remove", 2, 0, 3)))
    ownerless = Scores(Cells(Distinct(ROWS, False), KEYS, (Count(),)), CellCounts((0,)))
    assert not analyses.analyse_query(ownerless).score_move.is_monotone


def leave_out_weights(honest: Callable[..., ScoreMove]) -> Callable[..., ScoreMove]:
    return lambda query, rows, neighbours: honest(query, rows, neighbours)._replace(
        largest=honest(query, rows, neighbours).largest
        // max(candidate.weight for candidate in query.utility.candidates)
    )


def leave_out_scale(honest: Callable[..., ScoreMove]) -> Callable[..., ScoreMove]:
    return lambda query, rows, neighbours: honest(query, rows, neighbours)._replace(
        largest=honest(query, rows, neighbours).largest // query.utility.scale
    )


def price_as_monotone(honest: Callable[..., ScoreMove]) -> Callable[..., ScoreMove]:
    return lambda query, rows, neighbours: honest(query, rows, neighbours)._replace(
        is_monotone=True
    )


@pytest.mark.parametrize(
    "plant",
    [leave_out_weights, leave_out_scale, price_as_monotone],
    ids=lambda plant: plant.__name__,
)
def test_a_planted_bug_is_caught(
    monkeypatch: pytest.MonkeyPatch, plant: Callable[..., Callable[..., ScoreMove]]
) -> None:
    """Mistakes of public implementations: weights, scale, and the distance taken as monotone."""
    monkeypatch.setattr("dither.plan.analysed_query.score_move_in", plant(scores.score_move_in))
    with pytest.raises(AssertionError):
        test_no_neighbour_moves_a_score_beyond_the_claim(
            "weighted and scaled", "count", "add_remove"
        )


WRONG: dict[str, object] = {
    "no utility": "best",
    "no candidates": CellCounts(()),
    "a cell below 0": CellCounts((-1,)),
    "a cell in a list": CellCounts([0]),  # type: ignore[arg-type]
    "a boolean cell": CellCounts((True,)),
    "scale 0": Distances(0, (DistanceCandidate(1, Total(4), (1,)),)),
    "a large scale": Distances(2**21, (DistanceCandidate(1, Total(4), (1,)),)),
    "weight 0": Distances(1, (DistanceCandidate(0, Total(4), (1,)),)),
    "a fraction": Distances(1, (DistanceCandidate(F(1, 2), Total(4), (1,)),)),  # type: ignore[arg-type]
    "a float target": Distances(1, (DistanceCandidate(1, Total(4), (0.5,)),)),  # type: ignore[arg-type]
    "a large target": Distances(1, (DistanceCandidate(1, Total(4), (2**61,)),)),
    "a wrong operator": Distances(1, (DistanceCandidate(1, HaarWavelet(3), (0, 0, 0)),)),
    "a share above 1": RankDistance(F(3, 2)),
    "a fine share": RankDistance(F(1, 2**21)),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_no_utility_is_refused(name: str) -> None:
    with pytest.raises(RefusedError):
        check_utility(WRONG[name])


@pytest.mark.parametrize(
    ("cells", "utility"),
    [
        (Cells(ROWS, KEYS, (Count(),)), CellCounts((4,))),
        (Cells(ROWS, KEYS, (Count(),)), Distances(1, (DistanceCandidate(1, Total(3), (1,)),))),
        (Cells(ROWS, KEYS, (Count(),)), Distances(1, (DistanceCandidate(1, Total(4), (1, 2)),))),
        (Cells(ROWS, KEYS, (Count(), Sum("x"))), CellCounts((0,))),
        (Cells(ROWS, KEYS, (CountDistinct("x"),)), CellCounts((0,))),
    ],
    ids=["a cell too many", "other cells", "another target", "two columns", "distinct"],
)
def test_a_utility_of_other_cells_is_refused(cells: Cells, utility: Utility) -> None:
    analyses = Analyses(parse(write_catalog("add_remove", 2, 0, 1)))
    with pytest.raises(RefusedError):
        _ = analyses.analyse_query(Scores(cells, utility)).released_rows


def test_distances_that_read_too_many_cells_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three candidates over four cells, where eleven may be read: public, and before a charge."""
    analyses = Analyses(parse(write_catalog("add_remove", 2, 0, 1)))
    candidates = tuple(DistanceCandidate(weight, Total(4), (1,)) for weight in (1, 2, 3))
    query = Scores(Cells(ROWS, KEYS, (Count(),)), Distances(1, candidates))
    assert analyses.analyse_query(query).released_rows == 1
    monkeypatch.setattr(scores, "MOST_WORK", 11)
    fresh = Analyses(parse(write_catalog("add_remove", 2, 0, 1)))
    with pytest.raises(RefusedError, match="fewer candidates"):
        _ = fresh.analyse_query(query).released_rows
