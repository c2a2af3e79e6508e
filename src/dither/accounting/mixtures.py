"""Laws that are mixtures: which of several pairs is met is drawn, and both sides see the draw.

The moment-generating function of such a law is the mixture of those of its components, and so are
its masses on a grid (docs/proofs/training-losses.md, section 1).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dither.accounting.laws import FAR, GaussianLaw, Measure, Side
from dither.accounting.sampled import SampledGaussianFactor
from dither.accounting.transforms import UNIT, Complex, Real, log_error


@dataclass(frozen=True)
class MixtureFactor:
    """`count` copies of sampled Gaussians, each copy one of the components, by their weights."""

    weights: tuple[Fraction, ...]
    components: tuple[SampledGaussianFactor, ...]
    count: int

    def log_mgf(self, c: float, y: Real, tolerance: float) -> tuple[Complex, Real]:
        """Compute log M(c + iy) and a bound of its error: the log of the weighted sum over
        components."""
        share = tolerance / (len(self.components) * self.count)
        logs, errors = zip(
            *(component.log_mgf(c, y, share) for component in self.components), strict=True
        )
        log_weights = [math.log(weight) for weight in self.weights]
        top = max(
            float(np.max(piece.real)) + log for piece, log in zip(logs, log_weights, strict=True)
        )
        terms = [np.exp(piece + (log - top)) for piece, log in zip(logs, log_weights, strict=True)]
        total = np.sum(terms, axis=0)
        lost = np.zeros(len(y))
        for term, piece, error in zip(terms, logs, errors, strict=True):
            blur = error + 16 * UNIT * (4 + np.abs(piece) + abs(top))
            lost = lost + np.abs(term) * np.expm1(np.minimum(blur, 50.0))
        size = np.abs(total)
        lost = lost + 4 * len(terms) * UNIT * np.sum(np.abs(terms), axis=0)
        with np.errstate(divide="ignore"):
            value = np.log(np.maximum(size, 1e-300)) + top + 1j * np.angle(total)
        error = log_error(lost, size) + 4 * UNIT * np.abs(value)
        return self.count * value, self.count * error

    def decay(self, c: float, y: float) -> float:
        """Bound log |M(c+iy)| / M(c). |M(c+iy')| is at most the sum of its terms, each of which
        decays by its own bound."""
        highs = []
        lows = []
        falls = []
        for weight, component in zip(self.weights, self.components, strict=True):
            logs, error = component.log_mgf(c, np.zeros(1), 1e-12)
            level = float(logs[0].real) + math.log(weight)
            highs.append(level + float(error[0]))
            lows.append(level - float(error[0]))
            falls.append(component.decay(c, y))
        top = max(highs)
        fallen = math.fsum(
            math.exp(high + fall - top) for high, fall in zip(highs, falls, strict=True)
        )
        whole = math.fsum(math.exp(low - top) for low in lows)
        return self.count * min(0.0, math.log(fallen / whole) + 1e-12)

    def largest(self) -> float:
        return self.count * max(component.largest() for component in self.components)

    def on_grid(self) -> GridMixture:
        """Return the same law in the representation of the grid engine."""
        laws = tuple(
            GaussianLaw(component.kind, component.q, component.sigma, 1)
            for component in self.components
        )
        return GridMixture(self.weights, laws, self.count)


@dataclass(frozen=True)
class GridMixture:
    """`count` copies of a mixture of laws on the grid; `missing` is a mass that is not listed."""

    weights: tuple[Fraction, ...]
    components: tuple[GaussianLaw, ...]
    count: int
    missing: float = 0.0

    def largest(self) -> float:
        if self.missing:
            return math.inf
        return self.count * max(component.largest() for component in self.components)

    def measure(self, step: float, side: Side, edge: float = FAR) -> Measure:
        """Put the mixture on the grid: masses add.

        What is not listed is infinite above, and dropped below.
        """
        placed = [component.measure(step, side, edge) for component in self.components]
        start = min(measure.start for measure in placed)
        end = max(measure.start + len(measure.masses) for measure in placed)
        masses = np.zeros(end - start)
        infinite = self.missing if side == "upper" else 0.0
        sign = 1 if side == "upper" else -1
        for weight, measure in zip(self.weights, placed, strict=True):
            share = float(weight) * (1 + sign * 4 * UNIT)
            first = measure.start - start
            masses[first : first + len(measure.masses)] += share * measure.masses
            infinite += share * measure.infinite
        masses *= 1 + sign * len(placed) * UNIT
        shifts = [measure.shift for measure in placed]
        shift = max(shifts) if side == "upper" else min(shifts)
        return Measure(start, masses, self.count, infinite, shift)
