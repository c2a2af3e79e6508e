"""Pairwise independent hashing that a client in any language can compute, and whose collisions are
known exactly.

x is cut into limbs of 30 bits, least significant first; u = (a_1 x_1 + ... + a_L x_L + b) mod P, P
= 2**31 - 1, the a_i and b uniform below P; the hash is floor(u g / 2**31). For x != y the pair
(u(x), u(y)) is uniform on P x P values, so that two values collide with probability exactly
`collision` = sum_j (c_j / P)**2, c_j the number of u that give j (docs/proofs/local.md, lemma 3).
Tests enumerate all seeds of a small prime.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from dither.canonical import quote
from dither.errors import ParameterError
from dither.privacy.noise import Words, uniform_below

PRIME_BITS = 31
_MERSENNE_BITS = (2, 3, 5, 7, 13, 17, 19, 31)


def check_prime_bits(prime_bits: int, size: int) -> None:
    """Refuse an exponent whose power of two less one is not prime, or hashes that do not fit it."""
    if prime_bits not in _MERSENNE_BITS:
        raise ParameterError(
            f"prime_bits must be the exponent of a Mersenne prime up to 31, got "
            f"{quote(prime_bits)}: leave it at {PRIME_BITS}"
        )
    if size >= 1 << prime_bits:
        raise ParameterError(
            f"{size} hash values do not fit a prime of {prime_bits} bits: leave prime_bits at "
            f"{PRIME_BITS}"
        )


@dataclass(frozen=True)
class HashFamily:
    """Hashes of 0..domain-1 to 0..size-1; a seed is a row of `limbs` + 1 integers below the prime.

    >>> HashFamily(domain=1000, size=4).hash(np.array([[5, 7]]), np.array([2]))
    array([[0]])
    """

    domain: int
    size: int
    prime_bits: int = PRIME_BITS

    @property
    def prime(self) -> int:
        return (1 << self.prime_bits) - 1

    @property
    def limbs(self) -> int:
        return max(1, -(-(self.domain - 1).bit_length() // (self.prime_bits - 1)))

    @property
    def seed_bytes(self) -> int:
        return 4 * (self.limbs + 1)

    @cached_property
    def cells(self) -> tuple[int, ...]:
        """Count, for each hash j, the u below the prime: floor(u * size / 2**prime_bits) = j."""
        starts = [-(-(j << self.prime_bits) // self.size) for j in range(self.size + 1)]
        starts[-1] = self.prime
        return tuple(b - a for a, b in pairwise(starts))

    @cached_property
    def collision(self) -> Fraction:
        """Probability that two different values have one hash."""
        return Fraction(sum(c * c for c in self.cells), self.prime**2)

    def draw(self, count: int, source: Words) -> NDArray[np.int64]:
        """`count` uniform seeds."""
        seeds: NDArray[np.int64] = uniform_below(self.prime, (count, self.limbs + 1), source=source)
        return seeds

    def public(self, count: int, name: str) -> NDArray[np.int64]:
        """Derive `count` seeds from a public name, as everyone can.

        They are sha256("name:row:place") mod P, big-endian.
        """
        rows = [
            [
                int.from_bytes(hashlib.sha256(f"{name}:{row}:{index}".encode()).digest(), "big")
                % self.prime
                for index in range(self.limbs + 1)
            ]
            for row in range(count)
        ]
        return np.array(rows, np.int64)

    def hash(self, chosen: NDArray[np.int64], values: NDArray[np.int64]) -> NDArray[np.int64]:
        """Hash of every value (columns) under every seed (rows)."""
        return self._reduce(chosen[:, :, None], values[None, :])

    def hash_each(self, chosen: NDArray[np.int64], values: NDArray[np.int64]) -> NDArray[np.int64]:
        """Hash of value i under seed i."""
        return self._reduce(chosen, values)

    def hash_one(self, chosen: list[int], value: int) -> int:
        """Hash of one value under one seed, in plain integers: the definition."""
        step = self.prime_bits - 1
        total = chosen[-1]
        for index in range(self.limbs):
            total += chosen[index] * (value >> step * index & ((1 << step) - 1))
        return total % self.prime * self.size >> self.prime_bits

    def residues(self, chosen: NDArray[np.int64], values: NDArray[np.int64]) -> NDArray[np.int64]:
        """u of every value (columns) under every seed (rows), before it is cut to the hash.

        u is linear in the limbs: for values without common bits u(x | y) = u(x) + u(y) - b mod P.
        """
        return self._sum_limbs(chosen[:, :, None], values[None, :])

    def arcs(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """For every hash value the first residue that has it, and how many do."""
        sizes = np.array(self.cells, np.int64)
        return np.cumsum(sizes) - sizes, sizes

    def _reduce(self, chosen: NDArray[np.int64], values: NDArray[np.int64]) -> NDArray[np.int64]:
        total = self._sum_limbs(chosen, values)
        total *= np.int64(self.size)
        total >>= np.int64(self.prime_bits)
        return total

    def _sum_limbs(self, chosen: NDArray[np.int64], values: NDArray[np.int64]) -> NDArray[np.int64]:
        """Compute u = b + sum of a_i * limb_i mod P for values under seeds (a_0, ..., b).

        P is a Mersenne prime, so reducing mod P takes a shift, a mask and an addition. The
        limbs of a value are its groups of prime_bits - 1 bits.
        """
        prime = np.int64(self.prime)
        bits = np.int64(self.prime_bits)
        unit = np.int64(1)
        mask = np.int64((1 << (self.prime_bits - 1)) - 1)
        total = np.empty(np.broadcast_shapes(chosen[:, 0].shape, values.shape), np.int64)
        spare = np.empty_like(total)
        for index in range(self.limbs):
            limb = (
                (values >> np.int64((self.prime_bits - 1) * index)) & mask
                if self.limbs > 1
                else values
            )
            np.multiply(chosen[:, index], limb, out=spare if index else total)
            total += spare if index else chosen[:, self.limbs]
            # fold: congruent mod the Mersenne prime, and below twice it, so that no product
            # overflows
            np.right_shift(total, bits, out=spare)
            total &= prime
            total += spare
        np.add(
            total, unit, out=spare
        )  # t + (1 if t >= prime), cut to the prime's bits, is t mod prime
        spare >>= bits
        total += spare
        total &= prime
        return total


@lru_cache(maxsize=256)
def hash_family(domain: int, size: int, prime_bits: int) -> HashFamily:
    """The family, kept, because its cells take a while to count."""
    return HashFamily(domain, size, prime_bits)
