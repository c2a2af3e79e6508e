"""Direct encoding (k-ary randomised response): the value itself, or one of the others.

Truth with probability R / (R + d - 1), each other value with 1 / (R + d - 1), R = odds(epsilon).
docs/proofs/local.md, theorem 1. Payload: the value, little-endian, in as few bytes as hold d - 1.

>>> Direct(1, domain=16).p > 1 / 16
True
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dither.local.coins import Chance, Coins, chance
from dither.local.support import SupportOracle
from dither.local.values import read_value, read_values
from dither.local.wire import Payloads, get_int, int_width, put_int
from dither.privacy.noise import Words, bernoulli, uniform_below
from dither.stored import stored


def respond(
    values: NDArray[np.int64], size: int, truth: Fraction, source: Words
) -> NDArray[np.int64]:
    """Each value kept with probability `truth`, else one of the size - 1 others, uniformly."""
    keep = bernoulli(truth, len(values), source=source)
    lie = uniform_below(size - 1, len(values), source=source)
    lie += lie >= values
    return np.where(keep, values, lie)


def respond_one(value: int, size: int, truth: Chance, coins: Coins) -> int:
    """`respond` for one value; draws the lie always, so that the work does not tell whether it was
    used."""
    keep = coins.coin(truth)
    lie = coins.below(size - 1)
    return (lie + (lie >= value), value)[keep]


@stored()
@dataclass(frozen=True)
class Direct(SupportOracle):
    """k-RR, also called GRR. Best of all when domain < 3 e**epsilon + 2."""

    type = "direct"

    @property
    def payload_bytes(self) -> int:
        return int_width(self.domain - 1)

    @property
    def p(self) -> Fraction:
        return self.odds / (self.odds + self.domain - 1)

    @property
    def q(self) -> Fraction:
        return 1 / (self.odds + self.domain - 1)

    def derived(self) -> dict[str, Any]:
        return {"odds": self.odds, "p": self.p}

    def permanent(
        self, values: Any, source: Words, devices: NDArray[np.int64] | None = None
    ) -> Payloads:
        answers = respond(read_values(values, self.domain), self.domain, self.p, source)
        return put_int(answers, self.payload_bytes)

    @cached_property
    def _truth(self) -> Chance:
        return chance(self.p)

    def permanent_one(self, value: Any, coins: Coins, device: int = 0) -> bytes:
        answer = respond_one(read_value(value, self.domain), self.domain, self._truth, coins)
        return answer.to_bytes(self.payload_bytes, "little")

    def law(self, value: int) -> dict[bytes, Fraction]:
        """Compute the exact probability of every payload that a device holding `value` may send.

        The value itself has probability p, every other value q.
        """
        return {
            v.to_bytes(self.payload_bytes, "little"): self.p if v == value else self.q
            for v in range(self.domain)
        }

    def valid(self, payloads: Payloads) -> NDArray[np.bool_]:
        return get_int(payloads) < self.domain

    def tally(self, payloads: Payloads) -> NDArray[np.int64]:
        return np.bincount(get_int(payloads), minlength=self.domain)
