"""Ends of quantiles: exact law, loss and coverage by enumeration of small groups; ranges of several
cells add up."""

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy.stats import binom

from dither.errors import ParameterError
from dither.laws import find_error_law
from dither.privacy.losses import BoundedRange
from dither.privacy.mechanisms import JointQuantiles, Quantile, QuantilesWithEnds
from tests.case_lists import mark_between, mark_rest
from tests.mechanisms.closeness import assert_close, assert_law, pure_epsilon
from tests.mechanisms.level_law import levels_of, weight_law
from tests.mechanisms.planted import Bug
from tests.mechanisms.seeded import Seeded
from tests.mechanisms.test_quantiles import histograms, law, neighbouring

MEDIAN, UPPER = Fraction(1, 2), Fraction(9, 10)


def with_ends(q=MEDIAN, each=1, level=Fraction(9, 10), cells=4, **more):
    return QuantilesWithEnds(Quantile(q, 1, **more), Fraction(each), level, cells)


def end_law(counts, q, scale, shift):
    """By the definition: the rows that nobody has put into the first or last cell, the rank aimed
    at as it was said."""
    total, nobodys = sum(counts), abs(shift)
    rows = list(counts)
    rows[0 if shift < 0 else -1] += nobodys
    wanted = q * total + max(0, shift)
    weights = []
    for cell in range(len(rows)):
        below, upto = sum(rows[:cell]), sum(rows[: cell + 1])
        misses = max(Fraction(0), below - wanted, wanted - upto) * q.denominator / scale
        weights.append(math.exp(-misses))
    return [weight / sum(weights) for weight in weights]


def exact_ends(counts, q):
    """The least and the largest that anyone calls the quantile: discrete, or interpolated between
    two rows."""
    rows = [cell for cell, count in enumerate(counts) for _ in range(count)]
    below = int((len(rows) - 1) * q)
    discrete = rows[max(0, -(-q.numerator * len(rows) // q.denominator) - 1)]
    position = (len(rows) - 1) * q - below
    between = rows[below] + position * (rows[min(below + 1, len(rows) - 1)] - rows[below])
    return min(discrete, between), max(discrete, between)


@pytest.mark.parametrize("q", [MEDIAN, Fraction(1, 4), UPPER])
@pytest.mark.parametrize("shift", mark_between([-7, -1, 1, 5], step=2))
def test_exact_law_of_an_end_keeps_every_ratio(q, shift):
    for one, two, claim in neighbouring(with_ends(q), with_ends(q, neighbours="replace")):
        laws = [end_law(each, q, claim.scale(q), shift) for each in (one, two)]
        logs = [math.log(x / y) for x, y in zip(*laws, strict=True)]
        assert max(map(abs, logs)) <= 1 + 1e-12 and max(logs) - min(logs) <= 1 + 1e-12


COUNTS = [[1, 0, 2, 0], [0, 0, 0, 0], [0, 9, 9, 0], [40, 0, 0, 41]]


@pytest.mark.parametrize("counts", mark_rest(COUNTS, quick=1))
def test_draws_follow_the_law(counts):
    mechanism, source = with_ends(UPPER, each=2), Seeded(5)
    rows = mechanism.rows(UPPER)
    held = np.flatnonzero(counts)
    drawn = np.array(
        [
            mechanism.release_sparse(held, np.array(counts)[held], cells=4, source=source)
            for _ in range(1_200)
        ]
    )
    assert_law(drawn[:, 0], law(counts, mechanism.point))
    assert_law(drawn[:, 1], end_law(counts, UPPER, mechanism.scale(UPPER), -rows))
    assert_law(drawn[:, 2], end_law(counts, UPPER, mechanism.scale(UPPER), rows))


def test_a_tiny_price_has_the_bounds_of_the_grid_for_ends():
    """Shifts beyond 64 bits: exact, and the ends are the first and the last cell."""
    mechanism = with_ends(each=Fraction(1, 10**25))
    assert mechanism.rows(MEDIAN) > 2**80
    drawn = [mechanism.release_sparse([1, 2], [5, 6], cells=4)[1:] for _ in range(60)]
    assert sum(ends == [0, 3] for ends in drawn) >= binom.ppf(1e-9, 60, 0.9)


def test_both_ends_miss_at_most_as_often_as_said_in_every_small_group():
    """All groups of 1 to 12 rows in four cells, and large ones: the exact chance that an end passes
    the quantile."""
    large = [
        [a, b, c, 997 - a - b - c]
        for a, b, c in ((0, 500, 400), (498, 0, 499), (5, 986, 5), (0, 0, 0))
    ]
    for q in (MEDIAN, UPPER, Fraction(1, 100)):
        mechanism = with_ends(q, level=Fraction(4, 5))
        rows, scale = mechanism.rows(q), mechanism.scale(q)
        for counts in itertools.chain(*(histograms(4, n) for n in (1, 2, 3, 7, 12)), large):
            least, largest = exact_ends(counts, q)
            low, high = (end_law(counts, q, scale, shift) for shift in (-rows, rows))
            assert sum(p for cell, p in enumerate(low) if cell > least) <= 0.1 + 1e-12
            assert sum(p for cell, p in enumerate(high) if cell < largest) <= 0.1 + 1e-12


def test_a_shift_without_nobodys_rows_would_miss_in_small_groups():
    """Why the lowest cell is right for all ranks below the rows: one row gets an end above it if
    the end aims below the share, but no cell is below all rows."""
    counts, mechanism = [1, 0, 0, 0], with_ends(level=Fraction(9, 10))
    rows, scale = mechanism.rows(MEDIAN), mechanism.scale(MEDIAN)
    honest = weight_law(levels_of(counts, MEDIAN, scale, -rows))
    goal = 1 - 2 * rows
    misses = [2 * sum(counts[:cell]) - goal for cell in range(4)]
    weights = [math.exp((min(misses) - miss) / scale) for miss in misses]
    assert sum(honest[1:]) <= 0.05 < 0.3 < sum(weights[1:]) / sum(weights)


def test_loss_is_that_of_all_choices():
    point = JointQuantiles(["1/4", "1/2"], 1)
    mechanism = QuantilesWithEnds(point, Fraction(1, 8), Fraction(19, 20), 10)
    assert pure_epsilon(mechanism.loss()) == 1 + 4 * Fraction(1, 8)
    assert mechanism.shares == (Fraction(1, 4), MEDIAN)
    for column, share in enumerate(mechanism.shares):
        assert find_error_law(mechanism, column) == replace(
            find_error_law(point, column), aimed_rows=mechanism.rows(share)
        )
    assert mechanism.release_sparse([3], [10**6], cells=10) == [3] * 6


@pytest.mark.all
def test_ends_closeness():
    """The 0.9-quantile and its ends on neighbours that differ by two rows of one unit; all three
    numbers together."""
    mechanism = with_ends(UPPER, each=Fraction(1, 2), cells=3, rows_per_unit=2)
    sources = (Seeded(7), Seeded(8))
    drawn = [
        np.array([np.dot([1, 3, 9], mechanism.release_sparse([0, 2], counts, cells=3,
        source=source))
                  for _ in range(1_500)])
        for counts, source in zip(([34, 6], [34, 8]), sources, strict=True)
    ]  # fmt: skip
    assert_close(*drawn, pure_epsilon(mechanism.loss()))


def test_the_ranges_of_several_cells_add_up_to_the_rows_of_a_unit():
    """k rows of a unit in several cells: one exponential mechanism for k rows in each is one
    bounded range in all."""
    mechanism = Quantile(MEDIAN, 1, rows_per_unit=3)
    base = ([2, 1, 0], [0, 1, 1])
    worst = 0
    for places in itertools.combinations_with_replacement(range(6), 3):
        more = [
            [c + sum(p == 3 * i + j for p in places) for j, c in enumerate(each)]
            for i, each in enumerate(base)
        ]
        logs = [
            [
                mpmath.log(x / y)
                for x, y in zip(law(one, mechanism), law(two, mechanism), strict=True)
            ]
            for one, two in zip(base, more, strict=True)
        ]
        ranges = [max(each) - min(each) for each in logs]
        worst = max(worst, sum(ranges))
        assert sum(ranges) <= 1 + 1e-12
        assert max(sum(map(max, logs)), -sum(map(min, logs))) <= 1 + 1e-12
    assert worst > 0.5
    assert mechanism.loss() == BoundedRange(1)


def test_refusals():
    for level in (0, 1):
        with pytest.raises(ParameterError, match="level"):
            with_ends(level=Fraction(level))
    with pytest.raises(ParameterError, match="epsilon_each"):
        with_ends(each=0)
    with pytest.raises(ParameterError, match="grid"):
        with_ends(cells=4).release_sparse([1], [1], cells=5)


BUGS = {
    "quantile-ends-for-free": Bug(
        "the ends are not charged",
        test_loss_is_that_of_all_choices,
        ((QuantilesWithEnds, "loss", lambda self: self.point.loss()),),
    ),
    "quantile-ends-one-row": Bug(
        "the scale of one row, rank sensitivity 1 and epsilon 1",
        test_ends_closeness,
        ((QuantilesWithEnds, "scale", lambda self, share: Fraction(2)),),
    ),
}
