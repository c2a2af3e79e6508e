"""Hadamard response (Acharya, Sun, Zhang 2019): one index out of K, and a server that needs n + K
log K steps.

The K = blocks * b outputs form blocks; a value has the block v % blocks and the row 1 + v // blocks
of the Hadamard matrix of order b; its set C_v are the b/2 columns y of its block with H[row, y] =
+1, i.e. popcount(row & y) even. Each column of C_v has weight R, each other output weight 1. With
one block the estimate has variance n (R + 1)**2 / (R - 1)**2 - f, that of sending one random
Hadamard coefficient. docs/proofs/local.md, theorem 4. Payload: the output index, little-endian.

>>> Hadamard(1, domain=1000).blocks, Hadamard(3, domain=1000).blocks
(1, 8)
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dither.canonical import quote
from dither.errors import ParameterError
from dither.local.coins import Chance, Coins, chance
from dither.local.estimate import Estimate
from dither.local.odds import odds
from dither.local.protocol import is_exact
from dither.local.support import Oracle
from dither.local.values import read_value, read_values
from dither.local.wire import Payloads, get_int, int_width, put_int
from dither.privacy.noise import Words, bernoulli, uniform_below
from dither.stored import stored

Floats = NDArray[np.float64]


def transform(rows: NDArray[Any]) -> NDArray[Any]:
    """Compute the Walsh-Hadamard transform of every row, exactly for any dtype.

    It is out[i] = sum_j (-1)**popcount(i & j) in[j].

    >>> transform(np.array([[1, 2]]))
    array([[ 3, -1]])
    """
    result = rows.copy()
    size = rows.shape[1]
    half = 1
    while half < size:
        pairs = result.reshape(len(rows), size // (2 * half), 2, half)
        low, high = pairs[:, :, 0].copy(), pairs[:, :, 1]
        pairs[:, :, 0] += high
        pairs[:, :, 1] = low - high
        half *= 2
    return result


def sign_bits(a: NDArray[np.int64], b: NDArray[np.int64]) -> NDArray[np.int64]:
    """0 where H[a, b] is +1, 1 where it is -1."""
    bits: NDArray[np.int64] = (np.bitwise_count(a & b) & np.uint8(1)).astype(np.int64)
    return bits


def _matrix_order(domain: int, blocks: int) -> int:
    return 1 << max(1, (-(-domain // blocks)).bit_length())


def best_blocks(epsilon: Fraction, domain: int) -> int:
    """Choose the power of two of blocks with the least noise for a value that nobody holds.

    Such values are spread over the blocks evenly.
    """
    choices = [1 << k for k in range((domain - 1).bit_length())]
    return min(
        choices,
        key=lambda blocks: _noise(
            odds(epsilon), blocks, _matrix_order(domain, blocks), Fraction(1, blocks)
        ),
    )


def _noise(ratio: Fraction, blocks: int, order: int, same: Fraction) -> Fraction:
    """Variance added per user to a value not held, when the share `same` of the users is in its
    block."""
    half = Fraction(order, 2)
    total = half * ratio + blocks * order - half
    step = total / (half * (ratio - 1))
    return step**2 * half * (same * (ratio + 1) + (1 - same) * 2) / total


@stored(blocks="blocks")
@dataclass(frozen=True)
class Hadamard(Oracle):
    """Hadamard response with `blocks` blocks (0: the best for domain and epsilon)."""

    type = "hadamard"
    blocks: int = 0

    def __post_init__(self) -> None:
        """Choose the number of blocks if it is 0, and check that it is a power of two."""
        super().__post_init__()
        if self.blocks == 0:
            object.__setattr__(self, "blocks", best_blocks(self.epsilon, self.domain))
        if self.blocks < 1 or self.blocks & (self.blocks - 1) or self.blocks > self.domain:
            raise ParameterError(
                f"blocks must be a power of two no larger than the domain, got {quote(self.blocks)}"
            )

    @property
    def order(self) -> int:
        """b: the order of the Hadamard matrix, a power of two above domain / blocks."""
        return _matrix_order(self.domain, self.blocks)

    @property
    def outputs(self) -> int:
        return self.blocks * self.order

    @property
    def payload_bytes(self) -> int:
        return int_width(self.outputs - 1)

    @property
    def total(self) -> Fraction:
        """The sum of all weights."""
        half = Fraction(self.order, 2)
        return half * self.odds + self.outputs - half

    @property
    def inside(self) -> Fraction:
        """Compute the probability that the output is a column of the value's block with sign +.

        These columns are C_v of the value v.
        """
        return Fraction(self.order, 2) * self.odds / self.total

    @property
    def opposite(self) -> Fraction:
        """Compute the probability that an output outside of C_v lies in the value's block."""
        half = Fraction(self.order, 2)
        return half / (self.outputs - half)

    @property
    def step(self) -> Fraction:
        """A report of a value's block moves the value by this much, up or down."""
        return self.total / (Fraction(self.order, 2) * (self.odds - 1))

    def derived(self) -> dict[str, Any]:
        """List the numbers that a client in another language needs and can check."""
        return {
            "odds": self.odds,
            "order": self.order,
            "inside": self.inside,
            "opposite": self.opposite,
        }

    def permanent(
        self, values: Any, source: Words, devices: NDArray[np.int64] | None = None
    ) -> Payloads:
        """Draw one index (block, column) for each value, more likely where the value's sign is +.

        The outputs are `blocks` Hadamard matrices of `order` columns. A value has a block
        and a row; the columns where its row is + have `odds` times the probability of every
        other output. Draws: whether the output is such a column, else whether it stays in
        the block with sign -, else another block.
        """
        held = read_values(values, self.domain)
        block = held % self.blocks
        row = 1 + held // self.blocks
        column = uniform_below(self.order, len(held), source=source)
        inside = bernoulli(self.inside, len(held), source=source)
        stay = inside | bernoulli(self.opposite, len(held), source=source)
        # flipping the lowest set bit of the row in the column turns the sign, one to one
        wrong = sign_bits(row, column) == inside
        column ^= np.where(wrong & stay, row & -row, 0)
        if self.blocks > 1:
            away = uniform_below(self.blocks - 1, len(held), source=source)
            away += away >= block
            block = np.where(stay, block, away)
        return put_int(block * self.order + column, self.payload_bytes)

    @cached_property
    def _facts(self) -> tuple[Chance, Chance, int, int]:
        return chance(self.inside), chance(self.opposite), self.order, self.payload_bytes

    def permanent_one(self, value: Any, coins: Coins, device: int = 0) -> bytes:
        """Draw the index for one value with the same law as `permanent`, in plain integers."""
        held = read_value(value, self.domain)
        inside, opposite, order, width = self._facts
        block = held % self.blocks
        row = 1 + held // self.blocks
        # all draws are made, whatever they decide, so that the work tells nothing
        column = coins.below(order)
        hit = coins.coin(inside)
        stay = coins.coin(opposite)
        away = coins.below(max(1, self.blocks - 1))
        stay |= hit
        turned = column ^ (row & -row) if ((row & column).bit_count() % 2 == 0) != hit else column
        block, column = (block, turned) if stay else (away + (away >= block), column)
        return (block * order + column).to_bytes(width, "little")

    def law(self, value: int) -> dict[bytes, Fraction]:
        """Compute the exact probability of every payload that a device holding `value` may send.

        Outputs in the value's block where the value's row is + have `odds` times the
        probability of all others.
        """
        block = value % self.blocks
        row = 1 + value // self.blocks
        law = {}
        for output in range(self.outputs):
            hit = output // self.order == block and (row & output % self.order).bit_count() % 2 == 0
            law[output.to_bytes(self.payload_bytes, "little")] = (
                self.odds if hit else 1
            ) / self.total
        return law

    @property
    def tally_size(self) -> int:
        return self.outputs

    def valid(self, payloads: Payloads) -> NDArray[np.bool_]:
        return get_int(payloads) < self.outputs

    def tally(self, payloads: Payloads) -> NDArray[np.int64]:
        return np.bincount(get_int(payloads), minlength=self.outputs)

    def _of_values(self, table: NDArray[Any]) -> NDArray[Any]:
        """Pick the entry of every value from a blocks x order table: its (block, row)."""
        values = np.arange(self.domain)
        return table[values % self.blocks, 1 + values // self.blocks]

    def debias(self, tally: NDArray[Any], reports: int) -> NDArray[Any]:
        signed = self._of_values(transform(tally.reshape(self.blocks, self.order)))
        return signed * (self.step if is_exact(tally) else float(self.step))

    @property
    def noise_variance(self) -> Fraction:
        return _noise(self.odds, self.blocks, self.order, Fraction(1, self.blocks))

    def _second_moments(self) -> tuple[Fraction, Fraction]:
        """E[contribution**2] of a user in the value's block, and of one in another."""
        half = Fraction(self.order, 2)
        return self.step**2 * half * (
            self.odds + 1
        ) / self.total, self.step**2 * 2 * half / self.total

    def user_variance(self, value: int) -> NDArray[Any]:
        """Compute the exact variance of every count from one report of `value`.

        It is one number for the values in the block of `value` and another for those in
        other blocks.
        """
        same, other = self._second_moments()
        return np.array(
            [
                (same if v % self.blocks == value % self.blocks else other) - (v == value)
                for v in range(self.domain)
            ],
            object,
        )

    def variances(self, counts: NDArray[np.float64], reports: int) -> NDArray[np.float64]:
        block = np.arange(self.domain) % self.blocks
        inside = np.minimum(np.bincount(block, weights=counts, minlength=self.blocks), reports)
        return self._compute_variances(counts, inside, reports)

    def _compute_variances(self, counts: Floats, inside: Floats, reports: int) -> Floats:
        """Variances when `inside` users hold a value of each block."""
        same, other = (float(moment) for moment in self._second_moments())
        members = inside[np.arange(self.domain) % self.blocks]
        return np.maximum(members * same + (reports - members) * other - counts, 0.0)

    def estimate(self, tally: NDArray[np.int64], reports: int) -> Estimate:
        """Estimate all counts, with variances from the estimated number of users in each block.

        The users of a block are estimated as a whole: adding up its clipped counts would
        add up their noise.
        """
        values = self.debias(tally, reports).astype(np.float64)
        block_reports = tally.reshape(self.blocks, self.order).sum(axis=1)
        away = float(self.order / self.total)
        home = float(Fraction(self.order, 2) * (self.odds + 1) / self.total)
        inside = (
            np.full(1, float(reports))
            if self.blocks == 1
            else (block_reports - reports * away) / (home - away)
        )
        spread = self._compute_variances(
            np.clip(values, 0, reports), np.clip(inside, 0, reports), reports
        )
        return Estimate(
            values,
            spread,
            reports,
            float(self.largest_move),
            variance_bounds=self.variance_bounds(reports),
        )

    def variance_bounds(self, reports: int) -> Floats:
        """Bound the variances, whatever values the users hold.

        The worst case is that all hold a value of the block whose reports vary most.
        """
        return np.full(self.domain, reports * float(max(self._second_moments())))

    @property
    def largest_move(self) -> Fraction:
        return self.step
