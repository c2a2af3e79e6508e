"""Every oracle on small domains, exactly: sums to one, ratios below e**epsilon, unbiased, variance
as stated."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from dither import local
from dither.local.bits import count_ones, random_rows, random_words
from dither.local.check import largest_ratio
from dither.local.hashing import HashFamily
from dither.local.odds import at_most_exp, log_above, odds
from dither.privacy.noise import Words
from tests.case_lists import mark_between
from tests.local.seeded_words import SeededWords

SMALL = [
    local.Direct(1, 2),
    local.Direct(1, 5),
    local.Direct("0.1", 3),
    local.Direct(8, 4),
    local.SymmetricUnary(1, 4),
    local.SymmetricUnary(4, 3),
    local.OptimisedUnary(1, 4),
    local.OptimisedUnary("0.25", 5),
    local.LocalHash(1, 4, 2, 3),
    local.LocalHash(2, 5, 3, 3),
    local.Hadamard(1, 5),
    local.Hadamard(1, 5, 1),
    local.Hadamard(3, 9),
    local.Hadamard(2, 4, 4),
    local.Subset(1, 6),
    local.Subset(3, 5),
    local.Subset("0.5", 5, 4),
    local.BitFlip(1, 4, 2),
    local.BitFlip(3, 3, 3),
    local.CountMeanSketch(1, 5, 2, 4, "x", 3),
    local.HadamardSketch(1, 5, 3, 4, "x", 3),
    local.basic_rappor(3, f="1/2", p="1/2", q="3/4"),
    local.bloom_rappor(bits=4, hashes=2, cohorts=2, f="1/2", p="1/2", q="3/4"),
]
IDS = [f"{p.type}-{i}" for i, p in enumerate(SMALL)]


@pytest.mark.parametrize("protocol", mark_between(SMALL, step=2), ids=IDS)
def test_exact_audit(protocol: local.Protocol) -> None:
    found = local.check(protocol)
    assert found.problems == ()
    assert found.largest_ratio is not None and at_most_exp(found.largest_ratio, protocol.epsilon)


@pytest.mark.parametrize("protocol", SMALL, ids=IDS)
def test_nothing_is_given_away(protocol: local.Protocol) -> None:
    """The ratio is not only below e**epsilon but close: noise is not wasted (sketches and filters
    may collide)."""
    if protocol.type in ("bloom_rappor",):
        return
    assert float(protocol.epsilon) - local.check(protocol, moments=False).epsilon < 1e-9


@pytest.mark.parametrize("protocol", mark_between(SMALL, step=3), ids=IDS)
def test_the_randomiser_draws_the_stated_law(protocol: local.Protocol, words: Words) -> None:
    for value in protocol.inputs()[:3]:
        assert local.same_law(protocol, value, 20_000, words)


@pytest.mark.parametrize("protocol", SMALL, ids=IDS)
def test_documents_round_trip(protocol: local.Protocol) -> None:
    assert local.from_json(protocol.to_json()) == protocol
    lied = protocol.to_json() | {"epsilon": "5/1"}
    with pytest.raises(local.protocol.ParameterError):
        local.from_json(lied)


@pytest.mark.parametrize(
    "protocol",
    mark_between(
        [
            local.Direct(1, 1024),
            local.Hadamard(1, 1024),
            local.Hadamard(4, 1024),
            local.Piecewise(1),
            local.Hybrid(2),
            local.SquareWave(1, 0, 1, 64),
            local.Haar("0.5", 64),
            local.Marginals(1, 10, 3),
        ],
        step=3,
    ),
    ids=lambda p: p.type,
)
def test_exact_at_the_size_of_use(protocol: local.Protocol) -> None:
    """Where the outputs can be listed, the privacy of the real parameters is enumerated too (some
    inputs of many)."""
    inputs = protocol.inputs()
    assert local.check(
        protocol, inputs=[inputs[0], inputs[1], inputs[len(inputs) // 2], inputs[-1]], moments=False
    ).ok


@pytest.mark.parametrize("epsilon", ["0.001", "12", "32"])
@pytest.mark.parametrize("domain", [2, 3, 1000])
def test_extreme_budgets_have_an_oracle(epsilon: str, domain: int) -> None:
    oracle = local.choose(epsilon, domain).oracle
    found = oracle.estimate(
        oracle.tally(oracle.randomise(np.arange(50) % domain, SeededWords(1))), 50
    )
    assert np.isfinite(found.values).all() and (found.variances >= 0).all()
    assert local.LocalHash(epsilon, domain).size <= 1 << 16


def test_parts_load_when_asked_for() -> None:
    assert local.shuffle.closed_form and local.poisoning.gain and local.dashboard.render
    with pytest.raises(AttributeError):
        _ = local.nonsense


def test_sketches_are_unbiased_over_their_hash_functions() -> None:
    """All 49 seeds of the prime 7: the mean of the leakage of y into x is exactly zero."""
    family = HashFamily(4, 4, 3)
    seeds = np.array([(a, b) for a in range(7) for b in range(7)])
    places = family.hash(seeds, np.arange(4))
    for x in range(4):
        for y in range(4):
            share = Fraction(int((places[:, x] == places[:, y]).sum()), 49)
            assert share == (1 if x == y else family.collision)


@pytest.mark.parametrize(("bits", "size", "domain"), [(3, 3, 4), (3, 5, 7), (5, 4, 16)])
def test_hash_pairs_are_uniform(bits: int, size: int, domain: int) -> None:
    """The proof's lemma 3 by enumeration: (u(x), u(y)) hits every pair of residues equally
    often."""
    family = HashFamily(domain, size, bits)
    grids = np.meshgrid(*[np.arange(family.prime)] * (family.limbs + 1), indexing="ij")
    seeds = np.stack([g.ravel() for g in grids], axis=1)
    hashes = family.hash(seeds, np.arange(domain))
    for x, y in [(0, 1), (1, domain - 1), (2, 3)]:
        joint = np.zeros((size, size), np.int64)
        np.add.at(joint, (hashes[:, x], hashes[:, y]), 1)
        expected = np.outer(family.cells, family.cells) * (len(seeds) // family.prime**2)
        assert (joint == expected).all()


def test_hash_matches_plain_integers() -> None:
    family = HashFamily(1 << 45, 7)
    seeds = np.array([[2147483646, 123456789, 2147483645]])
    for x in (0, 1, 2**30 - 1, 2**30, 2**45 - 1):
        u = (2147483646 * (x % 2**30) + 123456789 * (x >> 30) + 2147483645) % (2**31 - 1)
        assert family.hash(seeds, np.array([x]))[0, 0] == u * 7 >> 31


@pytest.mark.parametrize("protocol", [local.OptimalHash(1, 1000), local.BinaryHash("0.3", 1 << 40)])
def test_local_hashing_with_the_real_prime(protocol: local.LocalHash) -> None:
    """Given any seed, the answer of any value is within the odds of that of any other; seeds cannot
    be enumerated."""
    generator = np.random.default_rng(0)
    for seed in [
        (0,) * (protocol.hashes.limbs + 1),
        *generator.integers(0, 2**31 - 1, (5, protocol.hashes.limbs + 1)),
    ]:
        values = [0, 1, 999, *(int(v) for v in generator.integers(0, protocol.domain, 20))]
        laws = [protocol.law_given(value, tuple(int(part) for part in seed)) for value in values]
        ratio = largest_ratio(laws)
        assert all(sum(law.values()) == 1 for law in laws)
        assert ratio is not None and at_most_exp(ratio, protocol.epsilon)


@pytest.mark.parametrize("epsilon", ["0.001", "0.1", "1/3", "1", "2.5", "8", "32"])
def test_odds_are_certified_and_tight(epsilon: str) -> None:
    exact = Fraction(epsilon)
    ratio = odds(exact)
    assert at_most_exp(ratio, exact)
    assert not at_most_exp(ratio * (1 + Fraction(1, 2**39)), exact)
    assert ratio > 1


def test_logarithms_are_rounded_up() -> None:
    for ratio in (Fraction(1), Fraction(3), Fraction(10**9, 7)):
        above = log_above(ratio)
        assert at_most_exp(ratio, above)
        assert ratio == 1 or not at_most_exp(ratio, above - Fraction(1, 2**38))


@pytest.mark.parametrize(
    "p", [Fraction(1, 3), Fraction(1, 2), Fraction(5, 16), odds(Fraction(1)) / 5, Fraction(0)]
)
def test_packed_bits_have_their_probability(p: Fraction, words: Words) -> None:
    count = 20_000
    ones = int(np.bitwise_count(random_words(p, count, words)).sum())
    n = 64 * count
    assert abs(ones - n * p) <= 6.2 * (n * float(p) * (1 - float(p))) ** 0.5  # two-sided 6e-10


def test_packed_bits_are_exact_for_every_stream() -> None:
    """Feed all streams of three bits to p = 3/8: exactly three of eight lanes are ones."""

    class Counting(Words):
        def __init__(self) -> None:
            self.turn = 0

        def words(self, count: int, width: int = 64) -> np.ndarray:
            self.turn += 1
            lanes = sum(1 << lane for lane in range(8) if lane >> (3 - self.turn) & 1)
            return np.full(count, lanes, np.uint64)

    (word,) = random_words(Fraction(3, 8), 1, Counting())
    assert int(word) & 0xFF == 0b00000111


def test_counting_packed_bits(words: Words) -> None:
    rows = random_rows(Fraction(1, 2), 70_000, 11, words)
    assert (
        count_ones(rows, 11) == np.unpackbits(rows, axis=1, bitorder="little")[:, :11].sum(axis=0)
    ).all()
    assert (rows[:, 1] < 8).all()
