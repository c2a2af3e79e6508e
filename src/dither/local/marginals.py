"""All marginals of up to `order` of d binary attributes, from the Hadamard coefficients of all
weights up to `order`.

A coefficient is the mean of (-1)**(number of set attributes in S); a marginal of the attributes A
needs those of every S inside A, *all weights included*: sum_{i <= k} C(d, i) of them, not C(d, k)
as the book prints (175 and the constant for d = 10, k = 3, against 120). A user reports one, drawn
uniformly. Payload: the coefficient's number (4 bytes), its sign (1 byte, 1 is minus). Coefficients
are numbered by weight, then lexicographically. docs/proofs/local.md, theorem 10.

>>> Marginals(1, attributes=10, order=3).coefficients
175
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import combinations
from math import comb
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dither.errors import ParameterError
from dither.local.estimate import Estimate
from dither.local.hadamard import transform
from dither.local.odds import odds, read_epsilon
from dither.local.protocol import Protocol, is_exact
from dither.local.signs import SIGN_BYTES, Sign, pack, payload, signed_sum, unpack
from dither.local.values import read_values
from dither.local.wire import Payloads
from dither.privacy.noise import Words, uniform_below
from dither.stored import stored

_MOST_COEFFICIENTS = 1 << 22


@stored(attributes="attributes", order="order")
@dataclass(frozen=True)
class Marginals(Protocol):
    """A value is an integer whose bit i is attribute i."""

    type = "marginals"
    attributes: int = 2
    order: int = 2

    def __post_init__(self) -> None:
        """Check that there are not more coefficients than a collector can keep."""
        super().__post_init__()
        object.__setattr__(self, "epsilon", read_epsilon(self.epsilon))
        if not 1 <= self.order <= self.attributes <= 40:
            raise ParameterError("need 1 <= order <= attributes <= 40")
        if sum(comb(self.attributes, i) for i in range(1, self.order + 1)) > _MOST_COEFFICIENTS:
            raise ParameterError(
                "attributes and order give more than 2**22 coefficients: choose a smaller order"
            )

    @property
    def sign(self) -> Sign:
        return Sign(odds(self.epsilon))

    @cached_property
    def masks(self) -> NDArray[np.int64]:
        """List the attribute set of every coefficient, as bits."""
        weights = range(1, self.order + 1)
        sets = (
            chosen for weight in weights for chosen in combinations(range(self.attributes), weight)
        )
        return np.array([sum(1 << i for i in chosen) for chosen in sets], np.int64)

    @property
    def coefficients(self) -> int:
        return len(self.masks)

    @property
    def payload_bytes(self) -> int:
        return SIGN_BYTES

    def derived(self) -> dict[str, Any]:
        return {"p": self.sign.p, "coefficients": self.coefficients}

    def inputs(self) -> list[int]:
        return list(range(1 << min(self.attributes, 6)))

    def permanent(
        self, values: Any, source: Words, devices: NDArray[np.int64] | None = None
    ) -> Payloads:
        """Draw one coefficient for each user, and send its randomised sign.

        The sign is - where an odd number of the coefficient's attributes (its mask) are set
        in the user's value.
        """
        held = read_values(values, 1 << self.attributes)
        entry = uniform_below(self.coefficients, len(held), source=source)
        minus = (np.bitwise_count(held & self.masks[entry]) & 1).astype(np.int64)
        return pack(entry, self.sign.flip(minus, source))

    def law(self, value: int) -> dict[bytes, Fraction]:
        """Compute the exact probability of every payload that a device holding `value` may send.

        Coefficients are equally likely; the sign of the drawn one is then randomised.
        """
        law = {}
        for entry, mask in enumerate(self.masks):
            true = (value & int(mask)).bit_count() % 2
            for minus in (0, 1):
                law[payload(entry, minus)] = self.sign.chance(minus, true) / self.coefficients
        return law

    @property
    def tally_size(self) -> int:
        return self.coefficients

    def valid(self, payloads: Payloads) -> NDArray[np.bool_]:
        entry, minus = unpack(payloads)
        return (entry < self.coefficients) & (minus < 2)

    def tally(self, payloads: Payloads) -> NDArray[np.int64]:
        return signed_sum(*unpack(payloads), self.coefficients)

    def debias(self, tally: NDArray[Any], reports: int) -> NDArray[Any]:
        scale = self.coefficients * self.sign.gain
        coefficient_sums: NDArray[Any] = tally * (scale if is_exact(tally) else float(scale))
        return coefficient_sums

    def target(self, value: int) -> NDArray[Any]:
        return np.array(
            [Fraction(1 - 2 * ((value & int(m)).bit_count() % 2)) for m in self.masks], object
        )

    def user_variance(self, value: int) -> NDArray[Any]:
        return np.array([self.coefficients * self.sign.gain**2 - 1] * self.coefficients, object)

    def estimate(self, tally: NDArray[np.int64], reports: int) -> Estimate:
        """Estimate the coefficients, as sums over users."""
        variance = reports * (self.coefficients * float(self.sign.gain) ** 2)
        spread = np.full(self.coefficients, variance)
        move = self.coefficients * float(self.sign.gain)
        return Estimate(
            self.debias(tally, reports).astype(np.float64),
            spread,
            reports,
            move,
            what="coefficient",
            variance_bounds=spread,
        )

    def marginal(self, estimate: Estimate, attributes: tuple[int, ...]) -> Estimate:
        """Compute counts of all 2**k combinations of the attributes.

        Bit j of a cell's number is attribute attributes[j]. Each cell is the mean of 2**k
        coefficients, all but the constant noisy: variance (2**k - 1) / 4**k of one.
        """
        if (
            not attributes
            or len(set(attributes)) != len(attributes)
            or len(attributes) > self.order
        ):
            raise ParameterError(f"a marginal here has 1 to {self.order} different attributes")
        coefficient_index = {int(mask): i for i, mask in enumerate(self.masks)}
        cells = 1 << len(attributes)
        row = np.empty(cells)
        row[0] = estimate.reports
        for inside in range(1, cells):
            mask = sum(1 << attributes[j] for j in range(len(attributes)) if inside >> j & 1)
            row[inside] = estimate.values[coefficient_index[mask]]
        counts = transform(row[None, :])[0] / cells
        variance = float(estimate.variances[0]) * (cells - 1) / cells**2
        spread = np.full(cells, variance)
        move = estimate.largest_move
        return Estimate(counts, spread, estimate.reports, move, variance_bounds=spread)
