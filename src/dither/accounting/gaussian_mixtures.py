"""Mixtures of Gaussians whose draw is hidden, on the grid: Choquette-Choo and others 2024.

With the unit the outcome is N(c_i, sigma^2) with probability p_i, without it N(0, sigma^2). All
shifts are at least zero, so the likelihood ratio grows with the outcome and cells of losses are
cells of outcomes (docs/proofs/training-losses.md, section 2).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from scipy.special import ndtr

from dither.accounting.laws import (
    FAR,
    MOST_POINTS,
    Measure,
    Side,
    gaussian_mass,
    place_cells,
)
from dither.accounting.transforms import Real
from dither.accounting.trapezoid import OutOfReach


@dataclass(frozen=True)
class GaussianMixtureLaw:
    """sum p_i N(c_i, sigma^2) against N(0, sigma^2), or its reverse; the draw of i is hidden.

    All shifts c_i are at least zero, so the loss grows with the outcome y.
    """

    kind: str
    sigma: Fraction
    pairs: tuple[tuple[Fraction, Fraction], ...]
    count: int

    def largest(self) -> float:
        """In reverse at most -log of the probability of no shift."""
        shift, probability = self.pairs[0]
        if self.kind == "remove" or shift > 0:
            return math.inf
        return -self.count * math.log(probability) * (1 + 1e-14)

    def _loss(self, y: Real) -> Real:
        """Compute the loss of each outcome y: the log of the mixture's density over that of no
        shift."""
        variance = float(self.sigma) ** 2
        terms = [
            math.log(probability) + (2 * float(shift) * y - float(shift) ** 2) / (2 * variance)
            for shift, probability in self.pairs
        ]
        return np.asarray(np.logaddexp.reduce(terms, axis=0))

    def _invert_loss(self, losses: Real, low: float, high: float) -> Real:
        """Find by bisection the outcomes at which the loss takes given values.

        Where it takes none, the end of the range is returned.
        """
        left = np.full(len(losses), low)
        right = np.full(len(losses), high)
        for _ in range(64):
            middle = (left + right) / 2
            is_below = self._loss(middle) < losses
            left = np.where(is_below, middle, left)
            right = np.where(is_below, right, middle)
        return np.asarray((left + right) / 2)

    def measure(self, step: float, side: Side, edge: float = FAR) -> Measure:
        """Put the law on a grid, in cells between the outcomes at which the loss crosses it.

        `side` says whether the result lies above or below the truth.
        """
        sigma = float(self.sigma)
        top = float(self.pairs[-1][0])
        low = -edge * sigma
        high = top + edge * sigma
        sign = 1 if self.kind == "remove" else -1
        ends = sorted(sign * float(value) for value in self._loss(np.array([low, high])))
        first = math.floor(ends[0] / step)
        last = math.ceil(ends[1] / step)
        if last - first > MOST_POINTS:
            raise OutOfReach
        losses = np.arange(first, last + 1, dtype=np.float64) * step
        outcomes = self._invert_loss(sign * losses, low - 1.0, high + 1.0)
        inside = (outcomes > low - 0.5) & (outcomes < high + 0.5)
        misses = np.abs(sign * self._loss(outcomes) - losses)[inside]
        scale = 8 + float(np.max(np.abs(losses))) + (top / sigma) ** 2
        shift = float(np.max(misses, initial=0.0)) + 1e-14 * scale * len(self.pairs)
        bounds = np.sort(outcomes)
        middle = (bounds[1:] + bounds[:-1]) / 2
        width = np.diff(bounds) / sigma
        centre = gaussian_mass(middle / sigma, width)
        mixed = np.zeros_like(centre)
        for offset, probability in self.pairs:
            mixed += float(probability) * gaussian_mass((middle - float(offset)) / sigma, width)
        relative = 1e-14 * (1 + (np.abs(middle) + top) ** 2 / sigma**2 / 50 + len(self.pairs))
        if self.kind == "remove":
            p, q = mixed, centre
        else:
            p, q, relative = centre[::-1], mixed[::-1], relative[::-1]
        p_side = p * (1 + relative) if side == "upper" else p * (1 - relative)
        placed = place_cells(first, p_side, p, q, relative, step, side, self.count, shift)
        beyond = 4 * float(ndtr(-edge)) if side == "upper" else 0.0
        return replace(placed, infinite=beyond)
