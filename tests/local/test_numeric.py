"""Means, vectors, sparse vectors and distributions: exact laws, printed formulas, measured
variances."""

from __future__ import annotations

from fractions import Fraction
from math import exp

import numpy as np
import pytest
from scipy.stats import chi2

from dither import BudgetError, ParameterError, local
from dither.local.mean import Mean, round_at_random
from dither.local.onebit import OneBit, RepeatedOneBit
from dither.local.piecewise import Hybrid, Piecewise
from dither.local.squarewave import SquareWave
from dither.local.vector import sample_coordinates
from tests.case_lists import mark_between
from tests.local.seeded_words import SeededWords

SMALL = [
    OneBit(1),
    OneBit("0.1", 0, 100),
    RepeatedOneBit(1, 0, 10, 5),
    RepeatedOneBit(1, 0, 10, 5, "1/5"),
    Piecewise(1, cells=16),
    Piecewise(4, 0, 1, cells=33),
    Hybrid(1, cells=16),
    Hybrid("0.5", cells=8),
    SquareWave(1, 0, 1, 6),
    SquareWave(3, 0, 1, 5),
    local.VectorMean(1, -1, 1, 3, 1),
    local.VectorMean(1, -1, 1, 3, 2),
    local.VectorMean(2, -1, 1, 2, 2),
    local.SparseMean(1, 1, 5, 3, 2),
    local.SparseMean(2, -1, 1, 2, 1),
]


@pytest.mark.parametrize("protocol", SMALL, ids=lambda p: p.type)
def test_exact_audit(protocol: local.Protocol) -> None:
    assert local.check(protocol).problems == ()
    assert local.from_json(protocol.to_json()) == protocol


@pytest.mark.parametrize("protocol", mark_between(SMALL, step=3), ids=lambda p: p.type)
def test_the_randomiser_draws_the_stated_law(protocol: local.Protocol) -> None:
    for number, value in enumerate(protocol.inputs()[:3]):
        assert local.same_law(protocol, value, 10_000, SeededWords(number))


def test_printed_variances() -> None:
    """Duchi at epsilon 1, r = 0.3 is 4.5927; the piecewise formula of Wang et al. 2019."""
    assert float(OneBit(1).user_variance(0.3)[0]) == pytest.approx(4.5927, abs=1e-4)
    assert float(OneBit(1, 0, 100).worst_variance) ** 0.5 * 50 / 20_000**0.5 == pytest.approx(
        0.765, abs=1e-3
    )
    for epsilon in (0.5, 1, 2, 4):
        s = exp(epsilon / 2)
        for r in (0, 0.5, 1):
            printed = r**2 / (s - 1) + (s + 3) / (3 * (s - 1) ** 2)
            assert float(Piecewise(epsilon).user_variance(r)[0]) == pytest.approx(printed, rel=0.01)
        assert abs(Piecewise(epsilon).grid_error) < 0.01
        assert (
            abs(Hybrid(epsilon).grid_error) < 0.01
            and abs(SquareWave(epsilon, 0, 1, 256).grid_error) < 0.03
        )
    # b of Li et al. 2020 at epsilon 1 is 0.256: a window of 2b of the unit
    assert SquareWave(1, 0, 1, 1000).width == 512


def test_hybrid_is_no_worse_than_its_parts() -> None:
    for epsilon in (0.3, 0.61, 1, 2, 5):
        parts = [OneBit(epsilon).worst_variance, Piecewise(epsilon).worst_variance]
        assert Hybrid(epsilon).worst_variance <= min(parts) * (1 + Fraction(1, 10**6))


@pytest.mark.parametrize(
    "protocol", [OneBit(1), Piecewise(1), Hybrid(2), RepeatedOneBit(2, -10, 10, 4, "1/10")]
)
def test_measured_variance_matches_the_formula(protocol: Mean) -> None:
    runs, users = 300, 500
    value = 6 if protocol.type == "repeated_one_bit" else 0.6
    payloads = protocol.randomise(np.full(runs * users, value), SeededWords(1)).reshape(
        runs, users, -1
    )
    mean, variance = float(protocol.target(value)[0]), float(protocol.user_variance(value)[0])
    scores = [
        (protocol.debias(protocol.tally(part), users)[0] - users * mean) / (users * variance) ** 0.5
        for part in payloads
    ]
    assert chi2.isf(1 - 5e-10, runs) < float(np.square(scores).sum()) < chi2.isf(5e-10, runs)


def test_intervals_are_in_the_units_of_the_value() -> None:
    protocol = local.best_mean(2, 0, 200)
    values = np.random.default_rng(0).uniform(50, 150, 40_000)
    collector = local.Aggregator(protocol)
    collector.add_payloads(protocol.randomise(values, SeededWords(2)))
    low, high = collector.estimate().interval(1 - 1e-9)
    assert low[0] < values.mean() < high[0] and high[0] - low[0] < 20


def test_rounding_at_random_is_exact() -> None:
    grid = np.repeat(np.array([0, 1 << 32, 3 << 29]), 20_000)
    found = round_at_random(grid, 10, SeededWords(4)).reshape(3, -1)
    assert (found[0] == 0).all() and (found[1] == 10).all()
    assert set(found[2]) == {3, 4} and abs(found[2].mean() - 3.75) < 6.2 * (0.1875 / 20_000) ** 0.5


def test_repeated_collection_memoises_by_endpoint() -> None:
    """A counter that wanders inside one segment costs two bits for ever; every report is the same
    memoised bits."""
    protocol = RepeatedOneBit(1, 0, 100, 50)
    client = local.Client(protocol, lifetime_epsilon=2)
    for value in [10, 20, 30, 40, 49, 5] * 20:
        client.report(value)
    assert client.spent <= 2 and protocol.most_keys == 3
    worst = local.Client(protocol, lifetime_epsilon=3)
    for value in range(0, 101):
        worst.report(value)
    assert worst.spent == 3


def test_repeated_collection_refuses_beyond_its_budget() -> None:
    client = local.Client(RepeatedOneBit(1, 0, 100, 10), lifetime_epsilon=3)
    for value in (0, 30, 60):
        client.report(value)
    with pytest.raises(BudgetError):
        client.report(90)


def test_sampling_beats_splitting_as_the_spec_says() -> None:
    choice = local.best_vector(1, 10)
    table = dict(choice.table)
    assert (table[1], table[10]) == pytest.approx((46.827, 400.667), rel=1e-4)
    assert (table[10] / table[1]) ** 0.5 == pytest.approx(2.925, abs=1e-3)
    big = dict(local.best_vector(1, 100).table)
    assert (big[100] / big[1]) ** 0.5 == pytest.approx(9.242, abs=0.01)
    assert choice.protocol.sampled == 1 and local.best_vector(8, 10).protocol.sampled == 4


def test_coordinates_are_sampled_uniformly() -> None:
    found = sample_coordinates(30_000, 4, 2, SeededWords(5))
    assert (found[:, 0] < found[:, 1]).all()
    counts = np.bincount(found[:, 0] * 4 + found[:, 1], minlength=16)
    seen = counts[counts > 0]
    assert len(seen) == 6 and chi2.sf(float(((seen - 5_000) ** 2 / 5_000).sum()), 5) > 1e-9


def test_vectors_recover_their_mean() -> None:
    protocol = local.best_vector(4, 5).protocol
    truth = np.array([-0.8, -0.2, 0.0, 0.4, 0.9])
    values = np.clip(truth + np.random.default_rng(1).normal(0, 0.1, (40_000, 5)), -1, 1)
    collector = local.Aggregator(protocol)
    collector.add_payloads(protocol.randomise(values, SeededWords(6)))
    found = collector.estimate()
    assert (np.abs(found.values - values.mean(axis=0)) < 6.5 * found.errors).all()


def test_ratings_hide_which_items_were_rated() -> None:
    protocol = local.SparseMean(4, 1, 5, items=20, most=3)
    generator = np.random.default_rng(2)
    users = [{0: 5.0, 1: 2.0} if generator.random() < 0.5 else {2: 4.0} for _ in range(20_000)]
    collector = local.Aggregator(protocol)
    collector.add_payloads(protocol.randomise(users, SeededWords(7)))
    raters, means = protocol.ratings(collector.tally, collector.reports)
    truth = np.array([sum(i in u for u in users) for i in range(20)])
    assert (np.abs(raters.values - truth) < 6.5 * raters.errors).all()
    assert np.abs(means.values[:3] - [5, 2, 4]).max() < 0.7
    assert (means.high[:3] - means.low[:3] < 1.5).all()
    assert (means.low[3:] == 1).all() and (means.high[3:] == 5).all()  # nobody rated them


def test_sparse_beats_dense_when_it_says_so() -> None:
    sparse = local.SparseMean(1, -1, 1, items=100, most=5)
    dense = local.VectorMean(1, -1, 1, 100, 1)
    assert sparse.better_than_dense == (
        sparse.second_moment(Fraction(1)) < dense.second_moment(Fraction(1))
    )
    assert not local.SparseMean(1, -1, 1, items=100, most=8).better_than_dense


@pytest.mark.parametrize("smooth", [True, False])
def test_square_wave_recovers_a_distribution(smooth: bool) -> None:
    protocol = SquareWave(2, 0, 1, 32)
    values = np.random.default_rng(3).beta(2, 5, 60_000)
    found = protocol.distribution(
        protocol.tally(protocol.randomise(values, SeededWords(8))), smooth=smooth
    )
    truth = np.histogram(values, 32, (0, 1))[0] / len(values)
    assert found.sum() == pytest.approx(1)
    assert np.abs(np.cumsum(found) - np.cumsum(truth)).max() < 0.03


def test_bad_numbers_are_refused() -> None:
    with pytest.raises(ParameterError, match="nan"):
        OneBit(1).permanent([float("nan")], SeededWords(0))
    with pytest.raises(ParameterError, match="below high"):
        OneBit(1, 5, 5)
    assert (OneBit(1).grid([-1e300, np.inf]) == [0, 1 << 32]).all()


@pytest.mark.parametrize(
    "protocol", [local.Piecewise(1, cells=4), local.Piecewise(4, cells=5), local.Hybrid(2, cells=8)]
)
def test_the_worst_variance_is_one(protocol: local.Piecewise) -> None:
    """On a coarse grid the worst value lies between two positions; a table of nine values once
    missed it."""
    shares = [Fraction(i, 96) for i in range(97)]
    worst = max(protocol.second_moment(share) - (2 * share - 1) ** 2 for share in shares)
    assert worst <= protocol.worst_variance <= worst + Fraction(1, 3)


def test_inputs_fit_their_protocol() -> None:
    protocol = local.VectorMean(1, -1, 1, 5, 1)
    assert all(len(value) == 5 for value in protocol.inputs()) and local.check(protocol).ok
    assert local.best_vector("1/2", 3).protocol.epsilon == Fraction(1, 2)
