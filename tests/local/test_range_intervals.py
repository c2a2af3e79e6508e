"""Intervals of ranges and quantiles, and the choice between Haar, hierarchy and flat."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dither import ParameterError, local
from dither.local import postprocess
from dither.local.choose_ranges import choose_ranges, order_counts
from tests.case_lists import mark_between
from tests.local.coverage import binomial_bounds
from tests.local.seeded_words import SeededWords

SMALL: list[Any] = [
    local.Direct(1, 4),
    local.Direct(3, 7),
    local.Hadamard(1, 5, 1),
    local.Hadamard(2, 6, 2),
    local.Haar(1, 8),
    local.Hierarchy(1, 4, 2),
    local.Hierarchy(2, 9, 3),
    local.Hierarchy(4, 16, 4),
]
IDS = [f"{protocol.type}-{i}" for i, protocol in enumerate(SMALL)]


@pytest.mark.parametrize("protocol", SMALL, ids=IDS)
def test_contributions_are_those_of_the_enumerated_law(protocol: Any) -> None:
    """Every report of every value, weighted by its exact probability: means, variances, largest
    moves of random weighted sums and of all ranges (brute force)."""
    size = protocol.domain
    ranges = [
        (np.arange(size) >= a) & (np.arange(size) < b)
        for a in range(size)
        for b in range(a + 1, size + 1)
    ]
    generator = np.random.default_rng(0)
    weights = np.concatenate([np.array(ranges, float), generator.normal(size=(3, size))])
    empty = order_counts(protocol, np.zeros(protocol.tally_size, np.int64), 0)
    contributions, means = empty.contribute(weights)
    largest = np.zeros(len(weights))
    for value in range(size):
        first = np.zeros(len(weights))
        second = np.zeros(len(weights))
        for payload, chance in protocol.law(value).items():
            tally = protocol.tally(np.frombuffer(payload, np.uint8).reshape(1, -1))
            moved = weights @ order_counts(protocol, tally, 1).counts
            first += float(chance) * moved
            second += float(chance) * moved**2
            # what does not depend on the report: the known number of reports at the root
            constant = weights @ order_counts(protocol, np.zeros_like(tally), 1).counts
            if protocol.type in ("haar", "hierarchy"):
                largest = np.maximum(largest, np.abs(moved - constant))
            else:
                largest = np.maximum(largest, np.abs(moved))
        spread = contributions.second_moments[:, value] - means[:, value] ** 2
        np.testing.assert_allclose(first, weights[:, value], atol=1e-9)  # unbiased
        np.testing.assert_allclose(second - first**2, spread, atol=1e-9)
    assert (contributions.largest >= largest - 1e-9).all()
    assert (contributions.largest <= 2 * largest + 1e-9).all()


def test_raw_weights_are_the_transpose_of_the_consistent_tree() -> None:
    """Against the derivative by each node in turn (the tree is linear)."""
    spread = [0.0, 3.0, 1.0, 2.0]
    sizes = [1, 3, 9, 27]
    weights = np.random.default_rng(1).normal(size=(2, 27))
    raw = postprocess.weigh_raw_nodes(weights, spread, 3)
    for level, size in enumerate(sizes):
        for node in range(size):
            levels = [np.zeros(n) for n in sizes]
            levels[level][node] = 1.0
            leaves = postprocess.consistent_tree(levels, spread, 3)[-1]
            np.testing.assert_allclose(weights @ leaves, raw[level][:, node], atol=1e-12)


PROTOCOLS: list[Any] = [
    local.Haar(1, 32),
    local.Hierarchy(1, 64, 4),
    local.Hierarchy(4, 64, 4),
    local.Direct(4, 32),
]


@pytest.mark.parametrize(
    "protocol", mark_between(PROTOCOLS, step=2), ids=lambda protocol: protocol.type
)
def test_intervals_of_ranges_and_quantiles_cover(protocol: Any) -> None:
    """200 runs of 1,500 users at level 0.9; the number of misses has binomial bounds at 1e-9.

    Exact intervals would miss 10% of the time; the prefix interval of a quantile is conservative.
    """
    users, runs, level = 1_500, 200, 0.9
    values = np.clip(np.random.default_rng(2).normal(12, 5, users), 0, 31).astype(np.int64)
    start, end, truth = 5, 14, int(((values >= 5) & (values < 14)).sum())
    median = int(np.sort(values)[users // 2 - 1])
    missed = {"range": 0, "certain": 0, "median": 0}
    source = SeededWords(3)
    for _ in range(runs):
        tally = protocol.tally(protocol.randomise(values, source))
        ordered = order_counts(protocol, tally, users)
        estimate = ordered.range_estimate(start, end)
        low, high = estimate.interval(level)
        missed["range"] += not low[0] <= truth <= high[0]
        low, high = estimate.interval(level, certain=True)
        missed["certain"] += not low[0] <= truth <= high[0]
        first, last = ordered.quantile_interval(0.5, level)
        missed["median"] += not first <= median <= last
    fewest, most = binomial_bounds(runs, 0.1, 1e-9)
    assert fewest <= missed["range"] <= most
    assert missed["certain"] <= most and missed["median"] <= most


def test_quantile_intervals_of_a_large_domain_cover() -> None:
    """1,024 values, 256 prefixes: ends are moved outwards. 36 runs at level 0.5; misses within
    binomial bounds at 1e-9."""
    protocol, users, runs = local.Haar(2, 1024), 3_000, 36
    values = np.clip(np.random.default_rng(4).normal(500, 90, users), 0, 1023).astype(np.int64)
    truth = {share: int(np.sort(values)[int(share * users) - 1]) for share in (0.1, 0.5, 0.9)}
    missed = 0
    source = SeededWords(5)
    for run in range(runs):
        tally = protocol.tally(protocol.randomise(values, source))
        ordered = protocol.ordered(tally, users)
        share = (0.1, 0.5, 0.9)[run % 3]
        first, last = ordered.quantile_interval(share, 0.5)
        missed += not first <= truth[share] <= last
        assert first <= ordered.quantile(share) <= last and last - first < 600
    assert missed <= binomial_bounds(runs, 0.5, 1e-9)[1]


def test_bad_ranges_and_shares_are_refused() -> None:
    ordered = local.Haar(1, 8).ordered(np.zeros(7, np.int64), 0)
    for start, end in ((-1, 3), (5, 4), (0, 9)):
        with pytest.raises(ParameterError, match="range"):
            ordered.range_estimate(start, end)
    for share in (-0.1, 1.1, float("nan")):
        with pytest.raises(ParameterError, match="quantile"):
            ordered.quantile_interval(share)


@pytest.mark.all
def test_the_choice_of_ranges_follows_the_predicted_error() -> None:
    """At epsilon 4 the hierarchy errs a third of Haar, and flat is between; at epsilon 1/2 over a
    large domain flat errs most. Predicted errors are compared with measured ones."""
    choice = choose_ranges(4, 256)
    table = {row.name: row for row in choice.table}
    best = min(choice.table, key=lambda row: row.error)
    assert choice.protocol == best.protocol and choice.protocol.type == "hierarchy"
    assert table["flat"].error < table["haar"].error
    weak = {row.name: row.error for row in choose_ranges("1/2", 4096).table}
    assert weak["flat"] == max(weak.values())
    assert choose_ranges(8, 4).protocol.type == "direct"
    assert "chosen" in choice.explain()


def measure_range_error(protocol: Any, domain: int, users: int, runs: int) -> float:
    """Root mean square error of shares of ranges, over `runs` collections of uniform users."""
    generator = np.random.default_rng(6)
    source = SeededWords(7)
    values = np.repeat(np.arange(domain), users // domain)
    squares = []
    for _ in range(runs):
        tally = protocol.tally(protocol.randomise(values, source))
        ordered = order_counts(protocol, tally, len(values))
        ends = np.sort(generator.integers(0, domain + 1, (40, 2)), axis=1)
        for start, end in ends:
            truth = (end - start) * (users // domain)
            squares.append(((ordered.range(start, end) - truth) / len(values)) ** 2)
    return float(np.mean(squares) ** 0.5)


def test_predicted_errors_are_the_measured_ones() -> None:
    """30 collections of 6,400 users, 40 random ranges each: within a quarter of the prediction
    (the mean of 1,200 squares, in 30 independent groups; a wrong power of the number of levels
    would be a factor)."""
    users = 6_400
    for row in choose_ranges(4, 64).table:
        measured = measure_range_error(row.protocol, 64, users, 30)
        assert measured == pytest.approx(row.error / users**0.5, rel=0.25), row.name
