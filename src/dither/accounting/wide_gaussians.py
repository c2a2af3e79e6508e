"""Wide integer Gaussian noise as continuous noise, with what that misses.

Where the lattice law has too many atoms to list, its losses lie so close together that the law of
the continuous Gaussian of the same strength holds it between two readings. With k releases of noise
sigma and shift D, s = D / sigma^2 and r = 400 / (k sigma^2),

    (1 - r) delta_G(epsilon + s/2) <= delta(epsilon) <= (1 + r) delta_G(epsilon - s/2),

the left side while it is above 1e-300 (docs/proofs/integer-noise.md, theorem 5).
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import NamedTuple

from dither.accounting.bounds import Bounds, down, up
from dither.accounting.integer_laws import MOST_ATOMS, count_atoms
from dither.privacy import losses as ls

_LEAST_SIGMA = 1000
_LEAST_LOWER = 1e-300


class Blur(NamedTuple):
    """How far epsilon may be off, and delta relatively."""

    shift: Fraction
    relative: Fraction

    def join(self, more: Blur) -> Blur:
        """Both at once."""
        relative = (1 + self.relative) * (1 + more.relative) - 1
        return Blur(self.shift + more.shift, relative)


NO_BLUR = Blur(Fraction(0), Fraction(0))


def is_wide_gaussian(event: ls.DiscreteGaussian) -> bool:
    """Whether the noise is read as continuous."""
    return event.sigma >= _LEAST_SIGMA and count_atoms(event.sigma, event.sensitivity) > MOST_ATOMS


def blur_wide_gaussian(event: ls.DiscreteGaussian, count: int) -> Blur:
    """What `count` copies of the event are off by as continuous ones."""
    variance = event.sigma**2
    return Blur(event.sensitivity / variance / 2, 400 / (count * variance))


def widen_epsilon(bounds: Bounds, blur: Blur) -> Bounds:
    """The bracket of epsilon moved outwards."""
    if not blur.shift:
        return bounds
    shift = up(float(blur.shift))
    return Bounds(max(0.0, down(bounds.lower - shift)), up(bounds.upper + shift))


def widen_delta(lower: float, upper: float, blur: Blur) -> Bounds:
    """Readings of delta to the right and to the left of epsilon, made a bracket."""
    relative = up(float(blur.relative))
    low = down(lower * (1 - relative)) if lower > _LEAST_LOWER and relative < 1 else 0.0
    return Bounds(low, min(1.0, up(upper * (1 + relative))))


def read_left(upper: float, blur: Blur, epsilon: Fraction) -> float:
    """delta at epsilon - shift, where that is negative and `upper` was read at zero: it grows by at
    most the rest."""
    return min(1.0, up(upper + float(max(Fraction(0), blur.shift - epsilon)))) if upper else upper


def widen_target(delta: tuple[Fraction, Fraction], blur: Blur) -> tuple[Fraction, Fraction]:
    """The deltas at which the continuous curve is read for either end."""
    if not blur.relative:
        return delta
    rest = 1 - min(blur.relative, Fraction(1, 2))
    return delta[0] / (1 + blur.relative), min(delta[1] / rest, Fraction(math.nextafter(1.0, 0.0)))
