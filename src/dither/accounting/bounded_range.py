"""The exponential mechanism: the pair that dominates every mechanism of bounded range.

The worst curve at each epsilon in (-eta, eta) is

    delta(epsilon) = (e^{eta/2} - e^{epsilon/2})^2 / (e^eta - 1),

which is the curve of one pair: its loss has the density e^{(z+eta)/2} / (2 (e^eta - 1)) on (-eta,
eta), and M(s) = sinh((s + 1/2) eta) / ((2s + 1) sinh(eta/2)) (docs/proofs/composition.md, section
11). A dominating pair composes, also where the next question depends on earlier answers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import mpmath
import numpy as np

from dither.accounting.bounds import Bounds, down, up
from dither.accounting.laws import FAR, MOST_POINTS, Measure, Side, place_cells
from dither.accounting.multiprecision import read_fraction
from dither.accounting.transforms import (
    LIBM,
    UNIT,
    AtomsFactor,
    Complex,
    Real,
    expm1_complex,
    log_error,
    sinc_envelope_gap,
)
from dither.accounting.trapezoid import OutOfReach


@dataclass(frozen=True)
class BoundedRangeFactor:
    """`count` mechanisms of range `epsilon`."""

    epsilon: Fraction
    count: int

    def log_mgf(self, c: float, y: Real, tolerance: float) -> tuple[Complex, Real]:
        """Compute log M(c + iy), and a bound of its error, for each y.

        The formula is s eta + log(expm1(-(2s+1) eta) / ((2s+1) expm1(-eta))) with s = c + iy.
        """
        eta = float(self.epsilon)
        s = c + 1j * y
        shrunk = -(2 * s + 1) * eta
        grown = expm1_complex(shrunk)
        ratio = grown / ((2 * s + 1) * math.expm1(-eta))
        logs = s * eta + np.log(ratio)
        lost = 4 * LIBM * np.abs(grown) + 16 * UNIT * np.abs(shrunk) * np.exp(shrunk.real)
        error = log_error(lost, np.abs(grown)) + 16 * UNIT * (2 + np.abs(s) * eta + np.abs(logs))
        return self.count * logs, self.count * error

    def decay(self, c: float, y: float) -> float:
        """Bound log |M(c+iy)| / M(c) from above.

        It uses layers below the tilted density (D1), or the triangle inequality on the closed form.
        """
        eta = float(self.epsilon)
        kappa = c + 0.5
        # the tilted density falls like e^{-kappa length} from its top at eta
        height = kappa / -math.expm1(-2 * kappa * eta)
        lengths = 2 * eta * np.linspace(0, 1, 65)[1:]
        heights = height * np.exp(-kappa * lengths)
        drops = heights - np.append(heights[1:], 0.0)
        gap = float(np.sum(drops * lengths * sinc_envelope_gap(y * lengths / 2))) * (1 - 1e-9)
        layers = math.log1p(-min(max(gap, 0.0), 1 - 1e-16))
        triangle = -math.log(math.tanh(kappa * eta)) + math.log(kappa / math.hypot(kappa, y))
        return self.count * min(0.0, layers, triangle + 1e-12) * (1 - 1e-10)

    def largest(self) -> float:
        return self.count * float(self.epsilon) * (1 + 1e-14)

    def measure(self, step: float, side: Side, edge: float = FAR) -> Measure:
        """Put the law on a grid of losses. The loss is bounded, so `edge` has nothing to cut."""
        eta = float(self.epsilon)
        last = math.ceil(eta / step) + 1
        if 2 * last > MOST_POINTS:
            raise OutOfReach
        positions = np.clip(np.arange(-last, last + 1) * step, -eta, eta)
        width = np.diff(positions)
        norm = -math.expm1(-eta)
        p = np.exp((positions[:-1] - eta) / 2) * np.expm1(width / 2) / norm
        other = np.exp((-positions[:-1] - eta) / 2) * -np.expm1(-width / 2) / norm
        relative = np.full(len(p), 64 * UNIT)
        p_side = p * (1 + relative) if side == "upper" else p * (1 - relative)
        shift = 1e-14 * (8 + 4 * eta)
        return place_cells(-last, p_side, p, other, relative, step, side, self.count, shift)


def bounded_range_delta(width: Fraction, epsilon: Fraction) -> Bounds:
    """Bracket delta of one mechanism of range `width` at an epsilon in [0, width), to the last
    digit.

    >>> round(bounded_range_delta(Fraction(1), Fraction(0)).upper, 12)
    0.244918662404
    """
    with mpmath.workdps(60):
        eta = read_fraction(width)
        # e^{eta/2} - e^{eps/2} = e^{eps/2} expm1((eta - eps)/2), without cancellation
        over = mpmath.expm1((eta - read_fraction(epsilon)) / 2)
        value = mpmath.exp(read_fraction(epsilon)) * over**2 / mpmath.expm1(eta)
        return Bounds(max(0.0, down(float(value))), min(1.0, up(float(value))))


def two_losses(width: Fraction, share: Fraction, count: int) -> AtomsFactor:
    """Make the law of `count` exponential mechanisms whose loss is share * width, or that less
    width.

    The larger one has probability (e^eta - e^t)/(e^eta - 1) = expm1(-(eta - t))/expm1(-eta).
    """
    eta = float(width)
    top = share * width
    rest = width - top
    upper = math.expm1(-float(rest)) / math.expm1(-eta)
    lower = math.exp(-float(rest)) * math.expm1(-float(top)) / math.expm1(-eta)
    return AtomsFactor(
        np.array([-float(rest), float(top)]),
        np.array([lower, upper]),
        count,
        UNIT * (32 + 4 * eta),
        lattice=(-rest, width, (0, 1)),
    )
