"""The grid engine: measures on a common grid composed by tilted FFT, roundoff and wrap-around
bounded and added.

Every measure is multiplied by e^{c loss} and normalised before the transform, so that the roundoff
of the FFT is small relative to the delta that is asked for, whatever its size. Independent of the
contour engine: it shares neither the representation of the losses nor the inversion.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dither.accounting.bounded_range import BoundedRangeFactor
from dither.accounting.bounds import Bounds
from dither.accounting.gaussian_mixtures import GaussianMixtureLaw
from dither.accounting.laws import (
    FAR,
    MOST_POINTS,
    GaussianLaw,
    LaplaceLaw,
    Measure,
    Side,
    atoms_measure,
)
from dither.accounting.mixtures import GridMixture
from dither.accounting.sampled import OutOfReach
from dither.accounting.transforms import UNIT, AtomsFactor, Real

GridLaw = (
    GaussianLaw | LaplaceLaw | AtomsFactor | BoundedRangeFactor | GridMixture | GaussianMixtureLaw
)
_FFT = 10 * UNIT
"""(A2) relative 2-norm error of an FFT of n points: at most _FFT * log2 n (Higham 2002, theorem
24.2)."""


def _cumulant(measures: Sequence[Measure], step: float, c: float) -> float:
    """Compute the log of the total mass, tilted by e^(c loss), of all measures together."""
    total = 0.0
    for measure in measures:
        z = (measure.start + np.arange(len(measure.masses))) * step
        positive = measure.masses > 0
        exponent = np.log(measure.masses[positive]) + c * z[positive]
        top = float(np.max(exponent))
        total += measure.count * (top + math.log(float(np.sum(np.exp(exponent - top)))))
    return total


@dataclass(frozen=True)
class LossGrid:
    """A composition on one side of the truth, tilted by c: good for epsilons near the one it was
    built for."""

    c: float
    level: float
    losses: Real
    tilted: Real
    noise: float
    stray_top: float
    stray_tilted: float
    infinite: float
    shift: float
    side: Side

    def delta(self, epsilon: float) -> float:
        """Compute an upper (or lower) bound of delta at epsilon."""
        epsilon = epsilon - self.shift
        above = self.losses > epsilon
        gap = self.losses[above] - epsilon
        weight = np.exp(-self.c * gap) * -np.expm1(-gap)
        exponent = self.level - self.c * epsilon
        if exponent > 690:
            return 1.0 if self.side == "upper" else 0.0
        scale = math.exp(exponent)
        blur = 1e-12 + 8 * UNIT * (abs(self.level) + abs(self.c * epsilon))
        total = float(np.sum(self.tilted[above] * weight))
        roundoff = (self.noise + 4 * UNIT * math.log2(len(self.losses) + 2)) * float(np.sum(weight))
        if self.side == "upper":
            finite = scale * (total + roundoff) * (1 + blur) + self.stray_top
            return min(1.0, finite + self.infinite)
        # wrapped mass may have landed above epsilon: give all of it back
        finite = scale * (total - roundoff - self.stray_tilted) * (1 - blur) - self.stray_top
        return max(0.0, finite)


def _compose_measures(
    measures: Sequence[Measure], step: float, c: float, log_delta: float, side: Side
) -> LossGrid:
    level = _cumulant(measures, step, c)
    goal = log_delta - 34.0
    # Chernoff bounds on the mass above the window (plain and tilted) and on the tilted mass below
    # it
    above = [
        (other, _cumulant(measures, step, other))
        for other in (1.02 * c, 1.1 * c, 1.3 * c, 2 * c, 4 * c)
    ]
    plain_top = min((value - goal) / other for other, value in above)
    tilted_top = min((value - level + 38.0) / (other - c) for other, value in above)
    below = [
        (other, _cumulant(measures, step, other)) for other in (0.95 * c, 0.7 * c, 0.0, -c, -4 * c)
    ]
    bottom = max((level - value - 38.0) / (c - other) for other, value in below)
    least = sum(measure.count * measure.start for measure in measures)
    most = sum(measure.count * (measure.start + len(measure.masses) - 1) for measure in measures)
    first = max(least, math.floor(bottom / step))
    last = min(most, math.ceil(max(plain_top, tilted_top) / step))
    wrapped_low = first > least
    wrapped_high = last < most
    size = 1 << max(
        4, math.ceil(math.log2(max(last - first + 1, max(len(m.masses) for m in measures)) + 1))
    )
    if size > MOST_POINTS:
        raise OutOfReach
    product = np.ones(size // 2 + 1, complex)
    slack = np.zeros(size // 2 + 1)
    cap = np.zeros(size // 2 + 1)
    for measure in measures:
        transform, error = _transform_measure(measure, step, c, size)
        modulus = np.abs(transform)
        product = product * transform**measure.count
        slack = slack + measure.count * (np.log1p(error / np.maximum(modulus, 1e-300)) + 16 * UNIT)
        cap = cap + measure.count * np.log(modulus + error)
    magnitude = np.abs(product)
    spread = np.minimum(magnitude * np.expm1(np.minimum(slack, 60.0)), 2.0)
    # where the product has vanished, |F| + error raised to the count still bounds the truth
    spread = np.where(magnitude < 1e-290, np.exp(np.minimum(cap, 0.0)), spread)
    noise = (2 * float(np.sum(spread))) / size + _FFT * math.log2(size) * float(
        np.linalg.norm(magnitude)
    ) * math.sqrt(2) / math.sqrt(size)
    tilted = np.roll(np.fft.irfft(product, size), -((first - least) % size))
    tilted = np.maximum(tilted, 0.0)
    offset = sum((measure.count * measure.offset for measure in measures), Fraction(0))
    losses = (first + np.arange(size, dtype=np.float64)) * step + float(offset)
    keep = np.arange(size) <= max(last - first, 0)
    if not wrapped_low and not wrapped_high:
        tilted = tilted[keep]
        losses = losses[keep]
    infinite = sum(measure.count * measure.infinite for measure in measures)
    shift = sum(measure.count * measure.shift for measure in measures)
    rounding = 1e-12 * (1 + abs(float(offset))) + UNIT * 8 * float(np.max(np.abs(losses)))
    return LossGrid(
        c,
        level + c * float(offset),
        losses,
        tilted,
        noise,
        math.exp(goal + 0.1) if wrapped_high else 0.0,
        math.exp(-37.9) * (wrapped_low + wrapped_high),
        infinite,
        shift + (rounding if side == "upper" else -rounding),
        side,
    )


def _take_single(measure: Measure) -> Measure:
    return Measure(measure.start, measure.masses, 1)


def _transform_measure(
    measure: Measure, step: float, c: float, size: int
) -> tuple[NDArray[np.complex128], float]:
    """Compute the FFT of one tilted, normalised copy, and bound the error of every coefficient."""
    z = (measure.start + np.arange(len(measure.masses))) * step
    logs = np.where(measure.masses > 0, np.log(np.maximum(measure.masses, 1e-320)) + c * z, -1e6)
    level = _cumulant([_take_single(measure)], step, c)
    weights = np.exp(logs - level)
    padded = np.zeros(size)
    padded[: len(weights)] = weights
    # the exponent's roundoff, entry by entry: at most 4 UNIT times the moduli of its parts
    exponent = float(np.sum(weights * (np.abs(logs) + 2 * np.abs(c * z) + abs(level) + 8)))
    error = (
        _FFT * math.log2(size) * math.sqrt(size) * float(np.linalg.norm(weights))
        + 4 * UNIT * exponent
    )
    return np.fft.rfft(padded), error


def measures(
    laws: Sequence[GridLaw], step: Fraction, side: Side, edge: float = FAR
) -> list[Measure]:
    """Put each law on the grid, above or below the truth."""
    placed = []
    for law in laws:
        if isinstance(law, AtomsFactor):
            placed.append(atoms_measure(law, step, side))
        else:
            placed.append(law.measure(float(step), side, edge))
    return placed


def exact_step(laws: Sequence[GridLaw]) -> Fraction | None:
    """Find the common lattice of the laws; None where there is none, or it is too fine."""
    step = Fraction(0)
    span = Fraction(0)
    for law in laws:
        if not isinstance(law, AtomsFactor) or law.lattice is None:
            return None
        _, spacing, indices = law.lattice
        step = Fraction(
            math.gcd(step.numerator * spacing.denominator, spacing.numerator * step.denominator),
            step.denominator * spacing.denominator,
        )
        span = max(span, spacing * (max(indices) - min(indices)))
    return step if step and span / step < 2**16 else None


def gaussian_edge(laws: Sequence[GridLaw], log_delta: float) -> float:
    """So many standard deviations that what lies beyond, over all copies, is below 1e-12 of
    delta."""
    return math.sqrt(2 * (28.0 - log_delta + math.log(sum(law.count for law in laws))))


_NEAR = 13.0


class GridPair:
    """Both sides of a composition on the grid, tilted for one target."""

    def __init__(
        self,
        laws: Sequence[GridLaw],
        step: Fraction,
        log_delta: float | None,
        epsilon: float | None,
        below: Sequence[GridLaw] | None = None,
    ) -> None:
        size = float(step)
        steepest = max(1.0, (40.0 if exact_step(laws) == step else 0.2) / size)
        # a narrow cut first; a wide one only where delta turns out to be so small that the cut
        # would show
        edge = _NEAR if log_delta is None else min(FAR, gaussian_edge(laws, log_delta))
        upper = measures(laws, step, "upper", edge)
        c = _find_tilt(upper, size, log_delta, epsilon, steepest)
        if log_delta is None:
            assert epsilon is not None
            log_delta = max(
                -700.0, _cumulant(upper, size, c) - c * epsilon - 2 * math.log1p(c) - 4.0
            )
            if gaussian_edge(laws, log_delta) > _NEAR:
                edge = min(FAR, gaussian_edge(laws, log_delta))
                upper = measures(laws, step, "upper", edge)
                c = _find_tilt(upper, size, None, epsilon, steepest)
        lower = measures(below or laws, step, "lower", edge)
        self.upper = _compose_measures(upper, size, c, log_delta, "upper")
        self.lower = _compose_measures(lower, size, c, log_delta, "lower")
        self.c = c

    def delta(self, epsilon: float) -> Bounds:
        """A bracket of delta at epsilon."""
        high = self.upper.delta(epsilon)
        return Bounds(min(self.lower.delta(epsilon), high), high)


def _find_tilt(
    measures: Sequence[Measure],
    step: float,
    log_delta: float | None,
    epsilon: float | None,
    steepest: float,
) -> float:
    """Find the tilt c of the saddle point, for a delta or an epsilon, by bisection.

    Any tilt is sound; this one loses few digits.
    """

    def away(c: float) -> float:
        level = _cumulant(measures, step, c)
        more = _cumulant(measures, step, c * 1.001)
        less = _cumulant(measures, step, c * 0.999)
        slope = (more - less) / (0.002 * c)
        curve = max((more - 2 * level + less) / (0.001 * c) ** 2, 1e-12)
        saddle_epsilon = slope - 1 / c - 1 / (c + 1)
        if epsilon is not None:
            return saddle_epsilon - epsilon
        assert log_delta is not None
        spread = curve + 1 / c**2 + 1 / (c + 1) ** 2
        return log_delta - (
            level
            - c * saddle_epsilon
            - math.log(c * (c + 1))
            - 0.5 * math.log(2 * math.pi * spread)
        )

    low = math.log(1e-3)
    high = math.log(steepest)
    for _ in range(24):
        middle = (low + high) / 2
        low, high = (middle, high) if away(math.exp(middle)) < 0 else (low, middle)
    return math.exp(low)
