"""Unary encoding: one bit for every value of the domain, each randomised by itself.

Two users' encodings differ in two bits, so the loss is that of both together: (p (1 - q)) / (q (1 -
p)) <= e**epsilon. `SymmetricUnary` (basic RAPPOR with one step) flips every bit at epsilon/2;
`OptimisedUnary` keeps the one with probability 1/2 and turns a zero into a one with probability 1 /
(1 + R). docs/proofs/local.md, theorem 2. Payload: ceil(d / 8) bytes, bit v is bit v % 8 (least
significant first) of byte v // 8, spare bits 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dither.local.bits import count_ones, random_rows, write_bit
from dither.local.coins import Chance, Coins, chance
from dither.local.odds import odds
from dither.local.support import SupportOracle
from dither.local.values import read_value, read_values
from dither.local.wire import Payloads
from dither.privacy.noise import Words, bernoulli
from dither.stored import stored


def spare_bits_clear(payloads: Payloads, width: int) -> NDArray[np.bool_]:
    """Whether the unused bits of the last byte are zero."""
    if width % 8 == 0:
        return np.ones(len(payloads), np.bool_)
    clear: NDArray[np.bool_] = (payloads[:, -1] >> (width % 8)) == 0
    return clear


def unary_law(one_chances: list[Fraction]) -> dict[bytes, Fraction]:
    """Compute the law of a row of independent bits with the given probabilities.

    It maps packed bits to their probability.
    """
    law = {}
    for bits in product((0, 1), repeat=len(one_chances)):
        weight = Fraction(1)
        for bit, one_chance in zip(bits, one_chances, strict=True):
            weight *= one_chance if bit else 1 - one_chance
        law[np.packbits(np.array(bits, np.uint8), bitorder="little").tobytes()] = weight
    return law


@stored()
@dataclass(frozen=True)
class _Unary(SupportOracle):
    @property
    def payload_bytes(self) -> int:
        return -(-self.domain // 8)

    def derived(self) -> dict[str, Any]:
        return {"p": self.p, "q": self.q}

    def permanent(
        self, values: Any, source: Words, devices: NDArray[np.int64] | None = None
    ) -> Payloads:
        """Draw a 1 with probability p at the value's bit and with probability q at all others."""
        held = read_values(values, self.domain)
        rows = random_rows(self.q, len(held), self.domain, source)
        write_bit(rows, held, bernoulli(self.p, len(held), source=source))
        return rows

    @cached_property
    def _bits(self) -> tuple[Chance, Fraction]:
        return chance(self.p), self.q

    def permanent_one(self, value: Any, coins: Coins, device: int = 0) -> bytes:
        held = 1 << read_value(value, self.domain)
        own, other = self._bits
        bits = coins.bits(other, self.domain) & ~held
        return (bits | held if coins.coin(own) else bits).to_bytes(self.payload_bytes, "little")

    def law(self, value: int) -> dict[bytes, Fraction]:
        """Compute the exact probability of every payload that a device holding `value` may send.

        Every bit is independent: 1 with probability p at the value, with probability q
        elsewhere.
        """
        return unary_law([self.p if v == value else self.q for v in range(self.domain)])

    def valid(self, payloads: Payloads) -> NDArray[np.bool_]:
        return spare_bits_clear(payloads, self.domain)

    def tally(self, payloads: Payloads) -> NDArray[np.int64]:
        return count_ones(payloads, self.domain)


@stored()
@dataclass(frozen=True)
class SymmetricUnary(_Unary):
    """SUE: every bit by binary randomised response at epsilon/2."""

    type = "symmetric_unary"

    @property
    def p(self) -> Fraction:
        half = odds(self.epsilon / 2)
        return half / (half + 1)

    @property
    def q(self) -> Fraction:
        return 1 - self.p


@stored()
@dataclass(frozen=True)
class OptimisedUnary(_Unary):
    """OUE: the least noise of all unary encodings, 4 R / (R - 1)**2 per user."""

    type = "optimised_unary"

    @property
    def p(self) -> Fraction:
        return Fraction(1, 2)

    @property
    def q(self) -> Fraction:
        return 1 / (self.odds + 1)
