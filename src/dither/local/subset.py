"""Subset selection: a set of k values, more likely one that holds the own.

A set that holds the value has weight R, any other weight 1; so the value is in the set with
probability p = k R / (k R + d - k), and any other value with q = (p (k - 1) + (1 - p) k) / (d - 1).
k = d / (e**epsilon + 1) is best (Ye and Barg 2018). docs/proofs/local.md, theorem 5. Payload: d
bits as in unary encoding, exactly k of them set.

>>> Subset(1, domain=16).size
4
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import combinations
from math import comb, isqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dither.canonical import quote
from dither.errors import ParameterError
from dither.local.bits import count_ones, random_rows, write_bit
from dither.local.coins import Chance, Coins, chance
from dither.local.odds import odds
from dither.local.support import SupportOracle
from dither.local.unary import spare_bits_clear
from dither.local.values import read_value, read_values
from dither.local.wire import Payloads
from dither.privacy.noise import Words, bernoulli, uniform_below
from dither.stored import stored

_MASKS = (1 << np.arange(8)).astype(np.uint8)
_CELLS = 1 << 25


def best_set(epsilon: Fraction, domain: int) -> int:
    """The set size with the least variance."""
    near = int(domain / (odds(epsilon) + 1))
    choices = {min(max(1, near + shift), domain - 1) for shift in (-1, 0, 1, 2)}
    return min(sorted(choices), key=lambda k: _noise(odds(epsilon), domain, k))


def _probabilities(ratio: Fraction, domain: int, k: int) -> tuple[Fraction, Fraction]:
    p = k * ratio / (k * ratio + domain - k)
    return p, (p * (k - 1) + (1 - p) * k) / (domain - 1)


def _noise(ratio: Fraction, domain: int, k: int) -> Fraction:
    p, q = _probabilities(ratio, domain, k)
    return q * (1 - q) / (p - q) ** 2


@stored(size="size")
@dataclass(frozen=True)
class Subset(SupportOracle):
    """Subset selection with sets of `size` values (0: the best)."""

    type = "subset"
    size: int = 0

    def __post_init__(self) -> None:
        """Choose the size of the reported sets if it is 0, and check it."""
        super().__post_init__()
        if self.size == 0:
            object.__setattr__(self, "size", best_set(self.epsilon, self.domain))
        if not 1 <= self.size < self.domain:
            raise ParameterError(f"size must lie between 1 and domain - 1, got {quote(self.size)}")

    @property
    def payload_bytes(self) -> int:
        return -(-self.domain // 8)

    @property
    def p(self) -> Fraction:
        return _probabilities(self.odds, self.domain, self.size)[0]

    @property
    def q(self) -> Fraction:
        return _probabilities(self.odds, self.domain, self.size)[1]

    def derived(self) -> dict[str, Any]:
        return {"odds": self.odds, "p": self.p}

    def permanent(
        self, values: Any, source: Words, devices: NDArray[np.int64] | None = None
    ) -> Payloads:
        """Draw a set for each value, a bounded number of users at a time to bound the memory."""
        held = read_values(values, self.domain)
        step = max(1, _CELLS // self.domain)
        blocks = [
            self._draw_block(held[start : start + step], source)
            for start in range(0, len(held), step)
        ]
        return np.concatenate(blocks) if blocks else np.empty((0, self.payload_bytes), np.uint8)

    def _draw_block(self, held: NDArray[np.int64], source: Words) -> Payloads:
        """Draw a random subset for each value, as packed bits.

        Independent bits of about the right number come first, then uniform ones are set or cleared
        until the number is right. Given their number, independent bits are a uniform subset; a
        uniform element more or less keeps it uniform.
        """
        spread = isqrt(self.size * (self.domain - self.size) // self.domain)
        # a little too few: a missing element is found faster than one too many (sets are small)
        share = Fraction(2 * self.size - spread, 2 * self.domain)
        rows = random_rows(share, len(held), self.domain, source)
        write_bit(rows, held, bernoulli(self.p, len(held), source=source))
        missing = self.size - np.bitwise_count(rows).sum(axis=1, dtype=np.int64)
        open_rows = np.flatnonzero(missing)
        flat = rows.reshape(-1)
        while len(open_rows):
            position = uniform_below(self.domain - 1, len(open_rows), source=source)
            position += position >= held[open_rows]
            byte = open_rows * rows.shape[1] + (position >> 3)
            mask = _MASKS.take(position & 7)
            before = flat.take(byte)
            missing_elements = missing.take(open_rows)
            hit = np.flatnonzero((before & mask != 0) == (missing_elements < 0))
            flat[byte.take(hit)] = before.take(hit) ^ mask.take(hit)
            missing_elements[hit] -= np.sign(missing_elements.take(hit))
            missing[open_rows] = missing_elements
            open_rows = open_rows.compress(missing_elements != 0)
        return rows

    @cached_property
    def _facts(self) -> tuple[Chance, Fraction]:
        return chance(self.p), Fraction(self.size, self.domain)

    def permanent_one(self, value: Any, coins: Coins, device: int = 0) -> bytes:
        """Draw the permanent answer of one device, as `_draw_block` does for many.

        It starts with independent bits; uniform others are set or cleared until their number is
        right.
        """
        held = read_value(value, self.domain)
        own, share = self._facts
        bits = coins.bits(share, self.domain) & ~(1 << held)
        missing = self.size - coins.coin(own) - bits.bit_count()
        set_bits = bits if self.size - missing == bits.bit_count() else bits | 1 << held
        while missing:
            position = coins.below(self.domain - 1)
            mask = 1 << position + (position >= held)
            if (set_bits & mask == 0) == (missing > 0):
                set_bits ^= mask
                missing += -1 if missing > 0 else 1
        return set_bits.to_bytes(self.payload_bytes, "little")

    def law(self, value: int) -> dict[bytes, Fraction]:
        """Compute the exact probability of every payload that a device holding `value` may send.

        A payload is a set of `size` values; sets that hold the value have `odds` times the
        probability of the others.
        """
        total = comb(self.domain - 1, self.size - 1) * self.odds + comb(self.domain - 1, self.size)
        law = {}
        for members in combinations(range(self.domain), self.size):
            row = np.zeros(self.domain, np.uint8)
            row[list(members)] = 1
            law[np.packbits(row, bitorder="little").tobytes()] = (
                self.odds if value in members else 1
            ) / total
        return law

    def valid(self, payloads: Payloads) -> NDArray[np.bool_]:
        sizes = np.bitwise_count(payloads).sum(axis=1, dtype=np.int64)
        is_valid: NDArray[np.bool_] = spare_bits_clear(payloads, self.domain) & (sizes == self.size)
        return is_valid

    def tally(self, payloads: Payloads) -> NDArray[np.int64]:
        return count_ones(payloads, self.domain)
