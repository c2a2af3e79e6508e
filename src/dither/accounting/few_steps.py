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

import numpy as np
from scipy.special import ndtr

from dither.accounting.bounds import Bounds, up
from dither.accounting.contour import Contour, build_contour, choose_step, log_payoff
from dither.accounting.faded import FadedStep, LineBound
from dither.accounting.faded_bounds import BulkBound, FarLosses, bound_bulk, log_faded_share
from dither.accounting.faded_transform import (
    Panel,
    evaluate,
    evaluate_at_zero,
    evaluate_in_pieces,
)
from dither.accounting.rough_law import (
    SMALL,
    Far,
    RoughLaw,
    SampledSteps,
    Split,
    Tilts,
    choose_fade,
    find_end,
    find_top,
)
from dither.accounting.transforms import (
    UNIT,
    Complex,
    Real,
    log1p_complex,
    sinc_envelope_gap,
)
from dither.accounting.trapezoid import OutOfReach

_MOST_NODES = 40_000
_MANY = 2000
_APART = 14.0


@dataclass(frozen=True)
class FadedContour:
    """A contour over faded steps, the losses that were faded out and bounds on the small ones."""

    contour: Contour
    far: FarLosses | None
    bulk: BulkBound | None = None

    def delta(self, epsilon: float) -> Bounds:
        """Bracket delta at epsilon: the contour, what was faded out, and the bulk."""
        lower, upper = self.contour.delta(epsilon)
        if self.far is not None:
            far = self.far.delta(epsilon)
            lower = lower + far.lower
            upper = upper + far.upper
        if self.bulk is not None:
            upper = upper + self.bulk.delta(epsilon)
        return Bounds(lower * (1 - 4 * UNIT), min(1.0, up(upper) * (1 + 4 * UNIT)))


def build(law: RoughLaw, epsilon: float) -> FadedContour:
    """Build a contour for deltas around exp(log_delta) at epsilons around `epsilon`."""
    steps = law.steps
    log_delta = law.log_delta
    far = law.choose_far(epsilon)
    split = law.choose_split(epsilon)
    if split is not None and law.prefers_split(split, epsilon):
        try:
            return _build_split(steps, split, far, epsilon, log_delta)
        except OutOfReach:
            split = None
    tilts = law.choose_tilts(law.levels, epsilon)
    try:
        return _build_whole(steps, tilts, far, epsilon, log_delta)
    except OutOfReach:
        if split is None:
            raise
    return _build_split(steps, split, far, epsilon, log_delta)


def _fade_out(steps: SampledSteps, tilts: Tilts, far: Far | None, log_delta: float) -> FadedStep:
    """Choose where the weight of one step fades out; in the direction "add" it does not."""
    if steps.direction == "add":
        return FadedStep("add", steps.q, steps.sigma, tilts.c, math.inf, steps.widest_fade)
    fade = choose_fade(steps, tilts, lambda fade: find_top(steps, log_delta, fade, far))
    top = find_top(steps, log_delta, fade, far)
    end = find_end(steps, tilts, top, fade)
    return FadedStep("remove", steps.q, steps.sigma, tilts.c, top, fade, end=end)


def _bound_level(step: FadedStep, count: int) -> float:
    """A proved upper bound of log M(c)."""
    _, excess = evaluate_at_zero(step, count, less_one=True)
    return math.log1p(excess) * (1 + 1e-14) + 1e-16


def _bound_far(step: FadedStep, far: Far | None, count: int) -> FarLosses | None:
    """Bound what is faded out of the steps (F1); None where nothing is."""
    if step.top == math.inf:
        return None
    unmoved = step.faded_mass(0.0)
    moved = step.faded_mass(1.0)
    mass = (1 - step.q) * unmoved + step.q * moved
    if mass > 0.5:
        raise OutOfReach
    surplus = step.q * (moved - unmoved)
    spread = step.q * (moved + unmoved)
    overlap = math.exp(-(((step.top - step.bottom) / step.fade) ** 2) / 4)
    if far is None:
        return FarLosses(count, mass, unmoved, surplus, spread, overlap)
    others = FadedStep("add", step.q, step.sigma, far.tilt, math.inf, step.sigma)
    level = _bound_level(others, count)
    log_step = log_faded_share(step, far.tilt)
    return FarLosses(
        count,
        mass,
        unmoved,
        surplus,
        spread,
        overlap,
        far.tilt,
        math.log(count) + log_step + (count - 1) * level + 1e-9,
    )


def _build_whole(
    steps: SampledSteps, tilts: Tilts, far: Far | None, epsilon: float, log_delta: float
) -> FadedContour:
    """Build the contour of all losses together, without a split into bulk and jumps."""
    count = steps.count
    c = tilts.c
    step = _fade_out(steps, tilts, far, log_delta)
    level = _bound_level(step, count)

    def bound_level(tilt: float) -> float:
        return count * _bound_level(step.at_tilt(tilt), count)

    pitch, chernoff = _choose_pitch(tilts, epsilon, log_delta, bound_level)
    goal = log_delta - (count * level - c * epsilon) + math.log(SMALL * math.pi)
    fall = _Fall(step, LineBound(step, 0.0), level, count)
    reach, log_rest = _find_reach(fall.read, pitch, goal)
    y = np.arange(math.ceil(reach / pitch) + 1, dtype=np.float64) * pitch
    lines = fall.lines.with_reach(float(y[-1]))
    panel = evaluate_in_pieces(step, lines, y, count, level, less_one=True)
    logs = log1p_complex(panel.values)
    sizes = np.maximum(np.abs(1 + panel.values), 1e-300)
    errors = count * (
        np.log1p((panel.error + 4 * UNIT * (sizes < 0.5)) / sizes) + 8 * UNIT * np.abs(logs)
    )
    s = np.asarray(c + 1j * y, dtype=np.complex128)
    # the rest is relative to the bound of M(c): relative to the value it is larger
    log_rest += count * (level - float(logs[0].real)) + float(errors[0])
    contour = build_contour(
        c,
        pitch,
        epsilon,
        y,
        1 / (s * (s + 1)),
        count * logs,
        errors,
        math.exp(log_rest) / math.pi * (1 + 1e-9),
        0.0,
        chernoff,
    )
    return FadedContour(contour, _bound_far(step, far, count))


def _choose_pitch(
    tilts: Tilts, epsilon: float, log_delta: float, bound_level: Callable[[float], float]
) -> tuple[float, tuple[tuple[float, float], ...]]:
    """The pitch of the contour, and (c', log of Chernoff's bound at epsilon = 0) for a few c' > c.

    A smaller c' is tried where the first one makes the pitch small (T2).
    """
    ideal = 2 * math.pi * tilts.c / (30.0 - log_delta)
    chernoff: tuple[tuple[float, float], ...] = ()
    pitch = 0.0
    for root in (1, 2, 4, 8):
        larger_tilt = tilts.c * (tilts.larger / tilts.c) ** (1 / root)
        try:
            level = bound_level(larger_tilt)
        except OutOfReach:
            continue
        if level >= 500:
            continue
        chernoff = (*chernoff, (larger_tilt, level + log_payoff(larger_tilt)))
        pitch = choose_step(tilts.c, epsilon, log_delta, chernoff, SMALL)
        if pitch > 0.3 * ideal:
            break
    if not pitch:
        raise OutOfReach
    return pitch, chernoff


def _bound_jumps(bulk: FadedStep, jump: FadedStep, count: int) -> tuple[float, float]:
    """Upper bounds of log J(c), and of log (B(c) + J(c))."""
    _, bulk_excess = evaluate_at_zero(bulk, count, less_one=True)
    _, jumps = evaluate_at_zero(jump, count, less_one=False)
    return math.log(jumps), math.log1p(bulk_excess + jumps) * (1 + 1e-14) + 1e-16


def _build_split(
    steps: SampledSteps, split: Split, far: Far | None, epsilon: float, log_delta: float
) -> FadedContour:
    count = steps.count
    c = split.tilts.c
    fade = min(
        choose_fade(steps, split.tilts, lambda fade: find_top(steps, log_delta, fade, far)),
        choose_fade(steps, split.tilts, lambda fade: split.position - 5 * fade),
    )
    bottom = split.position - 5 * fade
    top = find_top(steps, log_delta, fade, far)
    if top - bottom < _APART * fade:
        raise OutOfReach  # the far losses and the bulk would overlap (S0)
    end = find_end(steps, split.tilts, bottom, fade)
    bulk = FadedStep("remove", steps.q, steps.sigma, c, bottom, fade, end=end)
    end = find_end(steps, split.tilts, top, fade)
    jump = FadedStep("remove", steps.q, steps.sigma, c, top, fade, bottom, end)

    def bound_level(tilt: float) -> float:
        jumps, whole = _bound_jumps(bulk.at_tilt(tilt), jump.at_tilt(tilt), count)
        return math.log(count) + jumps + (count - 1) * whole

    jumps, whole = _bound_jumps(bulk, jump, count)
    level = math.log(count) + jumps + (count - 1) * whole
    pitch, chernoff = _choose_pitch(split.tilts, epsilon, log_delta, bound_level)
    goal = log_delta - (level - c * epsilon) + math.log(SMALL * math.pi)
    lines = LineBound(jump, 0.0)
    reach, log_rest = _find_reach(
        lambda y: min(0.0, float(np.min(lines.read(y, rising=False))) - jumps), pitch, goal
    )
    y = np.arange(math.ceil(reach / pitch) + 1, dtype=np.float64) * pitch
    bulk_panel = evaluate(bulk, LineBound(bulk, float(y[-1])), y, count, less_one=True)
    jump_panel = evaluate_in_pieces(jump, lines, y, count, jumps, less_one=False)
    logs, errors = _subtract_bulk(bulk_panel, jump_panel, count)
    s = np.asarray(c + 1j * y, dtype=np.complex128)
    # the rest is relative to the bound `level`: relative to the value at c it is larger
    log_rest += level - float(logs[0].real) + float(errors[0])
    contour = build_contour(
        c,
        pitch,
        epsilon,
        y,
        1 / (s * (s + 1)),
        logs,
        errors,
        math.exp(log_rest) / math.pi * (1 + 1e-9),
        0.0,
        chernoff,
    )
    return FadedContour(contour, _bound_far(jump, far, count), _bound_bulk(bulk, split, count))


def _bound_bulk(bulk: FadedStep, split: Split, count: int) -> BulkBound:
    """Bound the delta of small losses alone (S3)."""
    edge = bulk.top + 10 * bulk.fade
    beyond = (1 - bulk.q) * float(ndtr(-edge / bulk.sigma))
    beyond += bulk.q * float(ndtr((1 - edge) / bulk.sigma))
    levels = tuple(
        (tilt, count * bound_bulk(bulk, tilt, edge) + log_payoff(tilt) + 1e-9)
        for tilt in (split.bulk_tilt, 1.3 * split.bulk_tilt)
    )
    return BulkBound(levels, 2 * count * beyond * float(ndtr(-10.0)) * (1 + 1e-9))


def _subtract_bulk(bulk: Panel, jump: Panel, count: int) -> tuple[Complex, Real]:
    """Compute log of (B + J)^count - B^count, and bound its relative error as a logarithm (S2)."""
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
    turn = np.angle(difference) + count * log_bulk.imag
    return np.log(value) + 1j * turn, errors


@dataclass(frozen=True)
class _Fall:
    """Bounds on |M(c+iy')|/M(c) of all steps for every y' >= y: shifted lines, or layers."""

    step: FadedStep
    lines: LineBound
    level: float
    count: int

    def read(self, y: float) -> float:
        """Bound the log of |M(c+iy)|^count / M(c)^count from above, by layers and by lines."""
        mass, lengths = self.layers
        gap = float(np.sum(mass * sinc_envelope_gap(0.5 * y * lengths))) * (1 - 1e-9)
        fall = math.log1p(-min(max(gap, 0.0), 1 - 1e-16))
        if self.count < _MANY:
            by_lines = float(np.min(self.lines.read(y, rising=False))) - self.level + 1e-12
            fall = min(fall, by_lines)
        return self.count * fall

    @cached_property
    def layers(self) -> tuple[Real, Real]:
        mass, lengths = self.lines.layers(self.level)
        return mass, lengths


def _find_reach(
    read_fall: Callable[[float], float], pitch: float, goal: float
) -> tuple[float, float]:
    """Choose where to stop, and bound log of what is left out, relative to the value at c (T1)."""

    def bound_rest(y: float) -> float:
        return read_fall(y) - math.log(max(y - pitch, pitch / 2))

    low, high = pitch, 4 * pitch
    while bound_rest(high) > goal:
        low, high = high, high * 2
        if high > _MOST_NODES * pitch:
            raise OutOfReach
    while high / low > 1.1:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if bound_rest(middle) > goal else (low, middle)
    return high, bound_rest(high)


def is_certainly_zero(steps: SampledSteps, log_delta: float) -> bool:
    """Whether the total variation of all steps is below delta: count * q * (2 Phi(1/2 sigma) - 1)
    (Z1)."""
    variation = math.erf(1 / (2 * math.sqrt(2) * steps.sigma)) * (1 + 1e-12)
    return math.log(steps.count) + math.log(steps.q * variation) < log_delta - 1e-9


def is_below(law: RoughLaw, epsilon: float) -> bool:
    """Whether delta at epsilon is certainly below the law's own, by Chernoff's bound (C1)."""
    steps = law.steps
    tilts = law.choose_tilts(law.levels, epsilon)
    step = _fade_out(steps, tilts, None, law.log_delta)
    level = steps.count * _bound_level(step, steps.count) + log_payoff(tilts.c)
    return step.top == math.inf and level - tilts.c * epsilon + 1e-9 < law.log_delta
