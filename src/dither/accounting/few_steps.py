"""Brackets for a Poisson-sampled Gaussian, repeated: the contour with the far tail faded out.

The contour engine needs a transform that falls off and a tilt that reaches the delta asked for.
Few steps, or many steps of a small rate, have neither by the bounds of `sampled.py`. Here the far
tail is faded out (`faded.py`), the fall is bounded on shifted lines, and where the delta comes from
rare large losses, the sum of the small ones is taken out exactly. Proof of every term:
docs/proofs/few-steps.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.special import log_ndtr, ndtr, ndtri_exp

from dither.accounting.bounds import Bounds, up
from dither.accounting.contour import Contour, build_contour, choose_step, log_payoff
from dither.accounting.faded import Direction, FadedStep, LineBound
from dither.accounting.transforms import (
    LIBM,
    UNIT,
    Complex,
    Real,
    log1p_complex,
    pairwise,
    sinc_envelope_gap,
)
from dither.accounting.trapezoid import BLOCK, OutOfReach, log_ratio, sum_turns

DEBUG = 0
_FADED = 1e-8
_SMALL = 1e-10
_MOST_NODES = 40_000
_LARGEST_PANEL = 40_000_000
_LATTICE = 4096


@dataclass(frozen=True)
class Panel:
    """A transform at c + iy for a uniform y, less one where it is near one, with a bound on its
    absolute error."""

    values: Complex
    error: float


def evaluate(
    step: FadedStep, lines: LineBound, y: Real, count: int, *, less_one: bool
) -> Panel:
    """The transform of a faded step (Q1 to Q3 with the weight: W4)."""
    reach = float(y[-1])
    on_axis = lines.on_axis
    top = float(on_axis.max())
    if top > 600:
        raise OutOfReach
    log_total = top + math.log(float(np.sum(np.exp(on_axis - top))))
    pitch, quadrature = _choose_pitch(step, lines, reach, log_total, less_one)
    nodes, tails = _choose_nodes(step, lines, pitch, log_total, count)
    if len(nodes) * len(y) > _LARGEST_PANEL:
        raise OutOfReach
    variance = step.variance
    quadratic = nodes * nodes / (2 * variance)
    log_weights = step.log_top_weight(nodes) + step.log_bottom_weight(nodes)
    logs, relative = log_ratio(step.q, (2 * nodes - 1) / (2 * variance))
    tilt = step.power * logs
    loss = logs if step.direction == "remove" else -logs
    height = pitch / (step.sigma * math.sqrt(2 * math.pi))
    plain = np.exp(log_weights - quadratic) * height
    grown = np.exp(np.minimum(tilt + log_weights - quadratic, 700.0)) * height
    small = plain * np.expm1(np.minimum(tilt, 1.0))
    terms = np.where(tilt > 1, grown - plain, small) if less_one else grown
    plane = float(pairwise(terms))
    faded = step.faded_mass(0.0) if less_one and step.fades else 0.0
    turns, harder = sum_turns(loss[None, :], grown[None, :], y)
    # (Q3) roundoff, with the error of the weight (A3)
    modulus = np.abs(tilt) + reach * np.abs(loss)
    sizes = np.abs(terms) + harder * grown * np.minimum(2.0, reach * np.abs(loss))
    weight_error = UNIT * (24 + 8 * quadratic + 64 * (1 + np.abs(log_weights))) + 4 * LIBM
    depth = 2 + math.ceil(math.log2(len(nodes))) + (BLOCK if harder > 1 else 0)
    roundoff = float(
        np.sum((grown + plain * less_one) * modulus * relative)
        + np.sum(sizes * (weight_error + 2 * depth * UNIT))
    )
    error = 1.01 * (roundoff + quadrature + tails + 1e-14 * faded)
    return Panel(turns[0] + (plane - faded), error)


def _choose_pitch(
    step: FadedStep, lines: LineBound, reach: float, log_total: float, less_one: bool
) -> tuple[float, float]:
    """The trapezoid's step, and its error by the strip theorem (Q1)."""
    angles = step.angles
    rising = lines.read(reach, rising=True)
    wanted = rising - log_total + 39.0
    pitch = float(np.max(2 * math.pi * step.variance * angles / np.maximum(wanted, 1.0)))
    if less_one:
        constant = step.line_cost * angles**2 + 39.0 - min(log_total, 0.0)
        pitch = min(pitch, float(np.max(2 * math.pi * step.variance * angles / constant)))
    mantissa, exponent = math.frexp(pitch)
    pitch = math.ldexp(math.floor(mantissa * 256) / 256, exponent)
    pull = 2 * math.pi * step.variance * angles / pitch
    log_error = float(np.min(rising - pull)) + math.log(2)
    quadrature = math.exp(min(log_error, 700.0)) / -math.expm1(-float(pull[0]))
    if less_one:
        log_error = float(np.min(step.line_cost * angles**2 - pull)) + math.log(2)
        quadrature += math.exp(min(log_error, 700.0)) / -math.expm1(-float(pull[0]))
    return pitch, quadrature


def _choose_nodes(
    step: FadedStep, lines: LineBound, pitch: float, log_total: float, count: int
) -> tuple[Real, float]:
    """The trapezoid's nodes, and a bound on what they leave out (Q2)."""
    cells = np.exp(lines.on_axis - log_total)
    allowed = math.exp(-42.0) / count
    bounds = lines.bounds
    left_sums = np.cumsum(cells)
    right_sums = np.cumsum(cells[::-1])[::-1]
    low = int(np.searchsorted(left_sums, allowed))
    high = len(cells) - int(np.searchsorted(right_sums[::-1], allowed))
    first = float(bounds[low])
    last = float(bounds[high])
    reserve = step.sigma * math.sqrt(2 * (42.0 + math.log(count)))
    first = min(first, -reserve) if step.bottom == -math.inf else first
    if step.direction == "add":
        last = max(last, reserve)
    start = math.floor(first / pitch) - 1
    stop = math.ceil(last / pitch) + 1
    stop += (start - stop - 1) % BLOCK
    if stop - start > 400_000:
        raise OutOfReach
    nodes = np.arange(start, stop + 1, dtype=np.float64) * pitch
    # the summands of a cell: at most 1 + width/pitch of them, each at most its bound
    narrow = float(np.min(np.diff(bounds)))
    out = float(left_sums[low - 1]) if low else 0.0
    out += float(right_sums[high]) if high < len(cells) else 0.0
    out = out * (1 + pitch / narrow) * math.exp(log_total)
    rest = math.exp(min(700.0, lines.log_rest))
    plain = 0.0
    if step.bottom == -math.inf:
        plain = float(ndtr((first - 0.0) / step.sigma))
        plain += float(ndtr(-last / step.sigma)) if step.direction == "add" else 0.0
    return nodes, 2 * (out + 2 * rest + 2 * plain)


@dataclass(frozen=True)
class FadedContour:
    """A contour over faded steps, the mass that was faded out and a bound on the small losses."""

    contour: Contour
    infinite: float
    bulk: tuple[tuple[float, float], ...] = ()

    def delta(self, epsilon: float) -> Bounds:
        """A bracket of delta at epsilon."""
        bounds = self.contour.delta(epsilon)
        more = self.infinite
        if self.bulk:
            log_bulk = min(level - c * epsilon for c, level in self.bulk)
            more = more + math.exp(min(700.0, log_bulk)) * (1 + 1e-9)
        return Bounds(bounds.lower, min(1.0, up(bounds.upper + more) * (1 + 4 * UNIT)))


@dataclass(frozen=True)
class SampledSteps:
    """`count` sampled Gaussians in one direction."""

    direction: Direction
    q: float
    sigma: float
    count: int


class Scout:
    """Rough values of the law on a fine mesh: they choose the contour and prove nothing."""

    def __init__(self, steps: SampledSteps, log_delta: float) -> None:
        self.steps = steps
        sigma = steps.sigma
        self.top = find_top(steps, log_delta, 0.0)
        low, high = (-10 * sigma, self.top)
        if steps.direction == "add":
            low, high = -30 * sigma, 10 * sigma
        self.y = np.arange(low, high, min(sigma / 24, (high - low) / 400))
        logs = log_ratio(steps.q, (2 * self.y - 1) / (2 * sigma * sigma))[0]
        log_mass = -self.y * self.y / (2 * sigma * sigma) + math.log(self.y[1] - self.y[0])
        log_mass -= math.log(sigma * math.sqrt(2 * math.pi))
        self.loss = logs if steps.direction == "remove" else -logs
        self.mass = np.exp(log_mass + (logs if steps.direction == "remove" else 0.0))
        mean = float(self.mass @ self.loss)
        self.deviation = math.sqrt(
            steps.count * max(float(self.mass @ (self.loss - mean) ** 2), 1e-300)
        )
        largest = float(np.max(self.loss))
        self.tilts = np.geomspace(0.02 / max(largest, self.deviation), 100 / self.deviation, 72)
        with np.errstate(over="ignore"):
            self.excess = self.mass * np.expm1(np.minimum(self.tilts[:, None] * self.loss, 600.0))
        self.levels = steps.count * np.log1p(self.excess.sum(axis=1))
        self.payoffs = np.array([log_payoff(c) for c in self.tilts])

    def guess_epsilon(self, log_delta: float) -> float:
        """Roughly the epsilon at this delta: the saddle point, or a coarse lattice far out."""
        grown = self.excess + self.mass
        total = grown.sum(axis=1)
        first = (grown @ self.loss) / total
        second = np.maximum((grown @ self.loss**2) / total - first**2, 1e-300) * self.steps.count
        c = self.tilts
        epsilons = first * self.steps.count - 1 / c - 1 / (c + 1)
        spread = second + 1 / c**2 + 1 / (c + 1) ** 2
        logs = self.levels - c * epsilons - np.log(c * (c + 1)) - 0.5 * np.log(2 * math.pi * spread)
        place = int(np.argmax(logs < log_delta))
        before = max(place - 1, 0)
        weight = (log_delta - logs[before]) / (logs[place] - logs[before] or 1.0)
        saddle = float(epsilons[before] + weight * (epsilons[place] - epsilons[before]))
        if saddle < 6 * self.deviation or self.steps.direction == "add":
            return max(0.0, saddle)
        return self._guess_on_lattice(log_delta)

    def _guess_on_lattice(self, log_delta: float) -> float:
        highest = self._bound_epsilon(log_delta)
        lowest = float(self.mass @ self.loss) * self.steps.count - 10 * self.deviation
        pitch = (1.05 * highest - lowest) / _LATTICE
        if not pitch > 0:
            return 0.0
        places = self.loss / pitch
        cells = np.floor(places).astype(np.int64)
        share = places - cells
        slots = cells % (2 * _LATTICE)
        masses = np.bincount(slots, self.mass * (1 - share), 2 * _LATTICE)
        masses += np.bincount((slots + 1) % (2 * _LATTICE), self.mass * share, 2 * _LATTICE)
        transform = np.fft.rfft(masses / masses.sum())
        sums = np.fft.irfft(np.exp(self.steps.count * np.log(transform)), 2 * _LATTICE)
        sums = np.maximum(sums[:_LATTICE], 0.0)[::-1]
        losses = (np.arange(_LATTICE) * pitch)[::-1]
        tail = np.cumsum(sums)
        deltas = tail - np.exp(np.minimum(losses, 600.0)) * np.cumsum(sums * np.exp(-losses))
        above = np.flatnonzero(deltas > math.exp(log_delta))
        return float(losses[above[0]]) if len(above) else 0.0

    def _bound_epsilon(self, log_delta: float) -> float:
        """Chernoff's epsilon."""
        return float(np.min((self.levels - log_delta + self.payoffs) / self.tilts))

    def guess_delta(self, epsilon: float) -> float:
        """Roughly the logarithm of delta at an epsilon."""
        return float(np.min(self.levels - self.tilts * epsilon + self.payoffs)) - 2.0

    def choose_tilts(self, levels: Real, epsilon: float, log_delta: float) -> _Tilts:
        """The tilt that needs the fewest nodes among those that lose few digits; and other tilts
        that bound the aliases above.

        `levels` are logarithms of the transform at `self.tilts`.
        """
        c = self.tilts
        lost = levels - c * epsilon - np.log(c * (c + 1)) - log_delta
        goal = -math.log(_SMALL)
        below = (goal - log_delta) / c
        chernoff = levels - c * epsilon + self.payoffs - log_delta + goal
        with np.errstate(divide="ignore", invalid="ignore"):
            above = chernoff[None, :] / (c[None, :] - c[:, None])
        ratio = c[None, :] / c[:, None]
        above = np.where((ratio > 1.01) & (ratio < 4.0), above, math.inf)
        period = np.maximum(below, above.min(axis=1))
        chosen = int(np.argmin(np.log(period) + np.maximum(lost, 0.0) / 8))
        helper = int(np.argmin(above[chosen]))
        helpers = tuple(float(c[i]) for i in {helper, min(helper + 1, len(c) - 1)})
        return _Tilts(float(c[chosen]), helpers)

    def choose_split(self, epsilon: float, log_delta: float) -> _Split | None:
        """The largest loss below which the losses alone will not add up to epsilon; none where the
        whole law does as well."""
        if self.steps.direction == "add" or epsilon < 20 * self.deviation:
            return None
        sums = np.cumsum(self.excess, axis=1)
        beyond = np.cumsum(self.mass[::-1])[::-1] - self.mass
        with np.errstate(invalid="ignore", divide="ignore"):
            logs = self.steps.count * np.log1p(sums - beyond) - self.tilts[:, None] * epsilon
        lowest = np.nan_to_num(logs, nan=math.inf).min(axis=0)
        places = np.flatnonzero((lowest < log_delta - 26.0) & (self.loss > 0))
        if not len(places):
            return None
        place = int(places[-1])
        bulk_tilt = float(self.tilts[np.argmin(logs[:, place])])
        jumps = (self.excess + self.mass)[:, place:].sum(axis=1)
        levels = self.levels + np.log(self.steps.count * jumps)
        tilts = self.choose_tilts(levels, epsilon, log_delta)
        return _Split(float(self.y[place]), bulk_tilt, tilts)


class _Tilts(NamedTuple):
    """The tilt of the contour, and other tilts for Chernoff's bound."""

    c: float
    others: tuple[float, ...]

    @property
    def largest(self) -> float:
        return max(self.c, *self.others)


class _Split(NamedTuple):
    """Noise above `place` makes a jump; tilts for the bulk below it and for the jumps."""

    place: float
    bulk_tilt: float
    tilts: _Tilts


def find_top(steps: SampledSteps, log_delta: float, fade: float) -> float:
    """Where to fade out, so that what is lost over all steps is a small share of delta."""
    if steps.direction == "add":
        return math.inf
    spread = math.hypot(steps.sigma, fade)
    share = log_delta + math.log(_FADED / 2) - math.log(steps.count)
    unmoved = -_ndtri_exp(share) * spread
    moved = share - math.log(steps.q)
    return max(unmoved, 1 - _ndtri_exp(moved) * spread if moved < -0.7 else 1.0)


def _ndtri_exp(log_share: float) -> float:
    return float(ndtri_exp(log_share))


def choose_fade(steps: SampledSteps, c: float, find_start: Callable[[float], float]) -> float:
    """The widest fade after whose start the tilted density does not rise again."""
    variance = steps.sigma**2
    for halvings in range(24):
        fade = steps.sigma / 4 * 2.0 ** (-halvings / 2)
        top = find_start(fade)
        last = 20 * fade + fade**2 * (c + 1) / variance
        y = top + np.geomspace(fade / 4, last, 160)
        logs = log_ratio(steps.q, (2 * np.append(y, top) - 1) / (2 * variance))[0]
        y = np.append(y, top)
        heights = -y * y / (2 * variance) + (c + 1) * logs + log_ndtr((top - y) / fade)
        if heights[:-1].max() < heights[-1] + 3.0:
            return fade
    raise OutOfReach


def build(steps: SampledSteps, scout: Scout, epsilon: float, log_delta: float) -> FadedContour:
    """A contour for deltas around exp(log_delta) at epsilons around `epsilon`."""
    split = scout.choose_split(epsilon, log_delta)
    if split is None:
        tilts = scout.choose_tilts(scout.levels, epsilon, log_delta)
        return _build_whole(steps, tilts, epsilon, log_delta)
    return _build_split(steps, split, epsilon, log_delta)


def _fade_out(steps: SampledSteps, tilts: _Tilts, log_delta: float) -> FadedStep:
    if steps.direction == "add":
        return FadedStep("add", steps.q, steps.sigma, tilts.c, math.inf, steps.sigma)
    fade = choose_fade(steps, tilts.largest, lambda fade: find_top(steps, log_delta, fade))
    top = find_top(steps, log_delta, fade)
    return FadedStep("remove", steps.q, steps.sigma, tilts.c, top, fade)


def _bound_level(step: FadedStep, count: int) -> float:
    """A proved upper bound of log M(c)."""
    _, excess = _evaluate_at_zero(step, count, less_one=True)
    return math.log1p(excess) * (1 + 1e-14) + 1e-16


def _find_infinite(step: FadedStep, count: int) -> float:
    """A bound on the mass that is faded out of all steps."""
    if step.top == math.inf:
        return 0.0
    unmoved = step.faded_mass(0.0)
    moved = step.faded_mass(1.0)
    return count * ((1 - step.q) * unmoved + step.q * moved) * (1 + 1e-9)


def _build_whole(
    steps: SampledSteps, tilts: _Tilts, epsilon: float, log_delta: float
) -> FadedContour:
    count = steps.count
    c = tilts.c
    step = _fade_out(steps, tilts, log_delta)
    level = _bound_level(step, count)
    chernoff = _bound_by_chernoff(
        tilts, lambda other: count * _bound_level(step.at_tilt(other), count)
    )
    pitch = choose_step(c, epsilon, log_delta, chernoff, _SMALL)
    if DEBUG: print('   DBG chern',chernoff,'period',2*math.pi/pitch,'c',c)
    wanted = log_delta - (count * level - c * epsilon) + math.log(_SMALL * math.pi)
    fall = _Fall(step, LineBound(step, 0.0), level, count)
    reach, log_rest = _find_reach(fall.read, pitch, wanted)
    y = np.arange(math.ceil(reach / pitch) + 1, dtype=np.float64) * pitch
    panel = evaluate(step, LineBound(step, float(y[-1])), y, count, less_one=True)
    logs = log1p_complex(panel.values)
    sizes = np.maximum(np.abs(1 + panel.values), 1e-300)
    errors = count * (np.log1p((panel.error + 4 * UNIT * (sizes < 0.5)) / sizes)
                      + 8 * UNIT * np.abs(logs))
    s = np.asarray(c + 1j * y, dtype=np.complex128)
    contour = build_contour(
        c, pitch, epsilon, y, 1 / (s * (s + 1)), count * logs, errors,
        math.exp(log_rest) / math.pi * (1 + 1e-9), 0.0, chernoff,
    )
    return FadedContour(contour, _find_infinite(step, count))


def _bound_by_chernoff(
    tilts: _Tilts, bound_level: Callable[[float], float]
) -> tuple[tuple[float, float], ...]:
    """(c', log of Chernoff's bound at epsilon = 0) for some c' > c (T2)."""
    points = []
    for other in tilts.others:
        try:
            points.append((other, bound_level(other) + log_payoff(other)))
        except OutOfReach:
            continue
    return tuple(points)


def _evaluate_at_zero(step: FadedStep, count: int, *, less_one: bool) -> tuple[float, float]:
    """The transform at c itself (less one), between two floats."""
    panel = evaluate(step, LineBound(step, 0.0), np.zeros(1), count, less_one=less_one)
    value = float(panel.values[0].real)
    return value - panel.error, value + panel.error


def _bound_jumps(bulk: FadedStep, jump: FadedStep, count: int) -> tuple[float, float]:
    """Upper bounds of log J(c), and of log (B(c) + J(c))."""
    _, bulk_excess = _evaluate_at_zero(bulk, count, less_one=True)
    _, jumps = _evaluate_at_zero(jump, count, less_one=False)
    return math.log(jumps), math.log1p(bulk_excess + jumps) * (1 + 1e-14) + 1e-16


def _build_split(
    steps: SampledSteps, split: _Split, epsilon: float, log_delta: float
) -> FadedContour:
    count = steps.count
    c = split.tilts.c
    fade = min(
        choose_fade(steps, split.tilts.largest, lambda fade: find_top(steps, log_delta, fade)),
        choose_fade(steps, split.bulk_tilt, lambda fade: split.place - 5 * fade),
    )
    bottom = split.place - 5 * fade
    top = find_top(steps, log_delta, fade)
    bulk = FadedStep("remove", steps.q, steps.sigma, c, bottom, fade)
    jump = FadedStep("remove", steps.q, steps.sigma, c, top, fade, bottom)

    def bound_level(other: float) -> float:
        jumps, whole = _bound_jumps(bulk.at_tilt(other), jump.at_tilt(other), count)
        return math.log(count) + jumps + (count - 1) * whole

    level = bound_level(c)
    chernoff = _bound_by_chernoff(split.tilts, bound_level)
    pitch = choose_step(c, epsilon, log_delta, chernoff, _SMALL)
    if DEBUG: print('   DBG chern',chernoff,'period',2*math.pi/pitch,'c',c)
    wanted = log_delta - (level - c * epsilon) + math.log(_SMALL * math.pi)
    jumps, whole = _bound_jumps(bulk, jump, count)
    lines = LineBound(jump, 0.0)
    reach, log_rest = _find_reach(
        lambda y: min(0.0, float(np.min(lines.read(y, rising=False))) - jumps), pitch, wanted
    )
    y = np.arange(math.ceil(reach / pitch) + 1, dtype=np.float64) * pitch
    bulk_panel = evaluate(bulk, LineBound(bulk, float(y[-1])), y, count, less_one=True)
    jump_panel = evaluate(jump, LineBound(jump, float(y[-1])), y, count, less_one=False)
    logs, errors = _subtract_bulk(bulk_panel, jump_panel, count)
    s = np.asarray(c + 1j * y, dtype=np.complex128)
    # the rest is relative to the bound `level`: relative to the value at c it is larger
    log_rest += level - float(logs[0].real) + float(errors[0])
    contour = build_contour(
        c, pitch, epsilon, y, 1 / (s * (s + 1)), logs, errors,
        math.exp(log_rest) / math.pi * (1 + 1e-9), 0.0, chernoff,
    )
    bulk_bounds = tuple(
        (other, count * _bound_level(bulk.at_tilt(other), count) + log_payoff(other))
        for other in (0.7 * split.bulk_tilt, split.bulk_tilt)
    )
    return FadedContour(contour, _find_infinite(jump, count), bulk_bounds)


def _subtract_bulk(bulk: Panel, jump: Panel, count: int) -> tuple[Complex, Real]:
    """log of (B + J)^count - B^count, and a bound on its relative error as a logarithm (S2)."""
    log_bulk = log1p_complex(bulk.values)
    sizes = np.abs(1 + bulk.values)
    ratio = jump.values / (1 + bulk.values)
    logs = count * log1p_complex(ratio)
    difference = np.expm1(logs)
    jumps = np.abs(jump.values) + jump.error
    largest = np.log(sizes + bulk.error + jumps)
    slope = count * np.exp((count - 1) * largest) * jump.error
    if count > 1:
        bend = count * (count - 1) * np.exp((count - 2) * largest)
        slope = slope + bend * jumps * bulk.error
    scale = np.exp(count * log_bulk.real)
    roundoff = 64 * UNIT * np.abs(logs) * (1 + np.abs(logs)) * np.exp(np.maximum(logs.real, 0.0))
    roundoff = roundoff + 16 * UNIT * (1 + count * np.abs(log_bulk)) * np.abs(difference)
    value = np.maximum(np.abs(difference) * scale, 1e-300)
    errors = np.log1p((slope + scale * roundoff) / value)
    return np.log(difference) + count * log_bulk, errors


@dataclass(frozen=True)
class _Fall:
    """Bounds on |M(c+iy')|/M(c) of all steps for every y' >= y: shifted lines, or layers."""

    step: FadedStep
    lines: LineBound
    level: float
    count: int

    def read(self, y: float) -> float:
        by_lines = float(np.min(self.lines.read(y, rising=False))) - self.level + 1e-12
        mass, lengths = self.layers
        gap = float(np.sum(mass * sinc_envelope_gap(0.5 * y * lengths))) * (1 - 1e-9)
        by_layers = math.log1p(-min(max(gap, 0.0), 1 - 1e-16))
        return self.count * min(by_lines, by_layers, 0.0)

    @cached_property
    def layers(self) -> tuple[Real, Real]:
        mass, lengths = self.lines.layers(self.level)
        return mass, lengths


def _find_reach(
    read_fall: Callable[[float], float], pitch: float, wanted: float
) -> tuple[float, float]:
    """Where to stop, and log of what is left out, relative to the value at c (T1)."""

    def bound_rest(y: float) -> float:
        return read_fall(y) - math.log(max(y - pitch, pitch / 2))

    low, high = pitch, 4 * pitch
    while bound_rest(high) > wanted:
        low, high = high, high * 2
        if high > _MOST_NODES * pitch:
            raise OutOfReach
    while high / low > 1.1:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if bound_rest(middle) > wanted else (low, middle)
    return high, bound_rest(high)
