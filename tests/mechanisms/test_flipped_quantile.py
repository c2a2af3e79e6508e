"""A quantile by permute-and-flip: exact law by enumeration, its loss and no tighter one, a smaller
error."""

import itertools
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from dither.errors import RefusedError
from dither.plan.algebra import Quantiles, Scan
from dither.privacy.kernel.request import Price, Request, Step
from dither.privacy.losses import Pure
from dither.privacy.mechanisms import FlippedQuantile, Quantile
from tests.case_lists import mark_between, mark_rest
from tests.datasets import hospital
from tests.kernel.calibrating import calibrate
from tests.mechanisms.closeness import assert_close, assert_law, pure_epsilon
from tests.mechanisms.planted import Bug
from tests.mechanisms.seeded import Seeded
from tests.mechanisms.test_quantiles import LEFT, RIGHT, SHARES, draws, naive_scores, neighbouring
from tests.mechanisms.test_quantiles import law as exponential_law


def law(counts, mechanism):
    """Every cell throws its coin; the first head in random order is a uniform choice among all
    heads."""
    scale = mpmath.mpf(mechanism.scale.numerator) / mechanism.scale.denominator
    heads = [mpmath.exp(score / scale) for score in naive_scores(counts, mechanism.q)]
    found = []
    for cell, head in enumerate(heads):
        others = [mpmath.mpf(1)]  # the chance of so many heads among the others
        for other in (each for place, each in enumerate(heads) if place != cell):
            others = [
                (others[n] * (1 - other) if n < len(others) else 0)
                + (others[n - 1] * other if n else 0)
                for n in range(len(others) + 1)
            ]
        found.append(head * sum(chance / (n + 1) for n, chance in enumerate(others)))
    assert abs(sum(found) - 1) < 1e-12
    return found


@pytest.mark.parametrize("q", mark_between(SHARES, step=2))
def test_exact_law_keeps_every_ratio_but_no_range(q):
    widest = 0
    for one, two, claim in neighbouring(FlippedQuantile(q, 1), FlippedQuantile(q, 1, 1, "replace")):
        logs = [mpmath.log(x / y) for x, y in zip(law(one, claim), law(two, claim), strict=True)]
        assert max(map(abs, logs)) <= 1 + 1e-12
        widest = max(widest, max(logs) - min(logs))
    assert FlippedQuantile(q, 1).loss() == Pure(1)
    if q == Fraction(1, 2):
        assert widest > 1.05  # no bounded range: priced as one, a zCDP pot would be told too little


SPARSE_COUNTS = [
    ([3, 0, 0, 0, 0, 0, 0, 1, 2], Fraction(1, 10)),
    ([2, 0, 0, 1, 3, 0], Fraction(1, 2)),
    ([0, 0, 0], Fraction(1, 4)),
    ([7, 0, 0, 0], Fraction(3, 4)),
    ([1, 0, 0, 0, 0, 0, 0, 0, 1], Fraction(1, 2)),
]


@pytest.mark.parametrize(("counts", "q"), mark_rest(SPARSE_COUNTS, quick=1))
def test_sparse_draws_follow_the_law(counts, q):
    mechanism, source = FlippedQuantile(q, 1), Seeded(3)
    held = np.flatnonzero(counts)
    rows = np.array(counts)[held]
    sparse = [
        mechanism.release_sparse(held, rows, cells=len(counts), source=source) for _ in range(2_000)
    ]
    assert_law(sparse, law(counts, mechanism))


def test_dense_draws_follow_the_law():
    median = FlippedQuantile(Fraction(1, 2), 1)
    assert_law(draws(median, [2, 0, 0, 1], 1_500, 9), law([2, 0, 0, 1], median))


@pytest.mark.all
def test_flipped_closeness():
    mechanism = FlippedQuantile(Fraction(9, 10), 1)
    data = [[0, 0, 0], [1, 0, 0], [1, 0, 1], [1, 1, 1]]
    drawn = [draws(mechanism, counts, 1_500, seed) for seed, counts in enumerate(data)]
    for one, two in itertools.pairwise(drawn):
        assert_close(one, two, pure_epsilon(mechanism.loss()))


@pytest.mark.all
def test_flipped_replace_closeness():
    mechanism = FlippedQuantile(Fraction(1, 2), 1, 4, "replace")
    sides = [
        np.sign(draws(mechanism, counts, 1_000, seed) - 16)
        for seed, counts in enumerate((LEFT, RIGHT))
    ]
    assert_close(*sides, pure_epsilon(mechanism.loss()))


def test_a_gap_counts_as_often_as_it_has_cells():
    """{0: 3, 40: 1}: 39 cells without rows miss by as much as the cell after them."""
    mechanism, counts = FlippedQuantile(Fraction(1, 2), 1), [3, *[0] * 39, 1]
    expected = law(counts, mechanism)
    drawn = draws(mechanism, counts, 1_500, 5)
    assert_law(
        [0 if each == 0 else 2 if each == 40 else 1 for each in drawn],
        [expected[0], sum(expected[1:40]), expected[40]],
    )


def test_its_expected_miss_is_never_larger():
    draw = np.random.default_rng(2)
    for _ in range(30):
        counts = draw.integers(0, 4, 7).tolist()
        for q in SHARES:
            misses = -np.array(naive_scores(counts, q))
            flipped = float(mpmath.fdot(law(counts, FlippedQuantile(q, 1)), map(int, misses)))
            other = float(mpmath.fdot(exponential_law(counts, Quantile(q, 1)), map(int, misses)))
            assert flipped <= other + 1e-12


def test_the_kernel_takes_it_for_one_quantile_at_a_price_in_epsilon_alone():
    def priced(shares, price):
        query = Quantiles(Scan("visits"), (), "cost", shares)
        return calibrate(
            Request((Step(query, "permute_and_flip", Fraction(1)),), price, "total"),
            hospital.catalog(),
        )

    (step,) = priced((Fraction(1, 2),), Price(Fraction(1)))
    assert isinstance(step.mechanism, FlippedQuantile) and step.loss().epsilon == 1
    for shares, price in (
        ((Fraction(1, 2),), Price(None, Fraction(1))),
        ((Fraction(1, 4), Fraction(1, 2)), Price(Fraction(1))),
    ):
        with pytest.raises(RefusedError):
            priced(shares, price)


BUGS = {
    "flipped-quantile-one-row": Bug(
        "rows per unit forgotten",
        test_flipped_replace_closeness,
        ((FlippedQuantile, "scale", property(lambda self: 2 * self.q.denominator / self.epsilon)),),
    ),
}
