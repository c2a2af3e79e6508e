"""Levels of the scores of a quantile: scores and levels by their definitions, proposals and coins
enumerated, both choices by their exact laws, and planted bugs in each part."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from dither.privacy.mechanisms import quantile_levels
from dither.privacy.mechanisms.quantile_levels import (
    by_flips,
    by_weight,
    count_missed,
    find_level,
    happens,
    is_kept,
    list_levels,
    list_starts,
    propose,
    put_on_grid,
)
from tests.mechanisms.closeness import assert_law
from tests.mechanisms.level_law import (
    coin_of,
    flip_law,
    kept_chance,
    levels_of,
    list_cells,
    proposal_law,
    weight_law,
)
from tests.mechanisms.planted import Bug
from tests.mechanisms.seeded import Seeded
from tests.sources import TestSource

SHARES = [Fraction(1, 2), Fraction(1, 4), Fraction(9, 10), Fraction(0), Fraction(1)]
SHIFTS = (0, -3, 2, 40)
HISTOGRAMS = list(itertools.product(range(3), repeat=4))


def naive_missed(counts, q, shift):
    """By the definition: rows that nobody has stand in the first or the last cell."""
    rows = list(counts)
    rows[0 if shift < 0 else -1] += abs(shift)
    goal = q * sum(counts) + max(0, shift)
    upto = list(itertools.accumulate(rows))
    return [
        int(q.denominator * max(0, upto[cell] - rows[cell] - goal, goal - upto[cell]))
        for cell in range(len(rows))
    ]


def naive_flips(heads):
    """The first head in random order is a uniform choice among all heads."""
    chances = []
    for cell, head in enumerate(heads):
        total = 0.0
        others = heads[:cell] + heads[cell + 1 :]
        for coins in itertools.product((0, 1), repeat=len(others)):
            chance = math.prod(p if coin else 1 - p for p, coin in zip(others, coins, strict=True))
            total += chance / (1 + sum(coins))
        chances.append(head * total)
    return chances


@pytest.mark.parametrize("q", SHARES)
def test_scores_and_levels_are_those_of_their_definitions(q):
    for counts, shift, scale in itertools.product(
        HISTOGRAMS, SHIFTS, (Fraction(1, 5), Fraction(7, 3))
    ):
        levels = levels_of(counts, q, scale, shift)
        missed = [count_missed(levels, cell) for cell in range(4)]
        assert missed == naive_missed(counts, q, shift) and 0 in missed
        wanted = [Fraction(1, 2 ** find_level(levels, rows)) for rows in missed]
        assert proposal_law(levels) == [share / sum(wanted) for share in wanted]
        assert levels.total == sum(wanted) * 2**levels.last


@pytest.mark.parametrize("q", [Fraction(1, 2), Fraction(2**20 - 1, 2**20)])
@pytest.mark.parametrize("rows", [2**38, 2**41 - 3, 2**60 - 2, 2**61 - 1, 2**62, 2**80])
def test_numbers_on_both_sides_of_64_bits_give_the_same_levels(q, rows):
    """Rows, shifts and scales of any size: what is found is what the definitions say."""
    counts = [rows // 3, 0, rows // 2, rows - rows // 3 - rows // 2]
    shifts = (0, rows, -rows, 2**61 - 1, 1 - 2**61, 2**63 - 1, 1 - 2**63)
    scales = (Fraction(1, 3), Fraction(2**50), Fraction(2**61, 3), Fraction(2**90))
    for shift in shifts:
        for scale in scales:
            levels = levels_of(counts, q, scale, shift)
            missed = [count_missed(levels, cell) for cell in range(4)]
            assert missed == naive_missed(counts, q, shift)
            wanted = [Fraction(1, 2 ** find_level(levels, gap)) for gap in missed]
            assert proposal_law(levels) == [share / sum(wanted) for share in wanted]


@pytest.mark.parametrize(
    "scale", [Fraction(1, 7), Fraction(3), Fraction(10**6, 3), Fraction(10**30)]
)
def test_a_level_begins_where_weights_are_at_most_its_power_and_ends_before_half(scale):
    starts = list_starts(scale, 60)
    with mpmath.workdps(60):
        exact = mpmath.mpf(scale.numerator) / scale.denominator
        for level, start in enumerate(starts):
            assert mpmath.exp(-start / exact) <= mpmath.mpf(2) ** -level
            if level < 60 and start < starts[level + 1]:
                last = mpmath.exp(-(starts[level + 1] - 1) / exact)
                assert last > mpmath.mpf(2) ** -(level + 1) * (1 - mpmath.mpf(10) ** -5)
    assert starts[0] == 0 and list(starts) == sorted(starts)
    levels = levels_of([1, 0, 2], Fraction(1, 2), scale)
    for missed in {start + more for start in levels.starts for more in (-1, 0, 1)} - {-1}:
        upto = [level for level, start in enumerate(levels.starts) if start <= missed]
        assert find_level(levels, missed) == upto[-1]


def test_every_place_of_a_proposal_is_a_cell_as_often_as_its_level_says(monkeypatch):
    """All places, one after the other: four levels or so on a grid of five cells."""
    monkeypatch.setattr(quantile_levels, "_SPARE_LEVELS", 3)
    for counts, shift in itertools.product(([2, 0, 3, 0, 1], [0] * 5, [0, 9, 0, 0, 0]), (0, -4, 4)):
        levels = levels_of(counts, Fraction(1, 2), 2, shift)
        drawn = [propose(levels, TestSource([place])) for place in range(levels.total)]
        shares = [Fraction(drawn.count(cell), levels.total) for cell in range(5)]
        assert shares == proposal_law(levels)


@pytest.mark.parametrize("scale", [Fraction(1, 3), Fraction(5, 2), Fraction(1000)])
def test_a_proposal_is_kept_with_what_is_left_of_its_weight(scale):
    levels = levels_of([30, 1, 0, 20, 9], Fraction(1, 2), scale)
    for missed in (0, 1, 2, 3, 7, 50, 700, 30_000):
        level = find_level(levels, missed)
        weight = math.exp(-missed / float(scale) + level * math.log(2))
        assert abs(kept_chance(levels, missed) - weight) <= 1e-9 * max(weight, 1e-9)
        assert level == levels.last or 0.49999 < weight <= 1 + 1e-12


@pytest.mark.parametrize("scale", [Fraction(1, 3), Fraction(5, 2), Fraction(10**30 + 7, 999)])
def test_the_coin_of_a_proposal_is_exact_to_more_bits_than_floats_have(scale):
    levels = levels_of([30, 1, 0, 20, 9], Fraction(1, 2), scale)
    gaps = [0, 1, 2, *(start + more for start in levels.starts for more in (0, 7))]
    with mpmath.workdps(200):
        for missed in gaps:
            gap = mpmath.mpf(missed * scale.denominator) / scale.numerator
            chance = mpmath.ldexp(mpmath.exp(-gap), 256 + find_level(levels, missed))
            bound = coin_of(levels, missed)
            assert bound.low - mpmath.mpf(2) ** -200 <= chance <= bound.high + mpmath.mpf(2) ** -200


def test_every_level_of_a_wide_grid_that_begins_anywhere_is_proposed_from_end_to_end():
    """The first and the last place of each level are the first and the last cell that miss by so
    little."""
    low, high = 2**60 + 3, 2**61 + 4
    filled = np.array([low + 5, low + 2**59, high - 7])
    grid = put_on_grid(filled, np.array([30, 41, 50]), low, high)
    levels = list_levels(grid, Fraction(1, 3), Fraction(5))
    ends = [*levels.starts[1:], 10**9]
    place = 0
    for end, weight in zip(ends, levels.weights, strict=True):
        first, last = (propose_at(levels, there) for there in (place, place + weight - 1))
        assert low <= first <= last <= high
        assert max(count_missed(levels, cell) for cell in (first, last)) < end
        assert first == low or count_missed(levels, first - 1) >= end
        assert last == high or count_missed(levels, last + 1) >= end
        place += weight
    assert place == levels.total


def propose_at(levels, place):
    count = -(-levels.total.bit_length() // 64)
    words = [place >> 64 * word & 2**64 - 1 for word in reversed(range(count))]
    return propose(levels, TestSource(words))


@pytest.mark.parametrize("spare", [0, 10])
def test_the_exponential_mechanism_is_drawn_exactly(monkeypatch, spare):
    """Also where the last level holds most cells: what is there is proposed too often, and kept as
    seldom."""
    monkeypatch.setattr(quantile_levels, "_SPARE_LEVELS", spare - 2)
    for counts, shift in itertools.product(HISTOGRAMS[::7], SHIFTS):
        levels = levels_of(counts, Fraction(1, 4), Fraction(1, 2), shift)
        weights = [math.exp(-2 * rows) for rows in naive_missed(counts, Fraction(1, 4), shift)]
        for drawn, weight in zip(weight_law(levels), weights, strict=True):
            assert abs(drawn - weight / sum(weights)) < 1e-9


FLIPPED = [[1, 0, 2], [0, 0, 0], [3, 0, 4], [1, 1, 1, 1]]


def test_permute_and_flip_is_drawn_exactly():
    """Each chance is between that of the paths that were followed, and that with all others."""
    for counts in FLIPPED:
        levels = levels_of(counts, Fraction(1, 2), 2)
        heads = [math.exp(-count_missed(levels, cell) / 2) for cell in list_cells(levels)]
        found, lost = flip_law(levels)
        assert lost < 0.005
        for drawn, chance in zip(found, naive_flips(heads), strict=True):
            assert drawn - 1e-9 <= chance <= drawn + lost + 1e-9


def test_draws_of_both_choices_follow_their_laws():
    counts = [2, 0, 1, 0, 0, 3]
    levels, source = levels_of(counts, Fraction(1, 2), 3), Seeded(11)
    heads = [math.exp(-count_missed(levels, cell) / 3) for cell in list_cells(levels)]
    assert_law([by_weight(levels, source) for _ in range(4_000)], [w / sum(heads) for w in heads])
    assert_law([by_flips(levels, source) for _ in range(4_000)], naive_flips(heads))


def test_times_that_are_known_in_part_stay_independent_exponentials():
    """Two processes of rate 3 and 5 beside one of rate 2 that ends the time: the chances that the
    first, the second or both happen before, by integrals."""
    source = Seeded(12)
    drawn = []
    for _ in range(6_000):
        stretches = [2]
        first = happens(stretches, 3, source)
        assert stretches == ([5, 2] if first else [5])
        second = happens(stretches, 5, source)
        drawn.append(2 * first + second)
    neither = Fraction(2, 10)
    without_first = Fraction(2, 5)
    without_second = Fraction(2, 7)
    assert_law(
        drawn,
        [
            float(chance)
            for chance in (
                neither,
                without_first - neither,
                without_second - neither,
                1 - without_first - without_second + neither,
            )
        ],
    )


FAR = ([3, 50, 90], [1000, 1000, 1000])
"""Of a hundred cells: the median is cell 50; the others miss by 500 rows, 500 scales."""


def choose_far(chooser, stretch_words):
    counts = np.zeros(100, np.int64)
    counts[FAR[0]] = FAR[1]
    levels = levels_of(counts, Fraction(1, 2), 2)
    place = levels.total - 100 + 3
    return chooser(levels, TestSource([place, *stretch_words(levels)], after=0))


def test_far_cells_can_win_by_their_own_words():
    """One of the last level that is proposed, and whose coin has no bit set for as long as it
    takes, wins as its law has it."""

    def late(levels):
        return [levels.total + 2**levels.last - 2]

    assert choose_far(by_weight, lambda levels: []) == 3
    assert choose_far(by_flips, late) == 3


def test_a_far_cell_almost_never_wins():
    """A coin that shows the least bit set is enough for it to lose."""
    levels = levels_of([1000, 0, 1000, 0, 1000], Fraction(1, 2), 2)
    missed = count_missed(levels, 0)
    assert find_level(levels, missed) == levels.last
    assert not is_kept(levels, missed, TestSource([1]))


def _happens_in_one_stretch(stretches, rate, source):
    return happens([stretches[-1]], rate, source)


def _near_is_kept(levels, missed, source):
    return missed < levels.starts[-1] and is_kept(levels, missed, source)


BUGS = {
    "flipped-quantile-visits-forgotten": Bug(
        "a cell that showed tails is visited again, as in the exponential mechanism",
        test_permute_and_flip_is_drawn_exactly,
        ((quantile_levels, "happens", lambda stretches, rate, source: False),),
    ),
    "flipped-quantile-time-forgotten": Bug(
        "what was learnt of the time from one cell is forgotten for the next",
        test_permute_and_flip_is_drawn_exactly,
        ((quantile_levels, "happens", _happens_in_one_stretch),),
    ),
    "quantile-far-dropped": Bug(
        "far cells have no chance at all, so that a release may be impossible on a neighbour",
        test_far_cells_can_win_by_their_own_words,
        ((quantile_levels, "is_kept", _near_is_kept),),
    ),
}


@pytest.mark.parametrize("name", BUGS)
def test_planted_bugs_are_caught(name):
    assert BUGS[name].is_caught()
