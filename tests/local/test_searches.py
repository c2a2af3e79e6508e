"""Heavy hitters: what is found, how often, and that nothing else is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from mpmath import binomial, mpf

from dither import ParameterError, local
from dither.local.heavy import best_search
from dither.local.kept import chance_support
from dither.local.localhash import extend_prefixes
from tests.local.coverage import binomial_bounds
from tests.local.seeded_words import SeededWords


@pytest.mark.parametrize(
    "oracle",
    [
        local.LocalHash(1, 1 << 30),
        local.LocalHash(2, 1 << 40),
        local.LocalHash(1, 1 << 12, prime_bits=3),
        local.LocalHash(1, 1 << 12, prime_bits=7),
    ],
    ids=lambda oracle: f"{oracle.domain.bit_length() - 1}-{oracle.prime_bits}",
)
def test_extensions_have_the_support_of_each_value(oracle: local.LocalHash) -> None:
    """Against the plain count, one hash after the other; 12 bits also cross the block of 10."""
    generator = np.random.default_rng(0)
    reports = oracle.permanent(generator.integers(0, oracle.domain, 300), SeededWords(0))
    for bits in (0, 4, 12):
        prefixes = generator.integers(0, max(1, oracle.domain >> bits), 3)
        counts = oracle.support_extensions(reports, prefixes, bits)
        plain = oracle.support(reports, extend_prefixes(prefixes, bits))
        assert (counts.ravel() == plain).all()


def test_the_smallest_count_is_found_as_often_as_it_says() -> None:
    """120 collections; a value held by `smallest_count` users is found in about 90% of them, and a
    value held by nobody in at most 5% (binomial bounds at 1e-9)."""
    search, users, runs = local.PrefixSearch(3, 15, 6, 5), 3_000, 120
    held = round(search.smallest_count(users, beam=8))
    assert 0.05 < held / users < 0.2
    generator, source = np.random.default_rng(1), SeededWords(2)
    hits = false_alarms = 0
    for _ in range(runs):
        word = int(generator.integers(0, 1 << 15))
        values = np.concatenate([np.full(held, word), generator.integers(0, 1 << 15, users - held)])
        words, counts = search.find(search.randomise(values, source), beam=8, keep=8)
        hits += word in words
        false_alarms += bool(set(words.tolist()) - {word})
        assert len(counts.values) == len(words)
    assert hits >= binomial_bounds(runs, 0.9, 1e-9)[0]
    assert false_alarms <= binomial_bounds(runs, 0.05, 1e-9)[1]


def test_the_support_of_a_value_that_nobody_holds_is_binomial() -> None:
    """250 reports at epsilon 4, expected support four: a normal threshold for 65,536 values lies
    below the exact one, which is compared with the exact tail (mpmath)."""
    oracle = local.OptimalHash(4, 1 << 30)
    reports, tried = 250, 65_536
    bound = chance_support(oracle, reports, tried, 0.95)
    q = mpf(oracle.q.numerator) / oracle.q.denominator
    tail = [
        sum(binomial(reports, k) * q**k * (1 - q) ** (reports - k) for k in range(s, reports + 1))
        for s in (bound, bound + 1)
    ]
    assert tail[1] <= mpf("0.05") / tried < tail[0]
    normal = reports * float(q) + 4.83 * (reports * float(q) * (1 - float(q))) ** 0.5
    assert bound > normal


def test_nothing_is_found_where_nobody_agrees() -> None:
    """25 collections of scattered values: false values in at most 5%, bound at 1e-9."""
    searches: list[Any] = [
        local.PrefixSearch(2, 15, 6, 5),
        local.FragmentPuzzle(2, bits=15, step=5, tag_bits=4),
    ]
    most = binomial_bounds(25, 0.05, 1e-9)[1]
    for search in searches:
        generator, source = np.random.default_rng(3), SeededWords(4)
        false_alarms = 0
        for _ in range(25):
            values = generator.permutation(1 << 15)[:2_000]
            false_alarms += bool(len(search.find(search.randomise(values, source))[0]))
        assert false_alarms <= most


def test_the_best_search_needs_the_fewest_users_within_its_work() -> None:
    best = best_search(1, 30, 300_000)
    assert best.lengths == (16, 27, 30)
    plain = local.PrefixSearch(1, 30, 10, 10)
    assert best.smallest_count(300_000) < 0.88 * plain.smallest_count(300_000)
    assert best.server_steps(300_000) <= 20_000_000_000
    small = best_search(1, 30, 300_000, server_steps=2_000_000_000)
    assert small.server_steps(300_000) <= 2_000_000_000
    assert best.smallest_count(300_000) < small.smallest_count(300_000)
    with pytest.raises(ParameterError, match="server steps"):
        best_search(1, 30, 300_000, server_steps=1)
    with pytest.raises(ParameterError, match="users"):
        best_search(1, 30, True)


@pytest.mark.parametrize("seed", [0, *(pytest.param(s, marks=pytest.mark.all) for s in (1, 2))])
def test_the_puzzle_finds_words_whose_pieces_are_not_significant(seed: int) -> None:
    """Words of 6% to 4% of 40,000 users at epsilon 2: their pieces stand out by two to four
    standard errors, the words themselves by seven and more. Seeded; before, when every piece had
    to be significant by itself, none of these collections gave them all."""
    puzzle, users = local.FragmentPuzzle(2, bits=24, step=8), 40_000
    planted = {11_259_375: 0.06, 4_660_000: 0.05, 1_193_046: 0.04}
    generator = np.random.default_rng(seed)
    words = [np.full(int(share * users), word) for word, share in planted.items()]
    rest = generator.integers(0, 1 << 24, users - sum(map(len, words)))
    values = np.concatenate([*words, rest])
    codes, counts = puzzle.find(puzzle.randomise(values, SeededWords(seed)))
    assert set(codes.tolist()) == set(planted)
    for code, count, error in zip(codes.tolist(), counts.values, counts.errors, strict=True):
        assert abs(count - planted[code] * users) < 6.5 * error
