"""Quantiles: exact law by enumeration, sensitivity by brute force, closeness, duplicates, empty
data, speed, grids."""

import itertools
from datetime import date, timedelta
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from dither.errors import ParameterError
from dither.laws import find_error_law
from dither.mechanisms.grid import QuantileGrid
from dither.mechanisms.tree_counter import TreeCounter, quantiles_from_sums
from dither.privacy.losses import BoundedRange, Repeated
from dither.privacy.mechanisms import quantile, quantiles
from dither.privacy.mechanisms.quantile import Quantile, rank_sensitivity
from dither.privacy.mechanisms.quantiles import JointQuantiles, fair_half, spread_rows
from tests.case_lists import mark_between, mark_rest
from tests.mechanisms.closeness import assert_close, assert_law, pure_epsilon
from tests.mechanisms.level_law import list_scores
from tests.mechanisms.planted import Bug
from tests.mechanisms.seeded import Seeded

SHARES = [Fraction(1, 2), Fraction(1, 4), Fraction(9, 10), Fraction(0), Fraction(1)]


def naive_scores(counts, q):
    """By the definition: b times the rows that must move until the cell is a q-quantile."""
    total, found = sum(counts), []
    for cell in range(len(counts)):
        below, above = sum(counts[:cell]), sum(counts[cell + 1 :])
        too_few_below = q.denominator * below - q.numerator * total
        too_few_above = q.denominator * above - (q.denominator - q.numerator) * total
        found.append(-max(0, too_few_below, too_few_above))
    return found


def law(counts, mechanism):
    scale = mpmath.mpf(mechanism.scale.numerator) / mechanism.scale.denominator
    weights = [mpmath.exp(score / scale) for score in naive_scores(counts, mechanism.q)]
    return [weight / sum(weights) for weight in weights]


def histograms(cells, rows):
    for data in itertools.combinations_with_replacement(range(cells), rows):
        yield [data.count(cell) for cell in range(cells)]


def neighbouring(added, replaced):
    """All pairs of small histograms that one row more (or another row) makes, with the mechanism
    that claims them."""
    for rows in range(4):
        for counts in histograms(3, rows):
            for new, old in itertools.product(range(3), repeat=2):
                more = [c + (i == new) for i, c in enumerate(counts)]
                other = [c + (i == old) for i, c in enumerate(counts)]
                yield from ((counts, more, added), (more, other, replaced))


@pytest.mark.parametrize("q", SHARES)
def test_rank_sensitivity_by_brute_force(q):
    """Exactly max(a, b - a) for adding a row and b for replacing one; reached, not only bounded."""
    added = replaced = 0
    for rows in range(6):
        for counts in histograms(3, rows):
            ours = np.array(naive_scores(counts, q))
            assert list_scores(counts, q) == ours.tolist()
            for new in range(3):
                more = list(counts)
                more[new] += 1
                added = max(added, abs(np.array(naive_scores(more, q)) - ours).max())
                for old in range(3):
                    if more[old] and old != new:
                        other = list(more)
                        other[old] -= 1
                        replaced = max(replaced, abs(np.array(naive_scores(other, q)) - ours).max())
    assert (
        added == rank_sensitivity(q, "add_remove") == max(q.numerator, q.denominator - q.numerator)
    )
    assert replaced <= rank_sensitivity(q, "replace") == q.denominator
    if q == Fraction(1, 2):
        assert replaced == 2


@pytest.mark.parametrize("q", mark_between(SHARES, step=2))
def test_exact_law_keeps_every_ratio(q):
    for one, two, claim in neighbouring(Quantile(q, 1), Quantile(q, 1, 1, "replace")):
        logs = [mpmath.log(x / y) for x, y in zip(law(one, claim), law(two, claim), strict=True)]
        assert max(map(abs, logs)) <= 1 + 1e-12 and max(logs) - min(logs) <= 1 + 1e-12


COUNTS = [
    ([2, 0, 0, 1, 3, 0], Fraction(1, 2)),
    ([0, 0, 0], Fraction(1, 4)),
    ([7, 0, 0, 0], Fraction(3, 4)),
]


@pytest.mark.parametrize(("counts", "q"), mark_rest(COUNTS, quick=1))
def test_draws_follow_the_law_dense_and_sparse(counts, q):
    mechanism, source = Quantile(q, 1), Seeded(3)
    held = np.flatnonzero(counts)
    rows = np.array(counts)[held]
    assert_law(
        [mechanism.release(counts, source=source) for _ in range(1_200)], law(counts, mechanism)
    )
    sparse = [
        mechanism.release_sparse(held, rows, cells=len(counts), source=source) for _ in range(1_200)
    ]
    assert_law(sparse, law(counts, mechanism))


def draws(mechanism, counts, count, seed):
    source = Seeded(seed)
    return np.array([mechanism.release(counts, source=source) for _ in range(count)])


@pytest.mark.all
def test_quantile_closeness():
    """Neighbours of Kifer et al. 2020 on cells 0, 50, 100: {} / {0} / {100, 0} / {100, 50, 0};
    0.9-quantile."""
    mechanism = Quantile(Fraction(9, 10), 1)
    data = [[0, 0, 0], [1, 0, 0], [1, 0, 1], [1, 1, 1]]
    drawn = [draws(mechanism, counts, 1_500, seed) for seed, counts in enumerate(data)]
    for one, two in itertools.pairwise(drawn):
        assert_close(one, two, pure_epsilon(mechanism.loss()))


LEFT, RIGHT = (
    [4] + [0] * 15 + [4] + [0] * 16,
    [0] * 16 + [4] + [0] * 15 + [4],
)  # four rows of one unit move across


@pytest.mark.all
def test_quantile_replace_closeness():
    mechanism = Quantile(Fraction(1, 2), 1, 4, "replace")
    sides = [
        np.sign(draws(mechanism, counts, 1_000, seed) - 16)
        for seed, counts in enumerate((LEFT, RIGHT))
    ]
    assert_close(*sides, pure_epsilon(mechanism.loss()))


@pytest.mark.all
def test_joint_quantiles_closeness():
    """The four rows of one unit leave; the side on which each quartile falls is one digit of the
    output."""
    mechanism = JointQuantiles(["1/4", "1/2", "3/4"], 1, rows_per_unit=4)

    def codes(counts, seed):
        source = Seeded(seed)
        cells = np.array([mechanism.release(counts, source=source) for _ in range(800)])
        return (np.sign(cells - 16) + 1) @ [1, 3, 9]

    absent = [0] * 16 + [4] + [0] * 16
    for seed, present in enumerate((LEFT, RIGHT)):
        assert_close(codes(present, seed), codes(absent, 9), pure_epsilon(mechanism.loss()))


def test_joint_quantiles_are_in_order_and_near():
    rng = np.random.default_rng(2)
    counts = np.bincount(rng.integers(0, 1000, 20_000), minlength=1000)
    shares = [Fraction(i, 10) for i in range(1, 10)]
    found = JointQuantiles(shares, 2).release(counts, source=Seeded(5))
    assert found == sorted(found)
    assert all(abs(cell - 100 * (i + 1)) < 30 for i, cell in enumerate(found))
    heavy = [10, 0, 5_000, 0, 10]  # one value for nearly everybody: every decile is that value
    assert JointQuantiles(shares, 2).release(heavy, source=Seeded(6)) == [2] * 9
    empty = JointQuantiles(shares, 2).release([0] * 5, source=Seeded(7))
    assert empty == sorted(empty)
    assert JointQuantiles(["1/2"], 1).loss() == BoundedRange(1)
    assert JointQuantiles(shares, 1).loss() == Repeated(BoundedRange(Fraction(1, 4)), 4)


def test_rows_are_spread_uniformly_and_none_is_lost():
    for count in (1, 2, 64, 65):
        halves = fair_half(np.full(4_000, count), Seeded(count))
        binomial = [mpmath.binomial(count, k) / mpmath.mpf(2) ** count for k in range(count + 1)]
        assert_law(
            [*halves, *range(0)],
            binomial if halves.max() == count else binomial[: halves.max() + 1],
        )
    for rows in ([3, 1, 2], [1000, 1, 5000, 2], [100]):
        held = np.arange(len(rows)) * 7
        places, spread = spread_rows(held, np.array(rows), Seeded(2))
        assert (np.diff(places) > 0).all() and (spread > 0).all()
        assert [int(spread[places >> 6 == cell].sum()) for cell in held] == rows
    for few in (32, 0):  # both ways of spreading have the law of uniform, independent places
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(quantiles, "_FEW", few)
            places, spread = spread_rows(np.arange(2_000), np.full(2_000, 3), Seeded(5))
        assert_law(np.repeat(places & 63, spread), [1 / 64] * 64)


def test_joint_parts_hold_each_row_once():
    """Brute force: in one level every row lies in at most one part, so one row moves one part by
    one row."""
    seen = []
    original = quantiles.choose

    def watch(grid, q, scale, source):
        seen.append(grid.sums[-1])
        return original(grid, q, scale, source)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(quantiles, "choose", watch)
        JointQuantiles(["1/4", "1/2", "3/4"], 1).release([5, 6, 7, 8], source=Seeded(1))
    assert seen[0] == 26 and seen[1] + seen[2] <= 26


def test_tree_quantiles():
    counts = np.bincount(np.random.default_rng(3).integers(0, 256, 50_000), minlength=256)
    sums = TreeCounter.for_epsilon(1, steps=256).release(counts, source=Seeded(8))
    found = quantiles_from_sums(sums, [Fraction(i, 4) for i in (1, 2, 3)])
    assert all(abs(cell - 64 * (i + 1)) < 8 for i, cell in enumerate(found))
    assert quantiles_from_sums([0, 0, 0], [Fraction(1, 2)]) == [0]  # empty data
    assert quantiles_from_sums([-5, -3, -1], [Fraction(1, 2)]) == [0]


def test_error_law_holds():
    mechanism, counts = Quantile(Fraction(1, 2), 1), np.ones(1001, int)
    rows = find_error_law(mechanism).rows(cells=1001, confidence=0.9)
    misses = np.abs(draws(mechanism, counts, 600, 5) - 500) > rows
    assert misses.mean() < 0.1


def test_large_counts_do_not_wrap():
    assert Quantile(Fraction(1, 3), 1).release([2**62, 2**62, 2**62]) in (0, 1)
    assert Quantile(Fraction(1, 2), 1).release_sparse([5], [2**63 - 1], cells=2**55) == 5
    assert Quantile(Fraction(1, 2), 1).release(np.array([10**30, 3], object)) == 0


def test_grids():
    assert QuantileGrid.between(0, 110)[17] == 17 and QuantileGrid.between(0, 110).cells == 111
    money = QuantileGrid.between(Fraction(0), Fraction(5000), Fraction(1, 100))
    assert money.cells == 500_001 and money[1] == Fraction(1, 100)
    coarse = QuantileGrid.between(0, 10**7)
    assert coarse.step == 10 and coarse.cells == 10**6 + 1 <= 2**20
    assert QuantileGrid.between(0, 3 * 10**6).step == 5
    assert [coarse.cell(v) for v in (-5, 0, 9, 10, 10**9)] == [0, 0, 0, 1, 10**6]
    days = QuantileGrid.of([date(2026, 1, 1) + timedelta(i) for i in range(31)])
    assert days[days.cell(date(2026, 1, 20))] == date(2026, 1, 20)
    assert days.cell(date(2020, 1, 1)) == 0
    for bad in (
        lambda: QuantileGrid.of([]),
        lambda: QuantileGrid.of([2, 1]),
        lambda: QuantileGrid.between(1, 0),
        lambda: QuantileGrid.between(0.5, 1),
    ):
        with pytest.raises(ParameterError):
            bad()
    with pytest.raises(IndexError):
        days[31]


def test_refusals():
    for arguments in (
        (Fraction(3, 2), 1),
        (Fraction(1, 2), 0),
        (Fraction(1, 3**20), 1),
        (Fraction(1, 2), 1, 0),
    ):
        with pytest.raises(ParameterError):
            Quantile(*arguments)
    mechanism = Quantile(Fraction(1, 2), 1)
    for counts in ([], [-1, 2], [0.5], [[1]]):
        with pytest.raises(ParameterError):
            mechanism.release(counts)
    for places, counts, cells in (
        ([1], [1], 1),
        ([1, 0], [1, 1], 5),
        ([0], [1, 2], 5),
        ([0], [1], 2**60),
    ):
        with pytest.raises(ParameterError):
            mechanism.release_sparse(places, counts, cells=cells)
    for shares in ([], ["1/2", "1/4"], [0], [1], ["3/2"]):
        with pytest.raises(ParameterError):
            JointQuantiles(shares, 1)


BUGS = {
    "quantile-sensitivity-1": Bug(
        "the rank distance of a/b taken to have sensitivity 1",
        test_quantile_closeness,
        ((quantile, "rank_sensitivity", lambda q, neighbours: 1),),
    ),
    "quantile-one-row": Bug(
        "rows per unit forgotten",
        test_quantile_replace_closeness,
        ((Quantile, "scale", property(lambda self: 2 * self.q.denominator / self.epsilon)),),
    ),
    "joint-quantiles-one-level": Bug(
        "every level at the whole epsilon, and the rank sensitivity of the share forgotten",
        test_joint_quantiles_closeness,
        ((JointQuantiles, "scale", lambda self, share: 2 / self.epsilon),),
    ),
}
