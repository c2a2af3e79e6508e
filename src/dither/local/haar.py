"""Range counts and quantiles by Haar wavelets: left minus right for every inner node of a binary
tree.

Each user draws a level and sends one randomised Hadamard coefficient of its signed node there (plus
for the left half, minus for the right). A range needs the coefficients of two paths only. Cormode,
Kulkarni, Srivastava 2019; docs/proofs/local.md, theorem 11. Payload: the level (1 byte; the root is
1), the Hadamard coordinate (4 bytes), the sign (1 byte; 1 is minus).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dither.errors import ParameterError
from dither.local.estimate import Estimate
from dither.local.hadamard import sign_bits, transform
from dither.local.linear import Contributions
from dither.local.odds import odds
from dither.local.ordered import Ordered
from dither.local.protocol import is_exact
from dither.local.signs import SIGN_BYTES, Sign, pack, payload, signed_sum, unpack
from dither.local.support import Oracle
from dither.local.values import read_values
from dither.local.wire import Payloads
from dither.privacy.noise import Words, uniform_below
from dither.stored import stored

Floats = NDArray[np.float64]


@stored()
@dataclass(frozen=True)
class Haar(Oracle):
    """Haar wavelet coefficients of a domain of 2**levels values."""

    type = "haar"

    def __post_init__(self) -> None:
        """Check that the domain is a power of two, so that its tree is complete."""
        super().__post_init__()
        if self.domain & (self.domain - 1):
            raise ParameterError(
                "domain must be a power of two (pad the domain: unused values cost nothing)"
            )

    @property
    def levels(self) -> int:
        return self.domain.bit_length() - 1

    @property
    def sign(self) -> Sign:
        return Sign(odds(self.epsilon))

    @property
    def payload_bytes(self) -> int:
        return 1 + SIGN_BYTES

    def derived(self) -> dict[str, Any]:
        return {"p": self.sign.p, "levels": self.levels}

    def _locate_node(self, values: Any, level: Any) -> tuple[Any, Any]:
        """Return (node among the 2**(level-1) of a level, 1 if the value is in its right half).

        The root is level 1.
        """
        shift = self.levels - level
        return values >> (shift + 1), (values >> shift) & 1

    def permanent(
        self, values: Any, source: Words, devices: NDArray[np.int64] | None = None
    ) -> Payloads:
        """Draw a level of the tree for each value, and send one noisy Hadamard sign of it.

        The value's node at that level, with the sign of its half (left +, right -), is a
        vector with one entry. One coordinate of its Hadamard transform is drawn, and its
        sign is flipped at random.
        """
        held = read_values(values, self.domain)
        level = 1 + uniform_below(self.levels, len(held), source=source)
        node, right = self._locate_node(held, level)
        coordinate = uniform_below(1 << 32, len(held), source=source) & ((1 << (level - 1)) - 1)
        minus = sign_bits(coordinate, node) ^ right
        return np.hstack(
            [level.astype(np.uint8)[:, None], pack(coordinate, self.sign.flip(minus, source))]
        )

    def law(self, value: int) -> dict[bytes, Fraction]:
        """Compute the exact probability of every payload that a device holding `value` may send.

        Levels are equally likely, and so are the coordinates of a level; the sign is then
        randomised.
        """
        law = {}
        for level in range(1, self.levels + 1):
            node, right = self._locate_node(value, level)
            size = 1 << (level - 1)
            for coordinate in range(size):
                true = ((coordinate & node).bit_count() + right) % 2
                for minus in (0, 1):
                    chance = self.sign.chance(minus, true) / (self.levels * size)
                    law[bytes([level]) + payload(coordinate, minus)] = chance
        return law

    def valid(self, payloads: Payloads) -> NDArray[np.bool_]:
        """Mark the payloads with an existing level, a coordinate of that level, and a sign bit."""
        level = payloads[:, 0].astype(np.int64)
        coordinate, minus = unpack(payloads[:, 1:])
        within = (level >= 1) & (level <= self.levels)
        is_valid: NDArray[np.bool_] = (
            within & (coordinate < 1 << np.maximum(level - 1, 0)) & (minus < 2)
        )
        return is_valid

    @property
    def tally_size(self) -> int:
        return self.domain - 1

    def tally(self, payloads: Payloads) -> NDArray[np.int64]:
        level = payloads[:, 0].astype(np.int64)
        coordinate, minus = unpack(payloads[:, 1:])
        return signed_sum((1 << (level - 1)) - 1 + coordinate, minus, self.domain - 1)

    def debias(self, tally: NDArray[Any], reports: int) -> NDArray[Any]:
        """Estimate left minus right of every inner node, the root first."""
        scale = self.levels * self.sign.gain
        factor = scale if is_exact(tally) else float(scale)
        rows = [transform(tally[None, (1 << k) - 1 : (2 << k) - 1])[0] for k in range(self.levels)]
        differences: NDArray[Any] = np.concatenate(rows) * factor
        return differences

    def target(self, value: int) -> NDArray[Any]:
        """Compute what one report estimates.

        It is +1 or -1 (left or right half) at the node of every level that holds the value,
        else 0.
        """
        target = np.array([Fraction(0)] * (self.domain - 1), object)
        for level in range(1, self.levels + 1):
            node, right = self._locate_node(value, level)
            target[(1 << (level - 1)) - 1 + node] = Fraction(1 - 2 * right)
        return target

    def user_variance(self, value: int) -> NDArray[Any]:
        mean = self.target(value)
        variances: NDArray[Any] = self.levels * self.sign.gain**2 - mean * mean
        return variances

    def ordered(self, tally: NDArray[np.int64], reports: int) -> Ordered:
        """Compute the leaf counts: from the root downwards, half of (parent + difference)."""
        detail = self.debias(tally, reports)
        row = np.array([float(reports)])
        for k in range(self.levels):
            gap = detail[(1 << k) - 1 : (2 << k) - 1]
            row = np.stack([(row + gap) / 2, (row - gap) / 2], axis=1).ravel()
        return Ordered(row, reports, self.contribute)

    def _coefficient_weights(self, weights: Floats) -> list[Floats]:
        """Compute the weights of the coefficients in weighted sums of the leaves, the lowest level
        first."""
        rows = []
        means = weights
        while means.shape[1] > 1:
            pairs = means.reshape(len(weights), -1, 2)
            rows.append((pairs[:, :, 0] - pairs[:, :, 1]) / 2)
            means = pairs.mean(axis=2)
        return rows

    def contribute(self, weights: Floats) -> tuple[Contributions, Floats]:
        """Compute one report's contributions to weighted sums of the leaves, and their means.

        `weights` has a row for each sum. A report names one coordinate of one level, so the second
        moment is the same for all users.
        """
        gain = float(self.sign.gain)
        moments = np.zeros(len(weights))
        largest = np.zeros(len(weights))
        for row in self._coefficient_weights(weights):
            moments += self.levels * gain**2 * (row**2).sum(axis=1)
            largest = np.maximum(largest, self.levels * gain * np.abs(transform(row)).max(axis=1))
        every_user = np.repeat(moments[:, None], self.domain, axis=1)
        return Contributions(every_user, largest), weights - weights.mean(axis=1, keepdims=True)

    @property
    def noise_variance(self) -> Fraction:
        """Compute the variance that one user adds to a leaf that it does not hold.

        It is the sum over the levels of levels * gain**2 / 4**i.
        """
        return (
            self.levels
            * self.sign.gain**2
            * sum((Fraction(1, 4**i) for i in range(1, self.levels + 1)), Fraction(0))
        )

    def variances(self, counts: Floats, reports: int) -> Floats:
        return np.full(self.domain, reports * float(self.noise_variance))

    def range_variance(self, start: int, end: int, reports: int) -> float:
        """Variance of a range from its coefficients' weights (users who hold nothing there)."""
        weights = np.zeros((1, self.domain))
        weights[0, start:end] = 1.0
        contributions, _ = self.contribute(weights)
        return reports * float(contributions.second_moments[0, 0])

    @property
    def largest_move(self) -> Fraction:
        return self.levels * self.sign.gain

    def estimate(self, tally: NDArray[np.int64], reports: int) -> Estimate:
        counts = self.ordered(tally, reports).counts
        variances = self.variances(counts, reports)
        move = float(self.largest_move)
        return Estimate(counts, variances, reports, move, variance_bounds=variances)
