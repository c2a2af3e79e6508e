"""Published figures of the oracles, and measured against stated variance."""

from __future__ import annotations

from math import exp, log

import numpy as np
import pytest
from scipy.stats import chi2

from dither import local
from dither.local.localhash import best_size
from dither.local.support import Oracle
from tests.case_lists import mark_between, mark_rest
from tests.local.seeded_words import SeededWords

LN3 = str(log(3))


@pytest.mark.parametrize(
    ("oracle", "noise"),
    [
        (local.Direct(LN3, 2), 0.75),
        (local.OptimisedUnary(LN3, 8), 3.0),
        (local.SymmetricUnary(LN3, 8), 3.2321),
        (local.Hadamard(LN3, 8, 1), 4.0),
        (local.LocalHash(LN3, 8, 4), 3.0),
        (local.Direct(LN3, 11), 3.0),
        (local.OptimisedUnary(1, 8), 3.68269),
        (local.SymmetricUnary(1, 8), 3.91770),
        (local.Hadamard(1, 8, 1), 4.68269),
        (local.LocalHash(1, 8, 4), 3.69166),
        (local.Direct(1, 16), 5.66243),
        (local.Direct(1, 1024), 347.07),
        (local.BinaryHash(1, 8), 4.68269),
        (local.OptimisedUnary(4, 8), 0.07602),
        (local.Hadamard(4, 8, 1), 1.07602),
    ],
)
def test_noise_per_user(oracle: Oracle, noise: float) -> None:
    assert float(oracle.noise_variance) == pytest.approx(noise, rel=1e-4)


@pytest.mark.parametrize("epsilon", [0.5, 1, 2, 4])
def test_hadamard_costs_one_more_than_unary(epsilon: float) -> None:
    gap = (
        local.Hadamard(epsilon, 8, 1).noise_variance
        - local.OptimisedUnary(epsilon, 8).noise_variance
    )
    assert float(gap) == pytest.approx(1, abs=1e-9)


def test_best_hash_size() -> None:
    for epsilon in ("0.5", "1", "2", "3"):
        size = best_size(local.odds.Fraction(epsilon))
        noise = {g: local.LocalHash(epsilon, 8, g).noise_variance for g in range(2, 40)}
        assert noise[size] == min(noise.values())


@pytest.mark.parametrize("epsilon", [0.5, 1, 2, 3])
def test_choice_changes_at_the_crossover(epsilon: float) -> None:
    cross = 3 * exp(epsilon) + 2
    below, above = int(cross), int(cross) + 1
    assert (
        local.Direct(epsilon, below).noise_variance
        <= local.OptimisedUnary(epsilon, below).noise_variance
    )
    assert (
        local.Direct(epsilon, above).noise_variance
        >= local.OptimisedUnary(epsilon, above).noise_variance
    )
    assert local.choose(epsilon, max(2, below // 2)).oracle.type == "direct"
    assert local.choose(epsilon, int(cross * 1.6)).oracle.type != "direct"
    for domain in (3, 20, 300):
        choice = local.choose(epsilon, domain)
        assert choice.oracle.noise_variance <= 1.02 * min(row.noise for row in choice.table)
    assert "<- chosen" in local.choose(epsilon, 50).explain()


def test_message_size_is_kept() -> None:
    assert local.choose(1, 1000, report_bytes=8).oracle.payload_bytes <= 3
    with pytest.raises(local.protocol.ParameterError, match="smallest report"):
        local.choose(1, 1000, report_bytes=3)


ORACLES = [
    local.Direct(1, 16),
    local.SymmetricUnary(1, 16),
    local.OptimisedUnary(1, 16),
    local.OptimalHash(1, 16),
    local.BinaryHash(1, 16),
    local.Hadamard(1, 16, 1),
    local.Hadamard(3, 16),
    local.Subset(1, 16),
    local.BitFlip(2, 16, 4),
    local.basic_rappor(16, f=0.5, p=0.5, q=0.75),
]


@pytest.mark.parametrize("oracle", mark_between(ORACLES, step=3), ids=lambda o: o.type)
def test_measured_variance_matches_the_formula(oracle: Oracle) -> None:
    """N = 2,000, d = 16, 300 runs. The quadratic form of the errors is chi-square; both tails at
    1e-9.

    Errors of different runs are independent; within a run they are correlated, so one value per run
    is used, in turn.
    """
    runs, users = 320, 2_000
    counts = np.array([600, 400, 300, 200, 150, 100, 80, 60, 40, 30, 20, 10, 5, 3, 2, 0])
    values = np.repeat(np.arange(16), counts)
    payloads = oracle.randomise(np.tile(values, runs), SeededWords(7)).reshape(runs, users, -1)
    variances = oracle.variances(counts.astype(float), users)
    scores = []
    for run in range(runs):
        estimate = oracle.debias(oracle.tally(payloads[run]), users)
        v = run % 16
        scores.append((estimate[v] - counts[v]) / variances[v] ** 0.5)
    squares = float(np.square(scores).sum())
    assert chi2.isf(1 - 5e-10, runs) < squares < chi2.isf(5e-10, runs)
    assert abs(sum(scores)) < 6.2 * runs**0.5


@pytest.mark.parametrize(
    "sketch",
    mark_rest(
        [local.CountMeanSketch(2, 64, 32, 128), local.HadamardSketch(2, 64, 32, 128)], quick=1
    ),
)
def test_sketches_estimate_what_they_state(sketch: local.CountMeanSketch) -> None:
    """Given the hash functions: mean = the target matrix, variance exact; chi-square of one value a
    run."""
    runs, users = 200, 1_000
    values = np.minimum(np.random.default_rng(1).geometric(0.1, users) - 1, 63)
    counts = np.bincount(values, minlength=64)
    targets = np.array([[float(c) for c in sketch.target(v)] for v in range(64)])
    spreads = np.array([[float(c) for c in sketch.user_variance(v)] for v in range(64)])
    mean, variance = counts @ targets, counts @ spreads
    words, scores = SeededWords(3), []
    for run in range(runs):
        found = sketch.debias(sketch.tally(sketch.randomise(values, words)), users)
        x = run % 8
        scores.append((found[x] - mean[x]) / variance[x] ** 0.5)
    squares = float(np.square(scores).sum())
    assert chi2.isf(1 - 5e-10, runs) < squares < chi2.isf(5e-10, runs)


def test_rappor_figures() -> None:
    """RAPPOR: one report and lifetime, three parameter sets."""
    for f, p, lifetime, one in [("0.5", "0.5", 4.3944, 1.0743), ("0.5", "0.25", 4.3944, 2.0433)]:
        found = local.bloom_rappor(bits=16, hashes=2, cohorts=64, f=f, p=p, q="0.75")
        assert float(found.epsilon) == pytest.approx(lifetime, abs=5e-5)
        assert float(found.epsilon_one) == pytest.approx(one, abs=5e-5)
    sparse = local.bloom_rappor(bits=16, hashes=2, cohorts=64, f="0.25", p="0.25", q="0.75")
    assert (float(sparse.epsilon), float(sparse.epsilon_one)) == pytest.approx(
        (7.7836, 3.1538), abs=5e-5
    )


def test_bloom_rappor_finds_candidates() -> None:
    protocol = local.bloom_rappor(bits=64, hashes=2, cohorts=8, f=0.25, p=0.25, q=0.75)
    texts = ["dark"] * 9_000 + ["light"] * 6_000 + ["auto"] * 5_000
    collector = local.Aggregator(protocol)
    collector.add_payloads(protocol.randomise(texts, SeededWords(5)))
    found = protocol.decode(collector.tally, collector.reports, ["dark", "light", "auto", "sepia"])
    truth = np.array([9_000, 6_000, 5_000, 0])
    assert (np.abs(found.values - truth) < 7 * found.errors).all()


def test_the_lasso_finds_texts_among_many_candidates() -> None:
    """Five hundred candidates, three of them typed; nothing else survives, and counts are unbiased
    (7 errors)."""
    protocol = local.bloom_rappor(bits=64, hashes=2, cohorts=8, f=0.25, p=0.25, q=0.75)
    texts = ["dark"] * 9_000 + ["light"] * 6_000 + ["auto"] * 5_000
    collector = local.Aggregator(protocol)
    collector.add_payloads(protocol.randomise(texts, SeededWords(6)))
    candidates = [f"word{i}" for i in range(500)] + ["light", "auto", "sepia", "dark"]
    found = protocol.find(collector.tally, collector.reports, candidates)
    assert found.labels == ("dark", "light", "auto")
    assert (np.abs(found.values - [9_000, 6_000, 5_000]) < 7 * found.errors).all()
    with pytest.raises(local.protocol.ParameterError, match="different texts"):
        protocol.find(collector.tally, collector.reports, ["dark", "dark"])


def test_intervals_cover() -> None:
    """95% normal intervals on 4,000 estimates; the binomial tail at 1e-9."""
    oracle, users, runs = local.OptimisedUnary(1, 20), 2_000, 200
    values = np.arange(users) % 20
    words, hits = SeededWords(11), 0
    for _ in range(runs):
        low, high = oracle.estimate(oracle.tally(oracle.randomise(values, words)), users).interval(
            0.95
        )
        hits += int(((low <= 100) & (high >= 100)).sum())
    assert abs(hits / (20 * runs) - 0.95) < 6.2 * (0.95 * 0.05 / (20 * runs)) ** 0.5


def test_certain_intervals_are_wider() -> None:
    oracle = local.Direct(1, 4)
    found = oracle.estimate(np.array([10, 20, 5, 5]), 40)
    normal, certain = found.interval(), found.interval(certain=True)
    assert (certain[0] < normal[0]).all() and (certain[1] > normal[1]).all()


def test_hadamard_intervals_with_many_blocks() -> None:
    """The plug-in variance once added up the clipped noise of a whole block: intervals were five
    times too wide."""
    oracle, users, runs = local.Hadamard(4, 4096), 2_000, 40
    assert oracle.blocks > 1
    values = np.random.default_rng(2).integers(0, 4096, users)
    truth, words, scores, widths = np.bincount(values, minlength=4096), SeededWords(9), [], []
    exact = oracle.variances(truth.astype(float), users)
    for run in range(runs):
        found = oracle.estimate(oracle.tally(oracle.randomise(values, words)), users)
        scores.append((found.values[run] - truth[run]) / found.errors[run])
        widths.append(float(np.median(found.variances) / np.median(exact)))
    assert chi2.isf(1 - 5e-10, runs) < float(np.square(scores).sum()) < chi2.isf(5e-10, runs) * 1.2
    assert 0.5 < min(widths) <= max(widths) < 2
