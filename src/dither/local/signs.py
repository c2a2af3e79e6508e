"""One randomised sign of many: the step that marginals, Haar coefficients and sparse vectors share.

A user's data is a vector of signs (+1, -1; or 0 where nothing is held); the user draws one entry
that is public and uniform, and sends its sign, flipped with probability 1 / (R + 1). With gain c =
(R + 1) / (R - 1) and m entries the estimate m c y has mean the entry and second moment m c**2.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dither.local.wire import Payloads, get_int, put_int
from dither.privacy.noise import Words, bernoulli

SIGN_BYTES = 5


@dataclass(frozen=True)
class Sign:
    """Randomised response of a sign."""

    odds: Fraction

    @property
    def p(self) -> Fraction:
        """Probability that the true sign is sent."""
        return self.odds / (self.odds + 1)

    @property
    def gain(self) -> Fraction:
        return (self.odds + 1) / (self.odds - 1)

    def flip(self, minus: NDArray[np.int64], source: Words) -> NDArray[np.int64]:
        """Randomise sign bits (1 means minus): each is kept with probability p."""
        flipped: NDArray[np.int64] = minus ^ ~bernoulli(self.p, len(minus), source=source)
        return flipped & 1

    def chance(self, minus: int, true_minus: int) -> Fraction:
        return self.p if minus == true_minus else 1 - self.p


def pack(entry: NDArray[np.int64], minus: NDArray[np.int64]) -> Payloads:
    """(entry in 4 bytes, sign in 1)."""
    return np.hstack([put_int(entry, 4), put_int(minus, 1)])


def unpack(payloads: Payloads) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    return get_int(payloads[:, :4]), payloads[:, 4].astype(np.int64)


def payload(entry: int, minus: int) -> bytes:
    return entry.to_bytes(4, "little") + bytes([minus])


def signed_sum(entry: NDArray[np.int64], minus: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    """Sum of the signs received for each entry."""
    return np.bincount(entry[minus == 0], minlength=size) - np.bincount(
        entry[minus == 1], minlength=size
    )
