"""dBitFlip (Ding, Kulkarni, Yekhanin 2017; Windows telemetry): a histogram from a few buckets of
each device.

For each new answer the device draws `sampled` of the `domain` buckets (the paper: once for life)
and sends for each one bit, "my value is here", told truthfully with probability p = R' / (R' + 1),
R' = odds(epsilon / 2): two values differ in at most two bits. Counts are scaled by domain /
sampled. docs/proofs/local.md, theorem 2. Payload: `sampled` times (bucket, W(domain - 1) bytes; the
bit, 1 byte), buckets increasing.

>>> BitFlip(1, domain=32, sampled=4).payload_bytes
8
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations, product
from math import comb
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dither.errors import ParameterError
from dither.local.odds import odds
from dither.local.protocol import is_exact
from dither.local.support import Oracle
from dither.local.values import read_values
from dither.local.vector import sample_coordinates
from dither.local.wire import Payloads, get_int, int_width, put_int
from dither.privacy.noise import Words, bernoulli
from dither.stored import stored


@stored(sampled="sampled")
@dataclass(frozen=True)
class BitFlip(Oracle):
    """`sampled` bits of a histogram of `domain` buckets."""

    type = "bit_flip"
    sampled: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1 <= self.sampled <= self.domain:
            raise ParameterError("sampled must lie between 1 and the domain")

    @property
    def p(self) -> Fraction:
        """Probability that a bit is told truthfully."""
        half = odds(self.epsilon / 2)
        return half / (half + 1)

    @property
    def scale(self) -> Fraction:
        return Fraction(self.domain, self.sampled)

    @property
    def payload_bytes(self) -> int:
        return self.sampled * (int_width(self.domain - 1) + 1)

    def derived(self) -> dict[str, Any]:
        return {"p": self.p}

    def permanent(
        self, values: Any, source: Words, devices: NDArray[np.int64] | None = None
    ) -> Payloads:
        """Draw `sampled` buckets for each value and write a noisy bit for each bucket.

        The bit says whether the value lies in the bucket; it is true with probability p,
        else flipped.
        """
        held = read_values(values, self.domain)
        buckets = sample_coordinates(len(held), self.domain, self.sampled, source)
        answers = (buckets == held[:, None]) ^ ~bernoulli(self.p, buckets.shape, source=source)
        width = int_width(self.domain - 1)
        columns = []
        for bucket, bit in zip(buckets.T, answers.T, strict=True):
            columns += [put_int(bucket, width), put_int(bit, 1)]
        return np.hstack(columns)

    def law(self, value: int) -> dict[bytes, Fraction]:
        """Compute the exact probability of every payload that a device holding `value` may send.

        A payload is a set of `sampled` buckets, all sets equally likely, with one bit for
        each bucket. Each bit is truthful with probability p, independently.
        """
        width = int_width(self.domain - 1)
        law = {}
        for buckets in combinations(range(self.domain), self.sampled):
            for bits in product((0, 1), repeat=self.sampled):
                payload = b""
                probability = Fraction(1, comb(self.domain, self.sampled))
                for bucket, bit in zip(buckets, bits, strict=True):
                    is_truthful = bit == (bucket == value)
                    probability *= self.p if is_truthful else 1 - self.p
                    payload += bucket.to_bytes(width, "little") + bytes([bit])
                law[payload] = probability
        return law

    def _pairs(self, payloads: Payloads) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """Split payloads into pairs (bucket numbers, bits), one pair for each sampled position."""
        width = int_width(self.domain - 1)
        starts = range(0, self.payload_bytes, width + 1)
        return [
            (get_int(payloads[:, s : s + width]), payloads[:, s + width].astype(np.int64))
            for s in starts
        ]

    def valid(self, payloads: Payloads) -> NDArray[np.bool_]:
        """Mark the payloads whose buckets increase within the domain and whose bits are 0 or 1."""
        good = np.ones(len(payloads), np.bool_)
        last = np.full(len(payloads), -1)
        for bucket, bit in self._pairs(payloads):
            good &= (bucket > last) & (bucket < self.domain) & (bit < 2)
            last = bucket
        return good

    @property
    def tally_size(self) -> int:
        return 2 * self.domain

    def tally(self, payloads: Payloads) -> NDArray[np.int64]:
        """Count the ones of every bucket, then the answers of every bucket."""
        counts = np.zeros((2, self.domain), np.int64)
        for bucket, bit in self._pairs(payloads):
            counts[0] += np.bincount(bucket[bit == 1], minlength=self.domain)
            counts[1] += np.bincount(bucket, minlength=self.domain)
        return counts.ravel()

    def debias(self, tally: NDArray[Any], reports: int) -> NDArray[Any]:
        one_counts, answers = tally.reshape(2, self.domain)
        p, scale = (self.p, self.scale) if is_exact(tally) else (float(self.p), float(self.scale))
        counts: NDArray[Any] = (one_counts - answers * (1 - p)) * (scale / (2 * p - 1))
        return counts

    @property
    def noise_variance(self) -> Fraction:
        return self.scale * self.p * (1 - self.p) / (2 * self.p - 1) ** 2

    def user_variance(self, value: int) -> NDArray[Any]:
        """Compute the variance that one user's report adds to each count; `value` is what it
        holds."""
        own_variance = self.noise_variance + self.scale - 1
        return np.array(
            [own_variance if v == value else self.noise_variance for v in range(self.domain)],
            object,
        )

    def variances(self, counts: NDArray[np.float64], reports: int) -> NDArray[np.float64]:
        variances: NDArray[np.float64] = reports * float(self.noise_variance) + counts * float(
            self.scale - 1
        )
        return variances

    @property
    def largest_move(self) -> Fraction:
        return self.scale * self.p / (2 * self.p - 1)
