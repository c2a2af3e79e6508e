"""Local hashing: the user draws a hash of its own, and answers by direct encoding of the hash.

p = R / (R + g - 1) for the own hash value, r = 1 / (R + g - 1) for each other one; a report (seed,
y) supports every v with hash(v) = y, so q = r + (p - r) * collision. The book prints 1 / (1 +
e**epsilon) for r, which does not sum to one; that number is q (docs/errata.md). Payload: the seed
(4 bytes for each integer), then y.

>>> OptimalHash(1, domain=1000).size, BinaryHash(1, domain=1000).size
(4, 2)
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dither.errors import ParameterError
from dither.local.coins import Chance, Coins, chance
from dither.local.direct import respond, respond_one
from dither.local.hashing import PRIME_BITS, HashFamily, check_prime_bits, hash_family
from dither.local.odds import odds
from dither.local.support import SupportOracle
from dither.local.values import read_value, read_values
from dither.local.wire import Payloads, get_int, int_width, put_int
from dither.privacy.noise import Words
from dither.stored import stored

_MOST = 1 << 16
_SUFFIX_BITS = 10
_ROWS = 128  # reports at a time: their counts fit a byte
_CELLS = 1 << 15  # hashes at a time, so that a block stays in the processor's cache


def extend_prefixes(prefixes: NDArray[np.int64], bits: int) -> NDArray[np.int64]:
    """All values that begin with the prefixes and have `bits` bits more.

    >>> extend_prefixes(np.array([2, 5]), 1).tolist()
    [4, 5, 10, 11]
    """
    suffixes = np.arange(1 << bits, dtype=np.int64)
    return ((prefixes[:, None] << bits) | suffixes[None, :]).ravel()


def best_size(epsilon: Fraction) -> int:
    """The integer g with the least variance (R - 1 + g)**2 / ((R - 1)**2 (g - 1)): near e**epsilon
    + 1.

    >>> best_size(Fraction(1))
    4
    """
    ratio = odds(epsilon)
    near = min(max(2, int(ratio) + 1), _MOST - 1)
    return min(range(max(2, near - 1), near + 2), key=lambda g: (ratio - 1 + g) ** 2 / (g - 1))


@stored(size="size", prime_bits="prime_bits")
@dataclass(frozen=True)
class LocalHash(SupportOracle):
    """Local hashing to `size` values. Short reports over huge domains; the collector pays n * d
    hashes."""

    type = "local_hash"
    largest_domain = 1 << 60
    size: int = 0
    prime_bits: int = field(default=PRIME_BITS)

    def __post_init__(self) -> None:
        """Choose the number of hash values if it is 0, and check it and the prime."""
        super().__post_init__()
        if self.size == 0:
            object.__setattr__(self, "size", best_size(self.epsilon))
        if not 2 <= self.size <= _MOST:
            raise ParameterError("size must lie between 2 and 65536")
        check_prime_bits(self.prime_bits, self.size)

    @property
    def hashes(self) -> HashFamily:
        return hash_family(self.domain, self.size, self.prime_bits)

    @property
    def payload_bytes(self) -> int:
        return self.hashes.seed_bytes + int_width(self.size - 1)

    @property
    def p(self) -> Fraction:
        return self.odds / (self.odds + self.size - 1)

    @property
    def other(self) -> Fraction:
        """Probability of each hash value but the own."""
        return (1 - self.p) / (self.size - 1)

    @property
    def q(self) -> Fraction:
        return self.other + (self.p - self.other) * self.hashes.collision

    def derived(self) -> dict[str, Any]:
        return {"odds": self.odds, "p": self.p, "q": self.q, "limbs": self.hashes.limbs}

    def permanent(
        self, values: Any, source: Words, devices: NDArray[np.int64] | None = None
    ) -> Payloads:
        """Draw a seed for each user, and answer its value's hash by direct encoding.

        A payload is the seed and the noisy hash.
        """
        held = read_values(values, self.domain)
        seeds = self.hashes.draw(len(held), source)
        answer = respond(self.hashes.hash_each(seeds, held), self.size, self.p, source)
        columns = [put_int(seeds[:, limb], 4) for limb in range(seeds.shape[1])]
        return np.hstack([*columns, put_int(answer, int_width(self.size - 1))])

    @cached_property
    def _facts(self) -> tuple[HashFamily, Chance, int]:
        return self.hashes, chance(self.p), int_width(self.size - 1)

    def permanent_one(self, value: Any, coins: Coins, device: int = 0) -> bytes:
        """Draw seed and noisy hash for one value with the same law as `permanent`."""
        held = read_value(value, self.domain)
        family, truth, width = self._facts
        chosen = [coins.below(family.prime) for _ in range(family.limbs + 1)]
        answer = respond_one(family.hash_one(chosen, held), self.size, truth, coins)
        return b"".join(number.to_bytes(4, "little") for number in chosen) + answer.to_bytes(
            width, "little"
        )

    def _seeds(self, payloads: Payloads) -> NDArray[np.int64]:
        limbs = range(self.hashes.limbs + 1)
        return np.stack([get_int(payloads[:, 4 * i : 4 * i + 4]) for i in limbs], axis=1)

    def _answers(self, payloads: Payloads) -> NDArray[np.int64]:
        return get_int(payloads[:, self.hashes.seed_bytes :])

    def valid(self, payloads: Payloads) -> NDArray[np.bool_]:
        in_range = (self._seeds(payloads) < self.hashes.prime).all(axis=1)
        is_valid: NDArray[np.bool_] = in_range & (self._answers(payloads) < self.size)
        return is_valid

    def law(self, value: int) -> dict[bytes, Fraction]:
        """Compute the exact probability of every payload that a device holding `value` may send.

        It lists all seeds, so the prime must be small. For the real one `law_given` has the law of
        one seed at a time.
        """
        if self.prime_bits > 7:
            raise ParameterError(
                "the seeds of this prime cannot be enumerated: audit with prime_bits=3 or "
                "`law_given`"
            )
        law = {}
        for seed in product(range(self.hashes.prime), repeat=self.hashes.limbs + 1):
            for payload, weight in self.law_given(value, seed).items():
                law[payload] = weight / self.hashes.prime ** len(seed)
        return law

    def law_given(self, value: int, chosen: tuple[int, ...]) -> dict[bytes, Fraction]:
        """Compute the law of the report of a user who drew `chosen`."""
        (own,) = self.hashes.hash_each(np.array([chosen], np.int64), np.array([value], np.int64))
        head = b"".join(int(number).to_bytes(4, "little") for number in chosen)
        width = int_width(self.size - 1)
        return {
            head + y.to_bytes(width, "little"): self.p if y == own else self.other
            for y in range(self.size)
        }

    def support(self, payloads: Payloads, candidates: NDArray[np.int64]) -> NDArray[np.int64]:
        """Count how many reports support each of `candidates`: all a search over a huge domain
        needs."""
        seeds = self._seeds(payloads)
        answers = self._answers(payloads)
        total = np.zeros(len(candidates), np.int64)
        step = max(1, _CELLS // max(1, len(candidates)))
        for start in range(0, len(seeds), step):
            hashes = self.hashes.hash(seeds[start : start + step], candidates)
            hits = (hashes == answers[start : start + step, None]).view(np.uint8)
            total += np.add.reduce(hits, axis=0, dtype=np.uint16)
        return total

    def support_extensions(
        self, payloads: Payloads, prefixes: NDArray[np.int64], suffix_bits: int
    ) -> NDArray[np.int64]:
        """Count the support of every extension of the prefixes by `suffix_bits` bits.

        The result is prefixes x suffixes. The residues of prefix and suffix add up, so that a
        candidate costs two additions and two comparisons of 32-bit integers.
        """
        if suffix_bits > _SUFFIX_BITS:  # so that a block stays in the processor's cache
            heads = extend_prefixes(prefixes, suffix_bits - _SUFFIX_BITS)
            counts = self.support_extensions(payloads, heads, _SUFFIX_BITS)
            return counts.reshape(len(prefixes), -1)
        seeds = self._seeds(payloads)
        first, size = (arc[self._answers(payloads)] for arc in self.hashes.arcs())
        suffixes = np.arange(1 << suffix_bits, dtype=np.int64)
        total = np.zeros((len(prefixes), len(suffixes)), np.int64)
        chunk = max(1, _CELLS // (_ROWS // 4 * len(suffixes)))
        prime = np.uint32(self.hashes.prime)
        linear = seeds.copy()
        linear[:, -1] = 0
        for start in range(0, len(seeds), _ROWS):
            block = slice(start, start + _ROWS)
            heads = self.hashes.residues(seeds[block], prefixes << suffix_bits)
            turned = ((heads - first[block, None]) % self.hashes.prime).astype(np.uint32)
            tails = self.hashes.residues(linear[block], suffixes).astype(np.uint32)
            width = size[block, None, None].astype(np.uint32)
            for number in range(0, len(prefixes), chunk):
                several = slice(number, number + chunk)
                position = turned[:, several, None] + tails[:, None, :]  # below 2 P: fits 32 bits
                inside = position < width
                position -= prime
                inside |= position < width
                total[several] += np.add.reduce(inside.view(np.uint8), axis=0, dtype=np.uint8)
        return total

    @property
    def keeps_reports(self) -> bool:
        return self.domain > 1 << 24

    @property
    def tally_size(self) -> int:
        return 0 if self.keeps_reports else self.domain

    def tally(self, payloads: Payloads) -> NDArray[np.int64]:
        """Count how many reports support each value; refuse a domain that is too large to list."""
        if self.keeps_reports:
            raise ParameterError(
                "the domain is too large to count: ask support(collector.payloads, candidates)"
            )
        return self.support(payloads, np.arange(self.tally_size, dtype=np.int64))


def BinaryHash(epsilon: Any, domain: int) -> LocalHash:
    """BLH: one bit and a seed."""
    return LocalHash(epsilon, domain, 2)


def OptimalHash(epsilon: Any, domain: int) -> LocalHash:
    """OLH: g near e**epsilon + 1, the variance of optimised unary encoding in a few bytes."""
    return LocalHash(epsilon, domain)
