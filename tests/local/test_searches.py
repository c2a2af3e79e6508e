"""Heavy hitters: what is found, how often, and that nothing else is."""

from __future__ import annotations

from fractions import Fraction
from math import log
from typing import Any

import numpy as np
import pytest
from mpmath import binomial, mpf
from mpmath import log as mp_log

from dither import ParameterError, local
from dither.local.heavy import best_search
from dither.local.kept import chance_support
from dither.local.localhash import extend_prefixes
from dither.local.search_limits import bound_information, least_possible_count
from tests.evidence import to_real
from tests.local.coverage import binomial_bounds
from tests.local.seeded_words import SeededWords

NEVER = Fraction(0)


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
    q = to_real(oracle.q)
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


def compute_information(protocol: local.Protocol, share: float) -> mpf:
    """What one report tells about a uniform value that a share of the users hold, in nats: by the
    definition, from the exact laws of all values."""
    laws = [protocol.law(value) for value in protocol.inputs()]
    outputs = {output for law in laws for output in law}
    mean = {
        output: sum(to_real(law.get(output, NEVER)) for law in laws) / len(laws)
        for output in outputs
    }
    total = mpf(0)
    for law in laws:
        for output in outputs:
            mixed = (1 - share) * mean[output] + share * to_real(law.get(output, NEVER))
            if mixed:
                total += mixed * mp_log(mixed / mean[output]) / len(laws)
    return total


@pytest.mark.parametrize("share", [0.01, 0.3])
@pytest.mark.parametrize(
    "oracle",
    [
        *(local.Direct(epsilon, size) for epsilon in (1, 4) for size in (2, 4, 40)),
        local.Subset(1, 6),
        local.Hadamard(2, 8),
        local.LocalHash(1, 4, 2, 2),
        local.OptimisedUnary(1, 4),
    ],
    ids=lambda oracle: f"{oracle.type}-{oracle.domain}-{oracle.epsilon}",
)
def test_no_report_tells_more_than_the_bound(oracle: Any, share: float) -> None:
    assert 0 < compute_information(oracle, share) <= bound_information(oracle.epsilon, share)


def test_the_bound_on_one_report_is_sharp_for_small_shares() -> None:
    """Sets of a share 1 / (e^epsilon + 1) of the values attain it (the proof's u): here 3 of 11."""
    exact = compute_information(local.Subset(1, 11), 0.001)
    assert exact > 0.99 * bound_information(1, 0.001)


def test_no_search_promises_more_than_is_possible() -> None:
    """At equality of theorem 9, computed here from its own statement; and below our search."""
    for epsilon, bits in [(1, 30), (2, 30), (4, 40), ("0.5", 16)]:
        least = least_possible_count(epsilon, bits, 300_000)
        doubt = -0.9 * log(0.9) - 0.1 * log(0.1)
        needed = 0.9 * (bits * log(2) - log(32)) - doubt
        assert 300_000 * bound_information(epsilon, least / 300_000) == pytest.approx(needed)
        assert least < best_search(epsilon, bits, 300_000).smallest_count(300_000) < 1.8 * least
    assert least_possible_count(1, 30, 300_000) > 0.01 * 300_000
    assert least_possible_count(1, 5, 300_000) == 0  # 32 guesses name all values
    with pytest.raises(ParameterError, match="power"):
        least_possible_count(1, 30, 300_000, power=1.0)


@pytest.mark.all
@pytest.mark.parametrize(("epsilon", "share"), [(1, 0.054), (2, 0.024)])
def test_five_of_five_planted_words_are_found_among_300_000_users(epsilon, share) -> None:
    """Each is found with probability 0.9999 by theorem 8, and no other with 0.999. Seeded."""
    users = 300_000
    search = best_search(epsilon, 30, users, server_steps=8_000_000_000)
    count = int(share * users)
    assert count > search.smallest_count(users, level=0.999, power=0.9999)
    generator = np.random.default_rng(5)
    planted = generator.integers(0, 1 << 30, 5)
    rest = generator.integers(0, 1 << 30, users - 5 * count)
    values = np.concatenate([np.repeat(planted, count), rest])
    words, counts = search.find(search.randomise(values, SeededWords(6)), level=0.999)
    assert set(words.tolist()) == set(planted.tolist())
    assert (abs(counts.values - count) < 6.5 * counts.errors).all()
