"""Privacy losses on a grid: a measure that dominates the true one, and one that it dominates.

A loss is cut at the grid places g_j = j * step into cells with P-mass p and Q-mass q. Above the
truth: the mass of a cell is moved to its two ends so that p and q are kept (connect the dots; a
dilation). Below the truth: a cell is merged to a point (post-processing), halves of neighbouring
cells are merged to the grid place between them, and what does not balance is moved down. Both are
second order in the step for smooth losses; atoms on the grid stay exact. Proof:
docs/proofs/composition.md, section 6.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from dither.accounting.transforms import UNIT, AtomsFactor, Real
from dither.accounting.trapezoid import Kind, OutOfReach, log_ratio

Side = Literal["upper", "lower"]
MOST_POINTS = 2**22
FAR = 27.0  # standard deviations kept of a Gaussian when nothing is known of the delta asked for


@dataclass(frozen=True)
class Measure:
    """Masses at (start + i) * step + offset; `infinite` is mass at +infinity; `shift` bounds the
    errors of place."""

    start: int
    masses: Real
    count: int
    infinite: float = 0.0
    shift: float = 0.0
    offset: Fraction = Fraction(0)


@dataclass(frozen=True)
class GaussianLaw:
    """The pair N(1, sigma^2) against N(0, sigma^2), per unit shift; with a rate, a direction of its
    Poisson sample.

    `kind` "plain" is the pair itself, "fixed" the symmetrised curve of sampling without
    replacement.
    """

    kind: Kind | Literal["plain", "fixed"]
    q: Fraction
    sigma: Fraction
    count: int

    def largest(self) -> float:
        """A bound on the loss of all copies together: none."""
        return math.inf

    def measure(self, step: float, side: Side, edge: float = FAR) -> Measure:
        """Put the law on a grid of losses.

        What lies beyond `edge` standard deviations counts as infinite (side "upper") or is dropped
        (side "lower").
        """
        q = float(self.q)
        sigma = float(self.sigma)
        low, high = -edge * sigma, 1 + edge * sigma
        first = math.floor(self._loss(low) / step)
        last = math.ceil(self._loss(high) / step)
        if self.kind == "add":
            first = math.floor(self._loss(high) / step)
            last = math.ceil(self._loss(low) / step)
        if self.kind == "fixed":
            first = 0
        if last - first > MOST_POINTS:
            raise OutOfReach
        losses = np.arange(first, last + 1, dtype=np.float64) * step
        y = np.clip(self._invert_loss(losses), low - 1.0, high + 1.0)
        shift = 1e-14 * (8 + float(np.max(np.abs(losses))) + 1 / (sigma * sigma))
        bounds = np.sort(y)
        middle = (bounds[1:] + bounds[:-1]) / 2
        width = np.diff(bounds)
        centre = gaussian_mass(middle / sigma, width / sigma)
        right = gaussian_mass((middle - 1) / sigma, width / sigma)
        mixed = (1 - q) * centre + q * right
        if self.kind == "plain":
            p = right
            other = centre
        elif self.kind in ("remove", "fixed"):
            p = mixed
            other = centre
        elif self.kind == "add":
            p = centre[::-1]
            other = mixed[::-1]
        else:
            p = mixed
            other = (1 - q) * centre + q * gaussian_mass((middle + 1) / sigma, width / sigma)
        relative = 1e-14 * (1 + middle**2 / sigma**2 / 50)
        relative = relative[::-1] if self.kind == "add" else relative
        p_side = p * (1 + relative) if side == "upper" else p * (1 - relative)
        if self.kind == "fixed":
            placed = _symmetrise(p, other, relative, step, side, self.count, shift)
        else:
            placed = place_cells(first, p_side, p, other, relative, step, side, self.count, shift)
        beyond = 4 * float(ndtr(-edge)) if side == "upper" else 0.0
        return replace(placed, infinite=beyond)

    def _loss(self, y: float) -> float:
        """Compute the loss of an outcome y, by the kind of sampling."""
        if self.kind == "plain":
            return (2 * y - 1) / (2 * float(self.sigma) ** 2)
        x = np.array([(2 * y - 1), (-2 * y - 1)]) / (2 * float(self.sigma) ** 2)
        forward, backward = log_ratio(float(self.q), x)[0]
        return float(
            {"remove": forward, "fixed": forward, "add": -forward, "swap": forward - backward}[
                self.kind
            ]
        )

    def _invert_loss(self, loss: Real) -> Real:
        """Compute the y at which the loss takes a value, monotone; +-infinity outside the range."""
        q = float(self.q)
        variance = float(self.sigma) ** 2
        if self.kind == "plain":
            return loss * variance + 0.5
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            if self.kind == "swap":
                size = np.minimum(np.abs(loss), 300.0)
                log_b = math.log(q) - 1 / (2 * variance)
                a = (1 - q) * np.exp(-log_b) * np.expm1(size) / 2
                root = np.log(a + np.hypot(a, np.exp(size / 2)))
                return np.where(
                    np.abs(loss) > 300.0, np.sign(loss) * 1e9, np.sign(loss) * variance * root
                )
            value = loss if self.kind != "add" else -loss
            inside = np.expm1(np.minimum(value, 600.0)) / q
            x = np.where(value > 600.0, value - math.log(q), np.log1p(np.maximum(inside, -1.0)))
            return np.asarray(x * variance + 0.5)


def gaussian_mass(middle: Real, width: Real) -> Real:
    """Compute P(|N - middle| < width/2) to relative accuracy, also for narrow and far cells."""
    half = width / 2
    far = np.abs(middle)
    square = (half * middle) ** 2
    # e^{-m^2/2} times the integral of e^{-t^2/2} cosh(m t): series in the half width, for half *
    # max(1, m) <= 1/2
    h2 = half * half
    total = np.ones_like(middle)
    odd = np.ones_like(middle)
    hermite_before = np.ones_like(middle)
    hermite = middle * middle - 1
    for k in range(1, 12):
        odd = odd * h2 / ((2 * k) * (2 * k + 1))
        total = total + hermite * odd
        # He_{2k+2} = (m^2 - 4k - 1) He_{2k} - 2k (2k-1) He_{2k-2}
        hermite, hermite_before = (
            (middle * middle - 4 * k - 1) * hermite - 2 * k * (2 * k - 1) * hermite_before,
            hermite,
        )
    narrow = np.exp(-middle * middle / 2) * (width / math.sqrt(2 * math.pi)) * total
    wide = ndtr(-(far - half)) - ndtr(-(far + half))
    small = (square <= 0.25) & (half <= 0.25)
    return np.where(small, narrow, np.maximum(wide, 0.0))


def place_cells(
    first: int,
    p_side: Real,
    p: Real,
    q: Real,
    relative: Real,
    step: float,
    side: Side,
    count: int,
    shift: float,
) -> Measure:
    """Move the masses p of cells [g_j, g_{j+1}], j = first.., to points of the grid.

    `q` are the masses under the other law. `side` says whether the result lies above or below the
    truth; `shift` is the error of the losses.
    """
    losses = (first + np.arange(len(p))) * step
    with np.errstate(over="ignore", invalid="ignore"):
        lifted = np.where(
            q > 0, np.exp(np.minimum(losses + np.log(np.maximum(q, 1e-320)), 700.0)), 0.0
        )
    blur = (p + lifted) * (relative + 16 * UNIT * (1 + np.abs(losses) * UNIT))
    down_gap = -math.expm1(-step)
    grow = math.exp(step)
    over = p - lifted  # p (1 - e^{-f}) summed: what the cell has above its lower end
    masses = np.zeros(len(p) + 1)
    if side == "upper":
        high = np.clip((over + blur) / down_gap, 0.0, p_side)
        masses[:-1] += p_side - high
        masses[1:] += high
        return Measure(first, masses, count, shift=shift)
    under = lifted * grow - p  # what the cell lacks below its upper end, times e^{h-f} - 1
    have = np.maximum(over - blur, 0.0)
    lack = np.maximum(under, 0.0) + blur * grow + 1e-320
    give = _shares(p, have, lack)
    masses[:-1] += p_side * (1 - give)
    masses[1:] += p_side * give
    return Measure(first, masses, count, shift=-shift)


def _shares(mass: Real, have: Real, lack: Real) -> Real:
    """Choose the share of each cell that is merged upwards, into the next cell.

    It is as much as the chosen lower part of the next cell can balance. Any shares in [0, 1] that
    keep `lower part of the next * have >= share * lack` are sound; a lower part of 1/2 - (slope of
    the masses)/8 leaves nothing unbalanced up to third order.
    """
    slope = np.zeros(len(mass))
    middle = np.maximum(mass[1:-1], 1e-300)
    slope[1:-1] = (
        np.minimum(mass[2:], 1e3 * middle) / middle - np.minimum(mass[:-2], 1e3 * middle) / middle
    )
    lower_part = np.clip(0.5 - slope / 8, 0.1, 0.9)
    give = np.zeros(len(mass))
    balanced = np.minimum(lower_part[1:] * have[1:], lack[:-1]) / lack[:-1]
    give[:-1] = np.minimum(1 - lower_part[:-1], balanced)
    return give


def _symmetrise(
    p: Real, q: Real, relative: Real, step: float, side: Side, count: int, shift: float
) -> Measure:
    """Put the curve of sampling without replacement on the grid.

    It has cells above zero, their mirror images, and the rest at zero.
    """
    above = p * (1 + relative) if side == "upper" else p * (1 - relative)
    right = place_cells(0, above, p, q, relative, step, side, count, shift)
    left = place_cells(-len(p), q[::-1], q[::-1], p[::-1], relative[::-1], step, side, count, shift)
    rest = 1 - float(np.sum(p)) - float(np.sum(q))
    rest = rest + 1e-12 if side == "upper" else rest - 1e-12
    masses = np.concatenate([left.masses, right.masses[1:]])
    masses[len(p)] += right.masses[0] + max(rest, 0.0)
    return Measure(-len(p), masses, count, shift=right.shift)


@dataclass(frozen=True)
class LaplaceLaw:
    """Continuous Laplace noise, sensitivity/scale = epsilon; unless plain, a direction of its
    Poisson sample.

    `kind` "drawn" is the pair itself with probability q and no loss else: a Poisson sample under
    replace.
    """

    kind: Literal["plain", "remove", "add", "drawn"]
    q: Fraction
    epsilon: Fraction
    count: int

    def largest(self) -> float:
        """A bound on the loss of all copies together."""
        return self.count * float(self.epsilon) * (1 + 1e-14)

    def measure(self, step: float, side: Side, edge: float = FAR) -> Measure:
        """On the grid; the loss is bounded, so `edge` has nothing to cut."""
        eps = float(self.epsilon)
        q = float(self.q)
        # inner cells so fine that their images are far narrower than the grid; atoms and cells are
        # placed as points
        cells = int(min(200_000, max(64, 16 * math.ceil(eps / step))))
        bounds = np.linspace(-eps, eps, cells + 1)
        width = 2 * eps / cells
        p = 0.5 * np.exp((bounds[:-1] - eps) / 2) * math.expm1(width / 2)
        other = 0.5 * np.exp((-bounds[:-1] - eps) / 2) * -math.expm1(-width / 2)
        tops = np.array([[-eps, 0.5 * math.exp(-eps), 0.5], [eps, 0.5, 0.5 * math.exp(-eps)]])
        low = np.concatenate([bounds[:-1], tops[:, 0]])
        high = np.concatenate([bounds[1:], tops[:, 0]])
        p = np.concatenate([p, tops[:, 1]])
        other = np.concatenate([other, tops[:, 2]])
        if self.kind in ("remove", "add"):
            low = log_ratio(q, low)[0]
            high = log_ratio(q, high)[0]
            mixed = (1 - q) * other + q * p
            p, other = (mixed, other) if self.kind == "remove" else (other, mixed)
            if self.kind == "add":
                low, high = -high, -low
        # where a mass has underflowed, the safe end
        with np.errstate(divide="ignore", invalid="ignore"):
            mean = np.log(p) - np.log(other)
        mean = np.where(
            (p > 0) & (other > 0), np.clip(mean, low, high), high if side == "upper" else low
        )
        shift = 1e-14 * (8 + 4 * eps)
        # above: each narrow cell is first stretched to its ends (keeping p and q), which are then
        # atoms
        if side == "upper":
            with np.errstate(invalid="ignore", divide="ignore"):
                share = np.where(high > low, np.expm1(low - mean) / np.expm1(low - high), 1.0)
            share = np.clip(
                share + 64 * UNIT / np.maximum(high - low, 1e-12) * (high > low), 0.0, 1.0
            )
            z = np.concatenate([low, high])
            mass = np.concatenate([p * (1 - share), p * share])
        else:
            z = mean
            mass = p
        placed = place_atoms(z, mass, 64 * UNIT, step, side, self.count, shift)
        if self.kind == "drawn":
            masses = placed.masses * q
            masses[-placed.start] += 1 - q
            return replace(
                placed, masses=masses * (1 + 8 * UNIT if side == "upper" else 1 - 8 * UNIT)
            )
        return placed


def _pour(slots: NDArray[np.int64], weights: Real, size: int) -> Real:
    """Weights added up by slot."""
    return np.asarray(np.bincount(slots, weights, size), dtype=np.float64)


def place_atoms(
    z: Real,
    p: Real,
    relative: float | Real,
    step: float,
    side: Side,
    count: int,
    shift: float,
    infinite: float = 0.0,
) -> Measure:
    """Move atoms to points of the grid: split between neighbours (above), or merged cell by cell
    (below)."""
    index = np.floor(z / step)
    index = np.where(np.abs(z - (index + 1) * step) < 1e-12 * step, index + 1, index)
    rest = np.clip(z - index * step, 0.0, step)
    first = int(np.min(index))
    slots = (index - first).astype(np.int64)
    size = int(np.max(slots)) + 2
    if size > MOST_POINTS:
        raise OutOfReach
    if side == "upper":
        heavier = p * (1 + relative)
        share = np.clip(np.expm1(-rest) / math.expm1(-step), 0.0, 1.0)
        masses = _pour(slots, heavier * (1 - share), size) + _pour(slots + 1, heavier * share, size)
        return Measure(first, masses * (1 + len(z) * UNIT), count, infinite, shift + 1e-12 * step)
    lighter = p * (1 - np.minimum(relative, 1.0))
    mass = _pour(slots, lighter, size)
    have = _pour(slots, p * -np.expm1(-rest), size) * (1 - 1e-9)
    lack = _pour(slots, p * np.expm1(step - rest), size) * (1 + 1e-9) + 1e-320
    give = _shares(mass, have, lack)
    masses = mass * (1 - give)
    masses[1:] += (mass * give)[:-1]
    return Measure(first, masses * (1 - len(z) * UNIT), count, 0.0, -shift - 1e-12 * step)


def atoms_measure(factor: AtomsFactor, step: Fraction, side: Side) -> Measure:
    """Put a finite law on the grid; exact when its lattice step is a multiple of the grid's."""
    infinite = factor.missing if side == "upper" else 0.0
    if factor.lattice is not None:
        offset, spacing, indices = factor.lattice
        ratio = spacing / step
        if ratio.denominator == 1:
            slots = np.array(indices, dtype=np.int64) * int(ratio)
            first = int(slots.min())
            sign = 1.0 if side == "upper" else -1.0
            weights = factor.masses * np.maximum(
                1 + sign * (np.asarray(factor.relative) + 4 * UNIT), 0.0
            )
            return Measure(
                first, _pour(slots - first, weights, 0), factor.count, infinite, 0.0, offset
            )
    shift = float(np.max(np.abs(factor.losses) * (factor.loss_relative + 4 * UNIT)))
    return place_atoms(
        factor.losses,
        factor.masses,
        factor.relative,
        float(step),
        side,
        factor.count,
        shift,
        infinite,
    )
