"""Choices by scores: how far one unit moves any score, and the exact scores themselves.

One bound for all candidates: with V the most by which one unit moves the cells in L1, a cell moves
by V, a distance by weight * scale * V * the operator's largest column, a rank distance by
V max(a, b - a), a number of a sum of vectors by the clip. Replace is twice add/remove. Scores are
taken as monotone only for counts of owned rows under add/remove. Proof:
docs/proofs/score-selection.md.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dither.catalog import Neighbours
from dither.errors import RefusedError
from dither.plan.algebra import Cells, Count, CountUnits, CountValues, Scores, UnitVectors
from dither.plan.analyse import Analysed
from dither.plan.apply_operator import multiply, to_integers
from dither.plan.linear import (
    MOST_BYTES,
    bound_cells,
    find_aggregate,
    move_of_cells,
    refuse_open_keys,
)
from dither.plan.operator_norms import largest_factor, largest_norms, memory_bytes
from dither.plan.stability.owned import Owned
from dither.plan.utilities import (
    CellCounts,
    Coordinates,
    Distances,
    RankDistance,
    check_utility,
    fits_cells,
)
from dither.plan.vectors import check_vectors, count_vector_numbers, vector_sensitivity_in
from dither.rules import PrivacyRule

MOST_WORK = 1 << 30
"""Cells that the distances of all candidates together read."""
_COUNTS = (Count, CountValues, CountUnits)


class ScoreMove(NamedTuple):
    """The most by which one unit moves any score; whether a unit that joins lowers none."""

    largest: int
    is_monotone: bool


def check_scores(query: Scores, rows: Analysed, cells: int, neighbours: Neighbours) -> None:
    """Refuse a utility that does not speak of exactly these cells, or takes too much memory."""
    check_utility(query.utility)
    if isinstance(query.cells, UnitVectors) != isinstance(query.utility, Coordinates):
        raise RefusedError(
            "Coordinates are scores of UnitVectors, every other utility is one of Cells",
            rule=PrivacyRule.NO_RULE,
        )
    if isinstance(query.cells, UnitVectors):
        if query.cells.rate is not None:
            raise RefusedError(
                "a choice by a sample of units has no rule: ask for all units, rate=None",
                rule=PrivacyRule.NO_RULE,
            )
        check_vectors(query.cells, rows, neighbours)
        cells = count_vector_numbers(query.cells, rows)
    else:
        find_aggregate(query.cells)
        refuse_open_keys(query.cells, rows)
    if not fits_cells(query.utility, cells):
        raise RefusedError(
            f"a utility for other cells than the {cells:,} of the keys", rule=PrivacyRule.NO_RULE
        )
    if isinstance(query.utility, Distances):
        assert isinstance(query.cells, Cells)
        if len(query.utility.candidates) * cells > MOST_WORK:
            raise RefusedError(
                f"{len(query.utility.candidates):,} candidates over {cells:,} cells: at most "
                f"{MOST_WORK:,} cells in all. Ask about fewer candidates, or fewer keys",
                rule=PrivacyRule.BOUNDED_WORK,
            )
        largest = bound_cells(query.cells, rows)
        memory = max(
            memory_bytes(candidate.operator, largest) for candidate in query.utility.candidates
        )
        if memory > MOST_BYTES:
            raise RefusedError(
                f"a score takes {memory:,} bytes: at most {MOST_BYTES:,}",
                rule=PrivacyRule.BOUNDED_WORK,
            )


def score_move_in(query: Scores, rows: Analysed, neighbours: Neighbours) -> ScoreMove:
    """How far one unit moves the scores of all candidates, from plan, catalog and utility."""
    if isinstance(query.cells, UnitVectors):
        return ScoreMove(vector_sensitivity_in(query.cells, rows, neighbours).linf, False)
    moved = move_of_cells(query.cells, rows, neighbours).l1
    utility = query.utility
    if isinstance(utility, RankDistance):
        a, b = utility.share.as_integer_ratio()
        return ScoreMove(moved * max(a, b - a), False)
    if isinstance(utility, Distances):
        largest = max(
            candidate.weight * max(1, largest_norms(candidate.operator).l1)
            for candidate in utility.candidates
        )
        return ScoreMove(moved * utility.scale * largest, False)
    is_count = isinstance(find_aggregate(query.cells), _COUNTS) and isinstance(rows.node, Owned)
    return ScoreMove(moved, is_count and neighbours == "add_remove")


def evaluate_scores(query: Scores, measured: NDArray[Any], largest: int) -> NDArray[Any]:
    """The exact score of every candidate, from the measured cells.

    `largest` is the public bound of all cells together.
    """
    utility = query.utility
    if isinstance(utility, CellCounts):
        scores: NDArray[Any] = measured[list(utility.candidates), 0]
        return scores
    if isinstance(utility, Coordinates):
        candidates = np.array(utility.candidates)
        signed: NDArray[Any] = measured[np.abs(candidates) - 1, 0] * np.sign(candidates)
        return signed
    if isinstance(utility, RankDistance):
        a, b = utility.share.as_integer_ratio()
        cells = to_integers(measured[:, 0], 2 * b * largest)
        return _rank_scores(cells, a, b)
    return _measure_distances(utility, measured[:, 0], largest)


def _rank_scores(cells: NDArray[Any], a: int, b: int) -> NDArray[Any]:
    """-max(0, b L - a n, b R - (b - a) n) of every cell."""
    up_to = cells.cumsum()
    total = up_to[-1]
    below = b * (up_to - cells) - a * total
    above = b * (total - up_to) - (b - a) * total
    scores: NDArray[Any] = -np.maximum(np.maximum(below, above), 0)
    return scores


def _measure_distances(utility: Distances, cells: NDArray[Any], largest: int) -> NDArray[Any]:
    """weight * |scale * operator * cells - target|_1 of every candidate, in exact integers."""
    factor = max(largest_factor(candidate.operator) for candidate in utility.candidates)
    farthest = max(
        candidate.weight
        * (
            utility.scale * largest * largest_norms(candidate.operator).l1
            + sum(map(abs, candidate.target))
        )
        for candidate in utility.candidates
    )
    numbers = to_integers(cells, max(farthest, utility.scale * largest * factor))
    scores = []
    for candidate in utility.candidates:
        gaps = utility.scale * multiply(candidate.operator, numbers)
        gaps -= np.array(candidate.target, numbers.dtype)
        scores.append(candidate.weight * int(np.abs(gaps).sum()))
    return np.array(scores, numbers.dtype)
