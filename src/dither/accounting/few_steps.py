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
from dither.accounting.faded import FadedStep, LineBound, bound_bulk, log_faded_share
from dither.accounting.rough_law import (
    SMALL,
    Far,
    RoughLaw,
    SampledSteps,
    Split,
    Tilts,
    choose_fade,
    find_top,
)
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

_MOST_NODES = 40_000
_LARGEST_PANEL = 100_000_000
_CHUNK = 2048
_MANY = 2000
_MOST_CUTS = 6


@dataclass(frozen=True)
class Panel:
    """A transform at c + iy for a uniform y, less one where it is near one, with a bound on its
    absolute error."""

    values: Complex
    error: Real


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
    pitch, quadrature = _choose_pitch(step, lines, reach, log_total, count if less_one else 0)
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
    turns, harder = _sum_in_chunks(loss, grown, y)
    # (Q3) roundoff, with the error of the weight (A3): a part for y = 0, and one that grows with y
    weight_error = UNIT * (24 + 8 * quadratic + 64 * (1 + np.abs(log_weights))) + 4 * LIBM
    depth = 2 + math.ceil(math.log2(len(nodes))) + (BLOCK if harder > 1 else 0)
    sum_error = weight_error + 2 * depth * UNIT
    still = np.sum((grown + plain * less_one) * np.abs(tilt) * relative)
    still = float(still + np.sum(np.abs(terms) * sum_error))
    turning = float(np.sum(grown * np.abs(loss) * (relative + harder * sum_error)))
    error = 1.01 * (still + turning * y + quadrature + tails + 1e-12 * faded)
    return Panel(turns + (plane - faded), error)


def _sum_in_chunks(loss: Real, grown: Real, y: Real) -> tuple[Complex, float]:
    """The turning part of the sums, so many nodes at a time that memory stays small."""
    pieces = []
    harder = 1.0
    for start in range(0, len(loss), _CHUNK):
        chunk = slice(start, start + _CHUNK)
        turns, harder = sum_turns(loss[None, chunk], grown[None, chunk], y)
        pieces.append(turns[0])
    return pairwise(np.array(pieces).T), harder


def _choose_pitch(
    step: FadedStep, lines: LineBound, reach: float, log_total: float, count: int
) -> tuple[float, float]:
    """The trapezoid's step, and its error by the strip theorem (Q1)."""
    angles = lines.angles
    rising = lines.read(reach, rising=True)
    finest = 38.0 + min(math.log(max(count, 1)), 8.0)
    wanted = rising - log_total + finest
    pitch = float(np.max(2 * math.pi * step.variance * angles / np.maximum(wanted, 1.0)))
    if count:
        constant = step.line_cost * angles**2 + finest - min(log_total, 0.0)
        pitch = min(pitch, float(np.max(2 * math.pi * step.variance * angles / constant)))
    mantissa, exponent = math.frexp(pitch)
    pitch = math.ldexp(math.floor(mantissa * 256) / 256, exponent)
    pull = 2 * math.pi * step.variance * angles / pitch
    log_error = float(np.min(rising - pull)) + math.log(2)
    quadrature = math.exp(min(log_error, 700.0)) / -math.expm1(-float(pull[0]))
    if count:
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
class FarLosses:
    """Losses so large that the other steps cannot undo them: their part of delta in closed form
    (F1).

    `mass` and `other_mass` are what is faded out of one step under the two laws of the pair,
    `surplus` their difference; (tilt, level) bounds what the closed form may miss.
    """

    count: int
    mass: float
    other_mass: float
    surplus: float
    tilt: float = 0.0
    level: float = math.inf

    def delta(self, epsilon: float) -> Bounds:
        """What the faded losses add to delta: at least P(A) - e^epsilon Q(A), at most P(A)."""
        total = -math.expm1(self.count * math.log1p(-min(self.mass, 0.5)))
        stays = self.count * math.log1p(-min(self.other_mass, 0.5))
        shrinks = self.count * math.log1p(-self.surplus / (1 - self.other_mass))
        certain = math.exp(stays) * -math.expm1(shrinks)
        certain -= math.expm1(min(epsilon, 700.0)) * -math.expm1(stays)
        blur = 1e-12 * (total + math.exp(min(epsilon, 700.0)) * -math.expm1(stays))
        blur = min(blur, 1e-12 * total * (1 + epsilon) + 1e-12 * abs(certain))
        log_missed = self.level + (self.tilt + 1) * epsilon
        missed = math.exp(min(log_missed, 0.0)) * (1 + 1e-9)
        upper = min(total * (1 + 1e-12), max(certain, 0.0) + blur + missed)
        return Bounds(max(0.0, certain - blur), upper)


@dataclass(frozen=True)
class BulkBound:
    """Chernoff's bounds on the sum of small losses, and the mass that they leave aside (S3)."""

    levels: tuple[tuple[float, float], ...]
    aside: float

    def delta(self, epsilon: float) -> float:
        """An upper bound of what the small losses alone add to delta."""
        log_bulk = min(level - tilt * epsilon for tilt, level in self.levels)
        return (math.exp(min(log_bulk, 0.0)) + self.aside) * (1 + 1e-9)


@dataclass(frozen=True)
class FadedContour:
    """A contour over faded steps, the losses that were faded out and bounds on the small ones."""

    contour: Contour
    far: FarLosses | None
    bulk: BulkBound | None = None

    def delta(self, epsilon: float) -> Bounds:
        """A bracket of delta at epsilon."""
        lower, upper = self.contour.delta(epsilon)
        if self.far is not None:
            far = self.far.delta(epsilon)
            lower = lower + far.lower
            upper = upper + far.upper
        if self.bulk is not None:
            upper = upper + self.bulk.delta(epsilon)
        return Bounds(lower * (1 - 4 * UNIT), min(1.0, up(upper) * (1 + 4 * UNIT)))


def build(law: RoughLaw, epsilon: float) -> FadedContour:
    """A contour for deltas around exp(log_delta) at epsilons around `epsilon`."""
    steps = law.steps
    log_delta = law.log_delta
    far = law.choose_far(epsilon)
    split = law.choose_split(epsilon)
    if split is not None:
        try:
            return _build_split(steps, split, far, epsilon, log_delta)
        except OutOfReach:
            pass
    tilts = law.choose_tilts(law.levels, epsilon)
    return _build_whole(steps, tilts, far, epsilon, log_delta)


def _fade_out(
    steps: SampledSteps, tilts: Tilts, far: Far | None, log_delta: float
) -> FadedStep:
    if steps.direction == "add":
        return FadedStep("add", steps.q, steps.sigma, tilts.c, math.inf, steps.sigma)
    fade = choose_fade(steps, tilts, lambda fade: find_top(steps, log_delta, fade, far))
    top = find_top(steps, log_delta, fade, far)
    return FadedStep("remove", steps.q, steps.sigma, tilts.c, top, fade)


def _bound_level(step: FadedStep, count: int) -> float:
    """A proved upper bound of log M(c)."""
    _, excess = _evaluate_at_zero(step, count, less_one=True)
    return math.log1p(excess) * (1 + 1e-14) + 1e-16


def _bound_far(step: FadedStep, far: Far | None, count: int) -> FarLosses | None:
    """What is faded out of the steps (F1)."""
    if step.top == math.inf:
        return None
    unmoved = step.faded_mass(0.0)
    moved = step.faded_mass(1.0)
    mass = (1 - step.q) * unmoved + step.q * moved
    surplus = step.q * (moved - unmoved)
    if far is None:
        return FarLosses(count, mass, unmoved, surplus)
    others = FadedStep("add", step.q, step.sigma, far.tilt, math.inf, step.sigma)
    level = _bound_level(others, count)
    log_step = log_faded_share(step, far.tilt)
    return FarLosses(
        count, mass, unmoved, surplus, far.tilt,
        math.log(count) + log_step + (count - 1) * level + 1e-9,
    )


def _build_whole(
    steps: SampledSteps, tilts: Tilts, far: Far | None, epsilon: float, log_delta: float
) -> FadedContour:
    count = steps.count
    c = tilts.c
    step = _fade_out(steps, tilts, far, log_delta)
    level = _bound_level(step, count)
    chernoff = _bound_by_chernoff(
        tilts, lambda other: count * _bound_level(step.at_tilt(other), count)
    )
    pitch = choose_step(c, epsilon, log_delta, chernoff, SMALL)
    wanted = log_delta - (count * level - c * epsilon) + math.log(SMALL * math.pi)
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
    return FadedContour(contour, _bound_far(step, far, count))


def _bound_by_chernoff(
    tilts: Tilts, bound_level: Callable[[float], float]
) -> tuple[tuple[float, float], ...]:
    """(c', log of Chernoff's bound at epsilon = 0) for a c' > c: the first within reach (T2)."""
    for root in (1, 2, 4, 8):
        other = tilts.c * (tilts.larger / tilts.c) ** (1 / root)
        try:
            level = bound_level(other)
        except OutOfReach:
            continue
        if level < 500:
            return ((other, level + log_payoff(other)),)
    raise OutOfReach


def _evaluate_at_zero(step: FadedStep, count: int, *, less_one: bool) -> tuple[float, float]:
    """The transform at c itself (less one), between two floats."""
    panel = evaluate(step, LineBound(step, 0.0, 3), np.zeros(1), count, less_one=less_one)
    value = float(panel.values[0].real)
    error = float(panel.error[0])
    return value - error, value + error


def _bound_jumps(bulk: FadedStep, jump: FadedStep, count: int) -> tuple[float, float]:
    """Upper bounds of log J(c), and of log (B(c) + J(c))."""
    _, bulk_excess = _evaluate_at_zero(bulk, count, less_one=True)
    _, jumps = _evaluate_at_zero(jump, count, less_one=False)
    return math.log(jumps), math.log1p(bulk_excess + jumps) * (1 + 1e-14) + 1e-16


def _build_split(
    steps: SampledSteps, split: Split, far: Far | None, epsilon: float, log_delta: float
) -> FadedContour:
    count = steps.count
    c = split.tilts.c
    fade = min(
        choose_fade(steps, split.tilts, lambda fade: find_top(steps, log_delta, fade, far)),
        choose_fade(steps, split.tilts, lambda fade: split.place - 5 * fade),
    )
    bottom = split.place - 5 * fade
    top = find_top(steps, log_delta, fade, far)
    bulk = FadedStep("remove", steps.q, steps.sigma, c, bottom, fade)
    jump = FadedStep("remove", steps.q, steps.sigma, c, top, fade, bottom)

    def bound_level(other: float) -> float:
        jumps, whole = _bound_jumps(bulk.at_tilt(other), jump.at_tilt(other), count)
        return math.log(count) + jumps + (count - 1) * whole

    level = bound_level(c)
    chernoff = _bound_by_chernoff(split.tilts, bound_level)
    pitch = choose_step(c, epsilon, log_delta, chernoff, SMALL)
    wanted = log_delta - (level - c * epsilon) + math.log(SMALL * math.pi)
    jumps, whole = _bound_jumps(bulk, jump, count)
    lines = LineBound(jump, 0.0)
    reach, log_rest = _find_reach(
        lambda y: min(0.0, float(np.min(lines.read(y, rising=False))) - jumps), pitch, wanted
    )
    y = np.arange(math.ceil(reach / pitch) + 1, dtype=np.float64) * pitch
    bulk_panel = evaluate(bulk, LineBound(bulk, float(y[-1])), y, count, less_one=True)
    jump_panel = _evaluate_in_pieces(jump, y, count, jumps)
    logs, errors = _subtract_bulk(bulk_panel, jump_panel, count)
    s = np.asarray(c + 1j * y, dtype=np.complex128)
    # the rest is relative to the bound `level`: relative to the value at c it is larger
    log_rest += level - float(logs[0].real) + float(errors[0])
    contour = build_contour(
        c, pitch, epsilon, y, 1 / (s * (s + 1)), logs, errors,
        math.exp(log_rest) / math.pi * (1 + 1e-9), 0.0, chernoff,
    )
    return FadedContour(contour, _bound_far(jump, far, count), _bound_bulk(bulk, split, count))


def _evaluate_in_pieces(jump: FadedStep, y: Real, count: int, log_jumps: float) -> Panel:
    """The transform of the jumps, large ones apart: they turn fast, and fall off soon (W5)."""
    width = max(14 * jump.fade, 1.5 * jump.variance)
    cuts = math.floor((jump.top - jump.bottom) / width) - 1
    places = [jump.bottom + width * (i + 1) for i in range(min(cuts, _MOST_CUTS))]
    values = np.zeros(len(y), complex)
    errors = np.zeros(len(y))
    for piece in jump.cut(places):
        lines = LineBound(piece, 0.0)
        size, log_rest = _find_end(lines, y, log_jumps - 41.0)
        panel = evaluate(piece, LineBound(piece, float(y[size - 1])), y[:size], count, less_one=False)
        values[:size] += panel.values
        errors[:size] += panel.error + 4 * UNIT * np.abs(values[:size])
        errors[size:] += math.exp(log_rest)
    return Panel(values, errors)


def _find_end(lines: LineBound, y: Real, wanted: float) -> tuple[int, float]:
    """How many of the y a piece needs, and a bound on log |J| at all that follow."""
    low = 1
    high = len(y)
    bound = math.inf
    while high - low > max(8, low // 8):
        middle = (low + high) // 2
        fall = float(np.min(lines.read(float(y[middle]), rising=False)))
        if fall < wanted:
            high = middle
            bound = fall
        else:
            low = middle
    return high, bound


def _bound_bulk(bulk: FadedStep, split: Split, count: int) -> BulkBound:
    """Bounds on the delta of small losses alone (S3)."""
    edge = bulk.top + 10 * bulk.fade
    beyond = (1 - bulk.q) * float(ndtr(-edge / bulk.sigma))
    beyond += bulk.q * float(ndtr((1 - edge) / bulk.sigma))
    levels = tuple(
        (tilt, count * bound_bulk(bulk, tilt, edge) + log_payoff(tilt) + 1e-9)
        for tilt in (split.bulk_tilt, 1.3 * split.bulk_tilt)
    )
    return BulkBound(levels, count * beyond * float(ndtr(-10.0)) * (1 + 1e-9))


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
