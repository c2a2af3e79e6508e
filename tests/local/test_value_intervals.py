"""Intervals of means, distributions, ratings and triangles: exact variances, and coverage."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations, product

import numpy as np
import pytest
from scipy.stats import chi2

from dither import ParameterError, local
from dither.local.estimate import Estimate, bernstein_half_width
from dither.local.graph import count_for_triangles
from dither.local.sparse import bracket_ratios
from tests.case_lists import mark_rest
from tests.local.coverage import binomial_bounds
from tests.local.seeded_words import SeededWords


@pytest.mark.parametrize("cells", [4, 5, 16, 33])
@pytest.mark.parametrize("epsilon", [1, 4])
def test_the_variance_of_piecewise_means_is_estimated_without_bias(
    epsilon: int, cells: int
) -> None:
    """The exact law of one report of each value: the expectation of the estimated variance is the
    exact one, up to the stated rounding (brute force over all cells)."""
    protocol = local.Piecewise(epsilon, cells=cells)
    curve, constant = protocol.moment_curve
    for value in (-1.0, -0.4, 0.0, 0.3, 1.0):
        law = protocol.law(value)
        moment = sum(
            weight * protocol.debias(np.array([Fraction(y[0])], object), 1)[0] ** 2
            for y, weight in law.items()
        )
        truth = protocol.user_variance(value)[0]
        estimated = moment - (moment - constant) / curve if curve else moment
        assert 0 <= estimated + protocol.rounding - truth <= protocol.rounding
        assert truth <= protocol.worst_variance


def test_piecewise_intervals_are_not_those_of_the_worst_value() -> None:
    """150 collections of users at 0: the error divided by the stated one is chi-square (1e-9);
    with the worst variance it would be 0.70 of it. At the end of the range the two agree."""
    protocol, runs, users = local.Piecewise(1, cells=64), 150, 500
    source = SeededWords(1)
    scores = []
    for _ in range(runs):
        collector = local.Aggregator(protocol)
        collector.add_payloads(protocol.randomise(np.zeros(users), source))
        estimate = collector.estimate()
        scores.append(estimate.values[0] / estimate.errors[0])
        assert estimate.variances[0] < 0.85 * float(protocol.worst_variance) / users
    assert chi2.isf(1 - 5e-10, runs) < float(np.square(scores).sum()) < chi2.isf(5e-10, runs)


def test_piecewise_collections_can_be_merged_and_stored_with_their_squares() -> None:
    protocol = local.Piecewise(1, cells=64)
    payloads = protocol.randomise(np.linspace(-1, 1, 900), SeededWords(2))
    whole, one, two = (local.Aggregator(protocol) for _ in range(3))
    whole.add_payloads(payloads)
    one.add_payloads(payloads[:300])
    two.add_payloads(payloads[300:])
    merged = local.Aggregator.from_bytes(one.to_bytes()).merge(two)
    assert merged.squares == whole.squares and merged.to_bytes() == whole.to_bytes()
    assert merged.estimate().variances == whole.estimate().variances


ORACLES = [local.Direct(1, 4), local.Hadamard(2, 5, 2), local.OptimisedUnary(1, 4)]


@pytest.mark.parametrize("oracle", ORACLES, ids=lambda oracle: oracle.type)
def test_certain_intervals_use_a_variance_that_nobody_exceeds(oracle: local.Direct) -> None:
    """They once used the estimated variance, which is no bound: all users of one value against the
    exact variance of each."""
    n = 7
    bounds = oracle.estimate(np.zeros(oracle.tally_size, np.int64), n).variance_bounds
    assert bounds is not None
    exact = [[n * float(v) for v in oracle.user_variance(value)] for value in range(oracle.domain)]
    assert (bounds >= np.max(exact, axis=0) - 1e-9).all()


def test_the_half_width_of_bernstein_solves_its_equation() -> None:
    """2 exp(-s**2 / (2 V + 2 b s / 3)) = 1 - level with b twice the largest move; what stood there
    before was smaller, with no proof for terms that are not centred."""
    for variance, move in ((1.0, 1.0), (50.0, 0.3), (0.0, 2.0)):
        half = float(bernstein_half_width(np.array([variance]), move, 0.95)[0])
        tail = 2 * np.exp(-(half**2) / (2 * variance + 4 * move * half / 3))
        assert tail == pytest.approx(0.05)


def test_there_is_no_certain_interval_without_a_bound() -> None:
    estimate = Estimate(np.ones(1), np.ones(1), 1, 1.0)
    with pytest.raises(ParameterError, match="certain"):
        estimate.interval(certain=True)


def test_an_empty_square_wave_is_flat_and_silent() -> None:
    """It was nan, with a warning (warnings are errors here)."""
    protocol = local.SquareWave(1, 0, 1, 8)
    estimate = local.Aggregator(protocol).estimate()
    assert (estimate.values == 0).all()
    assert protocol.distribution(np.zeros(protocol.cells, np.int64)).tolist() == [1 / 8] * 8
    low, high = estimate.interval()
    assert (low == 0).all() and (high == 0).all()


def test_square_wave_contributions_are_those_of_the_enumerated_law() -> None:
    """Means and variances of the least squares solution, over all cells of each bucket."""
    protocol = local.SquareWave(1, 0, 1, 6)
    weights = np.concatenate([np.eye(6), np.tri(6), np.random.default_rng(0).normal(size=(2, 6))])
    contributions, means = protocol.contribute(weights)
    for bucket, value in enumerate(protocol.inputs()):
        first = np.zeros(len(weights))
        second = np.zeros(len(weights))
        for payload, chance in protocol.law(value).items():
            tally = protocol.tally(np.frombuffer(payload, np.uint8).reshape(1, -1))
            moved = weights @ protocol.ordered(tally, 1).counts
            first += float(chance) * moved
            second += float(chance) * moved**2
            assert (np.abs(moved) <= contributions.largest + 1e-9).all()
        np.testing.assert_allclose(first, weights[:, bucket], atol=1e-9)
        np.testing.assert_allclose(first, means[:, bucket], atol=1e-9)
        np.testing.assert_allclose(second, contributions.second_moments[:, bucket], atol=1e-9)


def test_square_wave_intervals_cover() -> None:
    """300 runs of 1,000 users at level 0.9, a bucket, a range and a median each; binomial bounds
    at 1e-9 (the bucket's interval is widened to hold the EM value, so it may miss less)."""
    protocol, runs, users = local.SquareWave(2, 0, 1, 16), 300, 1_000
    values = np.random.default_rng(3).beta(2, 5, users)
    truth = np.bincount(protocol.bucket(values), minlength=16)
    median = int(np.searchsorted(np.cumsum(truth), users / 2))
    missed = np.zeros(3, int)
    source = SeededWords(4)
    for _ in range(runs):
        tally = protocol.tally(protocol.randomise(values, source))
        low, high = protocol.estimate(tally, users).interval(0.9)
        ordered = protocol.ordered(tally, users)
        start, end = ordered.range_estimate(2, 6).interval(0.9)
        first, last = ordered.quantile_interval(0.5, 0.9)
        missed += [
            not low[4] <= truth[4] <= high[4],
            not start[0] <= truth[2:6].sum() <= end[0],
            not first <= median <= last,
        ]
    fewest, most = binomial_bounds(runs, 0.1, 1e-9)
    assert (missed <= most).all() and missed[1] >= fewest


def test_ratios_are_bracketed_by_all_that_are_not_refuted() -> None:
    """Against a search over a fine grid of ratios, for many sums and totals."""
    generator = np.random.default_rng(5)
    sums = generator.normal(0, 60, 300)
    totals = generator.normal(50, 80, 300)
    low, high = bracket_ratios(sums, totals, 40.0)
    grid = np.linspace(-1, 1, 4001)
    gap = np.abs(sums[:, None] - grid * totals[:, None])
    kept = gap <= 40.0 * np.sqrt(1 + grid**2)
    assert (low >= -1).all() and (high <= 1).all() and (low <= high).all()
    for row in np.flatnonzero(kept.any(axis=1)):
        inside = grid[kept[row]]
        assert low[row] <= inside[0] + 1e-9 and high[row] >= inside[-1] - 1e-9
        assert low[row] >= inside[0] - 1e-3 and high[row] <= inside[-1] + 1e-3


def test_mean_ratings_are_numbers_with_intervals_that_cover() -> None:
    """200 collections of 2,000 users at level 0.9, binomial bounds at 1e-9 for an item that half
    of them rated; 42 of 50 means were nan before."""
    protocol, runs, users = local.SparseMean(3, 1, 5, items=6, most=2), 200, 2_000
    ratings = np.random.default_rng(6).choice([1.0, 2.0, 5.0], users)
    held = [{0: float(x), 3: 4.0} if i % 2 else {1: 2.0} for i, x in enumerate(ratings)]
    truth = float(ratings[1::2].mean())
    missed = narrow = 0
    source = SeededWords(7)
    symbols = [protocol.chances(value) for value in held]
    chances = np.array([[law.get(s, 0) for s in range(13)] for law in symbols], float)
    edges = np.cumsum(chances, axis=1)
    generator = np.random.default_rng(8)
    for _ in range(runs):
        drawn = (generator.random(users)[:, None] > edges).sum(axis=1).clip(0, 12)
        tally = protocol.tally(protocol.symbols.permanent(drawn, source))
        _, means = protocol.ratings(tally, users, level=0.9)
        stacked = np.stack([means.low, means.values, means.high])
        assert np.isfinite(stacked).all() and (np.diff(stacked, axis=0) >= 0).all()
        assert (means.low >= 1).all() and (means.high <= 5).all()
        missed += not means.low[0] <= truth <= means.high[0]
        narrow += means.high[0] - means.low[0] < 3
    assert missed <= binomial_bounds(runs, 0.1, 1e-9)[1] and narrow > runs / 2
    _, means = protocol.ratings(tally, users, level=0.9, certain=True)
    assert means.low[0] <= truth <= means.high[0]


def exact_triangle_variance(
    links: np.ndarray, answered: set[tuple[int, int]], spread: float
) -> float:
    """The variance of the triangle estimate, over all pairs of triples (brute force)."""
    triples = [frozenset(combinations(triple, 2)) for triple in combinations(range(len(links)), 3)]
    told = [triple for triple in triples if triple <= answered]
    total = 0.0
    for first, second in product(told, repeat=2):
        shared = first & second
        if shared:
            apart = np.prod([float(links[pair]) for pair in first ^ second])
            together = np.prod([float(links[pair]) + spread for pair in shared])
            total += apart * (together - np.prod([float(links[pair]) for pair in shared]))
    return total


@pytest.mark.parametrize("silent", mark_rest([set(), {3}], quick=1), ids=["all", "one silent"])
def test_the_variance_of_triangles_is_estimated_without_bias(silent: set[int]) -> None:
    """All 2**10 answers about 5 users: the mean estimate, its variance and the mean of the
    estimated variance, each weighted with exact probabilities, against brute force."""
    users = 5
    protocol = local.EdgeResponse(2, users)
    links = np.triu(np.random.default_rng(9).random((users, users)) < 0.6, 1)
    reporters = [u for u in range(users) if u not in silent]
    pairs = [(j, u) for u in reporters for j in range(u)]
    p, spread = float(protocol.p), protocol.entry_variance
    first = second = estimated = 0.0
    for answers in product((False, True), repeat=len(pairs)):
        heard = dict(zip(pairs, answers, strict=True))
        rows = [
            protocol._write(u, np.array([heard[j, u] for j in range(u)], bool)) for u in reporters
        ]
        payloads = np.frombuffer(b"".join(rows), np.uint8).reshape(len(rows), -1)
        chance = np.prod([p if heard[pair] == links[pair] else 1 - p for pair in pairs])
        count = protocol.triangles(payloads)
        lower, told = protocol._unbiased(payloads)
        triples, edges, wedges = count_for_triangles(lower + lower.T, told + told.T)
        raw = spread**3 * triples + spread**2 * edges + spread * wedges
        assert count.variances[0] >= raw - 1e-9
        first += chance * count.values[0]
        second += chance * count.values[0] ** 2
        estimated += chance * raw
    truth = exact_triangle_variance(links, set(pairs), spread)
    told_links = np.zeros((users, users), int)
    for pair in pairs:
        told_links[pair] = links[pair]
    full = told_links + told_links.T
    assert first == pytest.approx(np.trace(full @ full @ full) / 6)
    assert second - first**2 == pytest.approx(truth)
    assert estimated == pytest.approx(truth)


def test_intervals_of_triangles_cover() -> None:
    """150 collections from 40 users at level 0.9; misses below the binomial bound at 1e-9."""
    generator, users, runs = np.random.default_rng(10), 40, 150
    lower = np.tril(generator.random((users, users)) < 0.3, -1)
    full = (lower | lower.T).astype(int)
    truth = np.trace(full @ full @ full) / 6
    protocol, source = local.EdgeResponse(2, users), SeededWords(11)
    held = [(u, lower[u, :u]) for u in range(users)]
    missed = 0
    for _ in range(runs):
        low, high = protocol.triangles(protocol.permanent(held, source)).interval(0.9)
        missed += not low[0] <= truth <= high[0]
    assert missed <= binomial_bounds(runs, 0.1, 1e-9)[1]
