"""Staircase noise: the least expected error of all epsilon-private noise for one integer that moves
by up to D.

P(z) is flat on stairs: for |z| = k D + j it is proportional to e^(-k eps), times 1 for j < r and
e^-eps for j >= r (Geng, Viswanath 2014). Any r from 1 to D is private; the one chosen is the best
for E|z| among the neighbours of D / (1 + e^(eps/2)). For D = 1 it is the two-sided geometric. A
shift by 1 can cost the whole epsilon, so a vector costs epsilon for every *cell* that moves:
Pure(l0 eps). Drawn exactly: a stair by a geometric, a place by a uniform, acceptance by e^-eps.
Proof: docs/proofs/geometric.md#staircase.

>>> wide = Staircase.for_epsilon(2, Sensitivity.of(largest=100))
>>> wide.reach, wide.loss()
(27, Pure(epsilon=2, neighbours='add_remove', unit='unit'))
>>> round(wide.error().mean_size, 1)  # integer Laplace: 50
42.5
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dither.canonical import Number, exact, positive, quote
from dither.errors import ParameterError
from dither.plan.norms import Sensitivity
from dither.privacy.losses import ADD_REMOVE, Adjacency, Loss, Neighbours, Pure
from dither.privacy.mechanisms.additive import add, exact_integers
from dither.privacy.noise import Words, bernoulli_exp, geometric, uniform_below
from dither.privacy.noise.samplers import SMALLEST
from dither.privacy.noise.source import check_source
from dither.privacy.numbers import refuse_beyond_floats


@dataclass(frozen=True)
class StaircaseErrorLaw:
    """P(z) for z = +-(k D + j), with b = e^-eps.

    It is base * b^k for j < reach, and base * b^(k+1) for j >= reach.
    """

    epsilon: Fraction
    width: int
    reach: int

    @property
    def _decay(self) -> float:
        return math.exp(-float(self.epsilon))

    @property
    def base(self) -> float:
        """Compute P(0) = (1 - b) / (2 r + 2 b (D - r) - (1 - b))."""
        b = self._decay
        r = self.reach
        d = self.width
        return (1 - b) / (2 * r + 2 * b * (d - r) - (1 - b))

    def pmf(self, z: int) -> float:
        stair, offset = divmod(abs(z), self.width)
        return self.base * math.exp(-float(self.epsilon) * (stair + (offset >= self.reach)))

    def _moment(self, power: int) -> float:
        """Compute E|z|^power for power 1 or 2, summed over stairs in closed form."""
        b = self._decay
        r = self.reach
        d = self.width
        # Sums of b^k, k b^k, k^2 b^k.
        stairs = [
            1 / (1 - b),
            b / (1 - b) ** 2,
            b * (1 + b) / (1 - b) ** 3,
        ]

        def offset_sums(a: int, e: int) -> list[float]:
            """Sum 1, offset and offset^2 over the offsets a, ..., e - 1."""
            return [
                e - a,
                (e * (e - 1) - a * (a - 1)) / 2,
                ((e - 1) * e * (2 * e - 1) - (a - 1) * a * (2 * a - 1)) / 6,
            ]

        near = offset_sums(0, r)
        far = offset_sums(r, d)
        weight = [n + b * f for n, f in zip(near, far, strict=True)]
        if power == 1:
            return 2 * self.base * (d * stairs[1] * weight[0] + stairs[0] * weight[1])
        return (
            2
            * self.base
            * (
                d * d * stairs[2] * weight[0]
                + 2 * d * stairs[1] * weight[1]
                + stairs[0] * weight[2]
            )
        )

    @property
    def mean_size(self) -> float:
        """E|z|."""
        return self._moment(1)

    @property
    def variance(self) -> float:
        return self._moment(2)

    def tail(self, t: int) -> float:
        """Compute P(|z| >= t)."""
        if t <= 0:
            return 1.0
        b = self._decay
        stair, offset = divmod(t, self.width)
        rest = (self.width - max(offset, self.reach)) * b + max(0, self.reach - offset)
        later = (self.reach + b * (self.width - self.reach)) * b / (1 - b)
        return 2 * self.base * b**stair * (rest + later)

    def interval(self, confidence: Number) -> int:
        """Find the smallest w with P(|z| <= w) at least the confidence."""
        doubt = float(1 - exact(confidence, "confidence"))
        low = -1
        high = self.width
        while self.tail(high + 1) > doubt:
            high *= 2
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (
                (low, middle) if self.tail(middle + 1) <= doubt * (1 - 1e-12) else (middle, high)
            )
        return high


@dataclass(frozen=True)
class Staircase:
    """Adds independent staircase noise to every cell."""

    epsilon: Fraction
    sensitivity: Sensitivity
    reach: int
    neighbours: Neighbours = "add_remove"
    unit: str = "unit"

    def __post_init__(self) -> None:
        """Make epsilon exact, and check the sensitivity and the reach."""
        object.__setattr__(self, "epsilon", positive(self.epsilon, "epsilon"))
        if not isinstance(self.sensitivity, Sensitivity) or self.sensitivity.linf < 1:
            raise ParameterError(
                "sensitivity must be a Sensitivity whose largest move is at least 1"
            )
        if not 1 / self.epsilon >= SMALLEST or self.sensitivity.linf >= 1 << 40:
            raise ParameterError(
                "staircase noise needs epsilon up to 1000 and a sensitivity below 2**40"
            )
        inside = isinstance(self.reach, int) and 1 <= self.reach <= self.sensitivity.linf
        if isinstance(self.reach, bool) or not inside:
            raise ParameterError(
                f"reach must lie between 1 and {self.sensitivity.linf}, got {quote(self.reach)}"
            )
        self.loss()

    @classmethod
    @refuse_beyond_floats
    def for_epsilon(
        cls, epsilon: Number, sensitivity: Sensitivity, adjacency: Adjacency = ADD_REMOVE
    ) -> Staircase:
        """Make the mechanism for one price: epsilon / l0 for each cell that may move, and the best
        reach."""
        price = positive(epsilon, "epsilon") / max(1, sensitivity.l0)
        width = max(1, sensitivity.linf)
        guess = int(width / (1 + math.exp(min(700.0, float(price) / 2))))
        near = range(max(1, guess - 1), min(width, guess + 2) + 1)
        best = min(near, key=lambda reach: StaircaseErrorLaw(price, width, reach).mean_size)
        return cls(price, sensitivity, best, *adjacency)

    def loss(self) -> Loss:
        """What one release costs: epsilon for every cell that one unit moves."""
        return Pure(self.sensitivity.l0 * self.epsilon, neighbours=self.neighbours, unit=self.unit)

    def error(self) -> StaircaseErrorLaw:
        """The law of the error of each cell."""
        return StaircaseErrorLaw(self.epsilon, self.sensitivity.linf, self.reach)

    def release(self, values: Any, *, source: Words | None = None) -> NDArray[Any]:
        """Add noise to `values`: integers of the same shape."""
        cells = exact_integers(values)
        noise = _draw(
            self.epsilon, self.sensitivity.linf, self.reach, cells.size, check_source(source)
        )
        return add(cells, noise.reshape(cells.shape))


def _draw(epsilon: Fraction, width: int, reach: int, count: int, source: Words) -> NDArray[Any]:
    """Draw `count` noises by rejection: propose (stair, offset, sign).

    Offsets past `reach` are kept with chance e^-eps, minus zero never.
    """
    kept: list[NDArray[Any]] = []
    missing = count
    while missing > 0 or not kept:
        tries = missing + missing // 2 + 16
        stairs = geometric(1 / epsilon, tries, source=source)
        offsets = uniform_below(width, tries, source=source)
        minus = uniform_below(2, tries, source=source)
        fine = (offsets < reach) | bernoulli_exp(epsilon, tries, source=source)
        fine &= (minus == 0) | (stairs > 0) | (offsets > 0)
        wide = (
            stairs.astype(object)
            if stairs.dtype == object or int(stairs.max()) * width >= 1 << 62
            else stairs
        )
        kept.append(((wide * width + offsets) * (1 - 2 * minus))[fine])
        missing -= int(fine.sum())
    return np.concatenate(kept)[:count]
