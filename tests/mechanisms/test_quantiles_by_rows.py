"""Quantiles that count rows one by one: exact laws of all neighbours of small tables."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction as F
from functools import cache
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from dither.plan.algebra import Quantiles, Scan
from dither.plan.sensitivity import Reach
from dither.privacy.mechanisms import quantile
from dither.privacy.mechanisms.quantile import (
    FlippedQuantile,
    Quantile,
    rank_sensitivity,
    row_range,
)
from dither.privacy.mechanisms.quantile_ends import QuantilesWithEnds
from dither.privacy.mechanisms.quantile_families import choose_row_ranges
from dither.privacy.mechanisms.quantiles import JointQuantiles
from dither.privacy.mechanisms.step_terms import StepTerms
from tests.mechanisms.level_law import list_scores

SHARES = [F(0), F(1, 4), F(1, 2), F(2, 3), F(1)]
GRID = 3
Histogram = tuple[int, ...]
HISTOGRAMS = list(itertools.product(range(3), repeat=GRID))


@cache
def score(rows: Histogram, q: F, shift: int = 0) -> tuple[int, ...]:
    """The scores of all cells, for the rank q n, or `shift` rows above it."""
    return tuple(list_scores(rows, q, shift))


def add_row(rows: Histogram, cell: int) -> Histogram:
    return tuple(count + (place == cell) for place, count in enumerate(rows))


def find_range(q: F, shift: int = 0) -> int:
    """The most that one more row moves the difference of two scores, over all small histograms."""
    widest = 0
    for rows, cell in itertools.product(HISTOGRAMS, range(GRID)):
        after = score(add_row(rows, cell), q, shift)
        moves = [a - b for a, b in zip(after, score(rows, q, shift), strict=True)]
        widest = max(widest, max(moves) - min(moves))
    return widest


@pytest.mark.parametrize("q", SHARES)
def test_one_row_moves_the_difference_of_two_scores_by_the_range(q):
    assert find_range(q) == row_range(q)


@pytest.mark.parametrize("q", [F(0), F(1)])
def test_an_end_of_the_least_or_largest_value_is_not_monotone(q):
    """A rank inside is aimed at: rows raise the scores on one side of it and lower them beyond."""
    shift = 1 if q == 0 else -1
    assert find_range(q, shift) == 2 == 2 * rank_sensitivity(q, "add_remove")
    point = Quantile(q, F(1), 3, by_rows=True)
    ends = QuantilesWithEnds(point, F(1), F(9, 10), GRID)
    assert (point.scale, ends.scale(q)) == (3, 6)


@cache
def find_law(kind: type[Quantile], rows: Histogram, q: F, scale: F) -> tuple[float, ...]:
    """Logarithms of the chances of all cells, by the definition of the mechanism."""
    weights = [math.exp(u / scale) for u in score(rows, q)]
    if kind is Quantile:
        return tuple(math.log(weight / math.fsum(weights)) for weight in weights)
    return tuple(math.log(flip_chance(weights, cell)) for cell in range(GRID))


def flip_chance(weights: list[float], cell: int) -> float:
    """Permute-and-flip: of the cells whose coins show heads, one is drawn uniformly."""
    total = 0.0
    for coins in itertools.product((0, 1), repeat=GRID):
        if coins[cell]:
            chance = math.prod(w if coin else 1 - w for w, coin in zip(weights, coins, strict=True))
            total += chance / sum(coins)
    return total


def find_excess(kind: type[Quantile], q: F, mechanism: Quantile) -> float:
    """The worst loss of a row that moves between the groups of a GROUP BY, less epsilon.

    The loss of the exponential mechanism is its range, which adds up over groups; of
    permute-and-flip the largest logarithm of a ratio.
    """
    worst = -math.inf
    ratios = {}
    for rows, cell in itertools.product(HISTOGRAMS, range(GRID)):
        with_row = find_law(kind, add_row(rows, cell), q, mechanism.scale)
        without = find_law(kind, rows, q, mechanism.scale)
        ratios[rows, cell] = [a - b for a, b in zip(with_row, without, strict=True)]
    # a row leaves one group and comes into another: both groups are independent of each other
    spans = [(max(moves), -min(moves)) for moves in ratios.values()]
    if kind is Quantile:
        worst = 2 * max(up + down for up, down in spans)
    else:
        worst = max(up for up, _ in spans) + max(down for _, down in spans)
    return worst - float(mechanism.epsilon)


@pytest.mark.parametrize("kind", [Quantile, FlippedQuantile])
@pytest.mark.parametrize("q", SHARES)
@pytest.mark.parametrize("epsilon", [F(1, 2), F(3)])
def test_a_row_that_moves_between_groups_is_within_epsilon(kind, q, epsilon):
    """k = 1: one row leaves, one comes, 2 in all."""
    mechanism = kind(q, epsilon, 2, "replace", by_rows=True)
    assert find_excess(kind, q, mechanism) <= 1e-9


@pytest.mark.parametrize("kind", [Quantile, FlippedQuantile])
@pytest.mark.parametrize("q", SHARES)
def test_half_the_scale_is_caught(kind, q):
    """Planted: the rows that come are forgotten. So close to the claim is the worst neighbour."""
    mechanism = kind(q, F(1, 2), 1, "replace", by_rows=True)
    assert find_excess(kind, q, mechanism) > 0.1


def test_a_monotone_median_is_caught(monkeypatch):
    """Planted: every share is taken for monotone."""
    monkeypatch.setattr(quantile, "row_range", lambda q: max(1, row_range(q) // 2))
    mechanism = Quantile(F(1, 2), F(1, 2), 2, "replace", by_rows=True)
    assert find_excess(Quantile, F(1, 2), mechanism) > 0.1


@pytest.mark.parametrize("shares", [(F(1, 4), F(1, 2), F(3, 4)), (F(1, 10), F(9, 10))])
def test_several_quantiles_double_once(shares):
    """k rows leave and k come: 2k rows one by one, or k pairs at the doubled scale."""
    by_rows = JointQuantiles(shares, F(1), 6, "replace", by_rows=True)
    pairs = JointQuantiles(shares, F(1), 3, "replace")
    assert [by_rows.scale(share) for share in shares] == [pairs.scale(share) for share in shares]
    assert by_rows.loss() == pairs.loss()


def test_under_add_remove_only_the_least_and_the_largest_change():
    for q in SHARES:
        old, new = Quantile(q, F(1), 3), Quantile(q, F(1), 3, by_rows=True)
        assert new.scale == (old.scale / 2 if q in (0, 1) else old.scale)


def list_parts(rows: int, largest: int):
    """All ways to put at most `rows` rows into cells, at most `largest` in each."""
    yield ()
    for first in range(1, min(rows, largest) + 1):
        yield from ((first, *rest) for rest in list_parts(rows - first, first))


@cache
def find_divergence(rows: int, most: int, order: float) -> float:
    """The largest Renyi divergence of a median when so many rows come or go, over small groups.

    Its price is a range of 3/2 for `most` rows.
    """
    choice = Quantile(F(1, 2), F(3, 2), most, by_rows=True)
    worst = 0.0
    for before in itertools.product(range(2), repeat=GRID):
        for cells in itertools.combinations_with_replacement(range(GRID), rows):
            after = list(before)
            for cell in cells:
                after[cell] += 1
            laws = weights_of(choice, before), weights_of(choice, tuple(after))
            for law, other in (laws, laws[::-1]):
                moment = sum(p**order * q ** (1 - order) for p, q in zip(law, other, strict=True))
                worst = max(worst, math.log(moment) / (order - 1))
    return worst


def find_excess_in_rho(rows: int, most: int, copies: F) -> float:
    """The worst of all ways to lay rows into groups, less the charge of so many ranges."""
    return max(
        sum(find_divergence(part, most, order) for part in parts)
        - float(copies) * 1.5**2 / 8 * order
        for parts in list_parts(rows, most)
        for order in (1.5, 8.0)
    )


@pytest.mark.parametrize(("rows", "most"), [(3, 2), (6, 3), (5, 2), (4, 4)])
def test_rhos_of_groups_are_within_rows_over_rows_of_one_group(rows, most):
    """However the rows of a unit lie in groups: sum (j/r)^2 <= k/r."""
    assert find_excess_in_rho(rows, most, F(rows, most)) <= 1e-9
    squares = max(sum(F(part, most) ** 2 for part in parts) for parts in list_parts(rows, most))
    assert rows // most <= squares <= F(rows, most)


def test_fewer_copies_would_be_seen():
    """Planted: a copy less. Two rows of one value, few against the empty cells on both sides: two
    rows more below move all of these apart by the whole range."""
    choice = Quantile(F(1, 2), F(1, 2), 2, by_rows=True)
    before, after = np.zeros((2, 201), np.int64)
    before[100] = after[100] = after[0] = 2
    laws = weights_of(choice, before), weights_of(choice, after)
    moment = sum(p**2 / q for p, q in zip(*laws, strict=True))
    ranges = 3 * math.log(moment) / (0.5**2 / 8 * 2)
    assert 2.5 < ranges <= F(6, 2)


@pytest.mark.parametrize("neighbours", ["add_remove", "replace"])
def test_a_price_in_rho_is_for_rows_over_rows_of_one_group(neighbours):
    """Twenty rows, at most two on one day: noise of 2 sqrt(10) rows, not of 20 or 2 sqrt(20)."""
    pairs = 2 if neighbours == "replace" else 1
    terms = cast(
        StepTerms,
        SimpleNamespace(
            query=Quantiles(Scan("visits"), ("date",), "cost", (F(1, 2),)),
            analysed=SimpleNamespace(reach=Reach(20 * pairs, 20 * pairs, 2), neighbours=neighbours),
            measure="rho",
        ),
    )
    assert choose_row_ranges(terms) == (2 * pairs, F(10), True)


def weights_of(choice: Quantile, counts: Any) -> list[float]:
    """The law of a choice over the cells of a histogram."""
    weights = np.exp(np.array(list_scores(counts, choice.q)) / float(choice.scale))
    return (weights / weights.sum()).tolist()
