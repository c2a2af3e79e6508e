"""A sampled Gaussian's loss on a mesh, roughly: it chooses contours and proves nothing.

All choices of the engine for few steps are made here: a first epsilon, where to fade the noise out,
where jumps begin, and the tilts. A bad choice makes a bracket wide, never wrong.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.special import log_ndtr, ndtr, ndtri_exp

from dither.accounting.contour import log_payoff
from dither.accounting.faded import Direction
from dither.accounting.transforms import Real, log1p_complex
from dither.accounting.trapezoid import OutOfReach, log_ratio

SMALL = 1e-10
"""What aliasing and truncation may each be, relative to delta."""
_FADED = 1e-8
_LATTICE = 4096
_TILTS = 64
_MOST_GUESSES = 8
_OVERFLOW = 600.0
_LOST = 17.0
_LIGHT = 4.0
_LONGEST = 64
_SHORTEST = 12
_VANISHED = 110.0
_BESIDE = 24.0
"""-log of what a bound beside the contour may be, relative to delta."""


@dataclass(frozen=True)
class SampledSteps:
    """`count` sampled Gaussians in one direction."""

    direction: Direction
    q: float
    sigma: float
    count: int

    @property
    def widest_fade(self) -> float:
        """So wide that neither the density nor the loss changes by much over it."""
        return min(self.sigma / 4, self.sigma**2 / 8)

    def log_ratios(self, y: Real) -> Real:
        """log r at noises y."""
        return log_ratio(self.q, (2 * y - 1) / (2 * self.sigma**2))[0]


def are_nearly_gaussian(steps: SampledSteps, log_delta: float) -> bool:
    """Whether the steps are surely so many, and so noisy, that the whole law suits the contour.

    By the central limit their loss is that of one Gaussian with mu = q sqrt(count (e^(1/sigma^2) -
    1)) (Bu, Dong, Long and Su 2020), whose saddle is near sqrt(-2 log delta) / mu. It is asked
    before a rough law is made: False says nothing, and `RoughLaw.suits_contour` decides.
    """
    if steps.count < 1_000 or steps.sigma < 0.9 or not -16 < log_delta < -4:
        return False
    mu = steps.q * math.sqrt(steps.count * math.expm1(1 / steps.sigma**2))
    largest_saddle = min(6 * steps.sigma, 0.7 * find_top(steps, log_delta, 0.0) - 1)
    return math.sqrt(-2 * log_delta) < mu * largest_saddle


class Tilts(NamedTuple):
    """The tilt of the contour, and a larger one for Chernoff's bound."""

    c: float
    larger: float


class Far(NamedTuple):
    """Noise above `position` gives a loss that the other steps will not undo; the tilt that shows
    it."""

    position: float
    tilt: float


class Split(NamedTuple):
    """Noise above `position` makes a jump; tilts for the bulk below it and for the jumps."""

    position: float
    bulk_tilt: float
    tilts: Tilts


class RoughLaw:
    """The law of one step's loss on a mesh of noises, and its transform at many tilts."""

    def __init__(self, steps: SampledSteps, log_delta: float) -> None:
        self.steps = steps
        self.log_delta = log_delta
        sigma = steps.sigma
        fade = steps.widest_fade
        low = -10 * sigma
        high = find_top(steps, log_delta, fade) + 8 * fade
        if steps.direction == "add":
            low = -30 * sigma
            high = 10 * sigma
        self.y = np.linspace(low, high, max(400, math.ceil((high - low) * 24 / sigma)))
        logs = steps.log_ratios(self.y)
        pitch = float(self.y[1] - self.y[0])
        log_mass = -(self.y**2) / (2 * sigma**2) + math.log(pitch / sigma / math.sqrt(2 * math.pi))
        removes = steps.direction == "remove"
        self.loss = logs if removes else -logs
        self.mass = np.exp(log_mass + (logs if removes else 0.0))
        self.weights = np.ones_like(self.y)
        if removes:
            self.fade_out(find_top(steps, log_delta, fade))

    def fade_out(self, top: float) -> None:
        """Weigh the law by the fade at `top`."""
        self.weights = ndtr((top - self.y) / self.steps.widest_fade)

    @cached_property
    def deviation(self) -> float:
        """The standard deviation of all steps together."""
        mass = self.mass * self.weights
        mean = float(mass @ self.loss)
        return math.sqrt(self.steps.count * max(float(mass @ (self.loss - mean) ** 2), 1e-300))

    @cached_property
    def tilts(self) -> Real:
        largest = float(self.loss[self.weights > 0.5].max())
        return np.geomspace(0.02 / max(largest, self.deviation), 100 / self.deviation, _TILTS)

    @cached_property
    def payoffs(self) -> Real:
        return np.array([log_payoff(c) for c in self.tilts])

    @cached_property
    def excess(self) -> Real:
        """mass * (e^{c loss} - 1), a row for each tilt."""
        return self.mass * np.expm1(np.minimum(self.tilts[:, None] * self.loss, _OVERFLOW))

    @property
    def levels(self) -> Real:
        """Compute log M^count at each tilt, of the law as it is faded now."""
        faded = float(self.mass @ (1 - self.weights))
        largest = float(self.loss[self.weights > 1e-200].max())
        with np.errstate(invalid="ignore", divide="ignore"):
            levels = self.steps.count * np.log1p(self.excess @ self.weights - faded)
        return np.where(self.tilts * largest < _OVERFLOW, levels, math.inf)

    def guess_epsilon(self) -> float:
        """Guess the epsilon at this delta: by the saddle point, or far out by a lattice."""
        grown = (self.excess + self.mass) * self.weights
        total = grown.sum(axis=1)
        first = (grown @ self.loss) / total
        second = np.maximum((grown @ self.loss**2) / total - first**2, 1e-300) * self.steps.count
        c = self.tilts
        epsilons = first * self.steps.count - 1 / c - 1 / (c + 1)
        spread = second + 1 / c**2 + 1 / (c + 1) ** 2
        logs = self.levels - c * epsilons - np.log(c * (c + 1)) - 0.5 * np.log(2 * math.pi * spread)
        position = int(np.argmax(logs < self.log_delta))
        before = max(position - 1, 0)
        share = (self.log_delta - logs[before]) / ((logs[position] - logs[before]) or 1.0)
        saddle = float(epsilons[before] + share * (epsilons[position] - epsilons[before]))
        if saddle < 6 * self.deviation or self.steps.direction == "add":
            return max(0.0, saddle)
        chernoff = float(np.min((self.levels - self.log_delta + self.payoffs) / self.tilts))
        guess = self._guess_on_lattice(1.05 * chernoff)
        for _ in range(_MOST_GUESSES):
            highest = max(3 * guess, 6 * self.deviation)
            guess = self._guess_on_lattice(highest)
            if guess < 0.8 * highest:
                break
        return guess

    def _guess_on_lattice(self, highest: float) -> float:
        """Guess the epsilon below `highest`, from sums on a coarse lattice; larger losses alone."""
        pitch = (highest + 10 * self.deviation) / _LATTICE
        size = 2 * _LATTICE
        near = self.loss < highest
        cells = np.floor(self.loss[near] / pitch).astype(np.int64)
        share = self.loss[near] / pitch - cells
        mass = self.mass[near]
        masses = np.bincount(cells % size, mass * (1 - share), size)
        masses += np.bincount((cells + 1) % size, mass * share, size)
        # less one: a mass of one at zero would cost many steps all their digits
        masses = masses / masses.sum()
        masses[0] = -masses[1:].sum()
        sums = np.fft.irfft(np.exp(self.steps.count * log1p_complex(np.fft.rfft(masses))), size)
        sums = np.maximum(sums[:_LATTICE], 0.0)[::-1]
        losses = (np.arange(_LATTICE) * pitch)[::-1]
        growth = np.exp(np.minimum(losses, _OVERFLOW))
        deltas = np.cumsum(sums) - growth * np.cumsum(sums / growth)
        far = self.mass[~near]
        far_share = float(far @ np.exp(-np.minimum(self.loss[~near], _OVERFLOW)))
        deltas = deltas + self.steps.count * (far.sum() - growth * far_share)
        above = np.flatnonzero(deltas > math.exp(self.log_delta))
        return float(losses[above[0]]) if len(above) else 0.0

    def guess_log_delta(self, epsilon: float) -> float:
        """Roughly the logarithm of delta at an epsilon."""
        return float(np.min(self.levels - self.tilts * epsilon + self.payoffs)) - 2.0

    def suits_contour(self, epsilon: float) -> bool:
        """Whether the contour over the whole law will do: many steps, and no noise so far out that
        it never happens but rules the transform."""
        steps = self.steps
        c = self.choose_tilts(self.levels, epsilon).c
        if steps.count < 100 or c > 8 * steps.sigma:
            return False
        if steps.direction == "add" or c + 1 < find_top(steps, self.log_delta, 0.0):
            return True
        far = (c + 1) * math.log(steps.q) + c * (c + 1) / (2 * steps.sigma**2)
        return far < -40.0 - math.log(steps.count)

    def choose_tilts(self, levels: Real, epsilon: float) -> Tilts:
        """Choose the tilt that needs few nodes and loses few digits, and one that bounds aliases.

        `levels` are the logarithms of the transform at `self.tilts`.
        """
        c = self.tilts
        lost = levels - c * epsilon - np.log1p(c) - self.log_delta
        goal = -math.log(SMALL)
        below = (goal - self.log_delta) / c
        chernoff = levels - c * epsilon + self.payoffs - self.log_delta + goal
        ratio = c[None, :] / c[:, None]
        with np.errstate(divide="ignore", invalid="ignore"):
            above = chernoff[None, :] / (c[None, :] - c[:, None])
        above = np.where((ratio > 1.01) & (ratio < 2.6) & np.isfinite(above), above, math.inf)
        period = np.maximum(below, above.min(axis=1))
        score = np.log(period) + np.maximum(lost, 0.0) / 8
        chosen = int(np.argmin(np.nan_to_num(score, nan=math.inf)))
        return Tilts(float(c[chosen]), float(c[np.argmin(above[chosen])]))

    def choose_far(self, epsilon: float) -> Far | None:
        """Find where losses begin that the other steps cannot undo, and fade the law out there.

        None where there is no such point.
        """
        if self.steps.direction == "add":
            return None
        c = self.tilts[:, None]
        falls = self.mass * np.exp(-np.clip((c + 1) * self.loss, -_OVERFLOW, _OVERFLOW))
        levels = self.steps.count * np.log(falls.sum(axis=1))
        tails = np.cumsum(falls[:, ::-1], axis=1)[:, ::-1]
        with np.errstate(divide="ignore"):
            logs = np.log(self.steps.count * tails) + (levels + (self.tilts + 1) * epsilon)[:, None]
        logs = np.where(c * self.loss > 90.0, math.inf, logs)
        small = logs.min(axis=0) < self.log_delta - _BESIDE - 2
        positions = np.flatnonzero(small & (self.loss > 3 * epsilon))
        fade = self.steps.widest_fade
        last = find_top(self.steps, self.log_delta, fade) - 6 * fade
        if not len(positions) or self.y[positions[0]] > last:
            return None
        position = int(positions[0])
        far = Far(float(self.y[position]), float(self.tilts[np.argmin(logs[:, position])]))
        self.fade_out(far.position + 5 * fade)
        return far

    def choose_split(self, epsilon: float) -> Split | None:
        """The largest noise below which the losses alone will not add up to epsilon, if any."""
        if self.steps.direction == "add" or self.steps.sigma > _LIGHT:
            return None
        c = self.tilts
        beyond = np.cumsum(self.mass[::-1])[::-1] - self.mass
        with np.errstate(invalid="ignore", divide="ignore"):
            logs = self.steps.count * np.log1p(np.cumsum(self.excess, axis=1) - beyond)
        logs = np.where(c[:, None] * self.loss < 40.0, logs - c[:, None] * epsilon, math.inf)
        logs = np.nan_to_num(logs, nan=math.inf)
        small = logs.min(axis=0) < self.log_delta - _BESIDE
        positions = np.flatnonzero(small & (self.loss > 0) & (self.loss < epsilon))
        if not len(positions):
            return None
        position = int(positions[-1])
        weights = np.where(np.arange(len(self.y)) >= position, self.weights, 0.0)
        jumps = self.steps.count * ((self.excess + self.mass) @ weights)
        tilts = self.choose_tilts(self.levels + np.log(jumps), epsilon)
        bulk_tilt = float(c[np.argmax(logs[:, position] < self.log_delta - _BESIDE)])
        return Split(float(self.y[position]), bulk_tilt, tilts)

    def prefers_split(self, split: Split, epsilon: float) -> bool:
        """Whether the split will do better than the whole law."""
        lost = self.levels - self.tilts * epsilon - np.log1p(self.tilts) - self.log_delta
        if float(np.nanmin(lost)) >= _LOST:
            return True
        jumps = float((self.mass * self.weights)[self.y >= split.position].sum())
        return epsilon >= 5 * self.deviation and self.steps.count * jumps <= 1.0


def find_top(steps: SampledSteps, log_delta: float, fade: float, far: Far | None = None) -> float:
    """Find where to fade out: above the far losses, or where a small share of delta is left."""
    if steps.direction == "add":
        return math.inf
    if far is not None:
        return far.position + 5 * fade
    spread = math.hypot(steps.sigma, fade)
    log_share = log_delta + math.log(_FADED / 2) - math.log(steps.count)
    moved = min(log_share - math.log(steps.q), -0.7)
    return max(-float(ndtri_exp(log_share)), 1 / spread - float(ndtri_exp(moved))) * spread


def choose_fade(steps: SampledSteps, tilts: Tilts, find_start: Callable[[float], float]) -> float:
    """Choose the widest fade after whose start the tilted density rises little, and then vanishes.

    Raises OutOfReach where none does.
    """
    for halvings in range(24):
        fade = steps.widest_fade * 2.0 ** (-halvings / 2)
        try:
            find_end(steps, tilts, find_start(fade), fade)
        except OutOfReach:
            continue
        return float(fade)
    raise OutOfReach


def find_end(steps: SampledSteps, tilts: Tilts, top: float, fade: float) -> float:
    """Where the weight may be cut off, since the tilted density has vanished."""
    widths = np.linspace(0.0, _LONGEST, 4 * _LONGEST + 1)
    y = top + fade * widths
    logs = steps.log_ratios(y)
    plain = -y * y / (2 * steps.sigma**2) + log_ndtr(-widths)
    rise = plain + (tilts.c + 1) * logs
    larger = plain + (tilts.larger + 1) * logs
    goal = -_VANISHED - math.log(steps.count)
    gone = (rise < goal + min(0.0, rise[0])) & (larger < goal) & (widths >= _SHORTEST)
    if not gone.any():
        raise OutOfReach
    position = int(np.argmax(gone))
    if rise[:position].max() >= rise[0] + 16.0 or larger[:position].max() >= 300.0:
        raise OutOfReach
    return float(y[position])
