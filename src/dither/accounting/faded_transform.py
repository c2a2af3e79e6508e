"""The transform of a faded step on a vertical line, with a proved error.

Trapezoid sums as in `trapezoid.py`, with the weight of the step; the lines of `faded.py` bound the
quadrature. Proofs: docs/proofs/few-steps.md, (W4) and (W5).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from dither.accounting.faded import FadedStep, LineBound
from dither.accounting.transforms import LIBM, UNIT, Complex, Real, pairwise
from dither.accounting.trapezoid import BLOCK, OutOfReach, log_ratio, sum_turns

_LARGEST_PANEL = 300_000_000
_CHUNK = 2048
_MOST_CUTS = 6
_SMALL_PANEL = 6_000_000
_WIDE = 8.0
_APART = 26.0
_MANY = 64


@dataclass(frozen=True)
class Panel:
    """A transform at c + iy for a uniform y, less one where it is near one, with a bound on its
    absolute error."""

    values: Complex
    error: Real


def evaluate(step: FadedStep, lines: LineBound, y: Real, count: int, *, less_one: bool) -> Panel:
    """Compute the transform of a faded step at each y, with its error (Q1 to Q3 with the weight:
    W4).

    Raises OutOfReach where that takes too much.
    """
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
    heights = np.where(nodes <= step.end, height, 0.0)
    plain = np.exp(log_weights - quadratic) * heights
    grown = np.exp(np.minimum(tilt + log_weights - quadratic, 700.0)) * heights
    small = plain * np.expm1(np.minimum(tilt, 1.0))
    terms = np.where(tilt > 1, grown - plain, small) if less_one else grown
    plane = float(pairwise(terms))
    faded = step.faded_mass(0.0) if less_one else 0.0
    lost = 1e-12 * faded + step.overlap if less_one else 0.0
    turns, harder = _sum_in_chunks(loss, grown, y)
    # (Q3) roundoff, with the error of the weight (A3): a part for y = 0, and one that grows with y
    weight_error = UNIT * (24 + 8 * quadratic + 64 * (1 + np.abs(log_weights))) + 4 * LIBM
    depth = 2 + math.ceil(math.log2(len(nodes))) + (BLOCK if harder > 1 else 0)
    sum_error = weight_error + 2 * depth * UNIT
    still = float(np.sum((grown + plain * less_one) * np.abs(tilt) * relative))
    still += float(np.sum(np.abs(terms) * sum_error))
    turning = float(np.sum(grown * np.abs(loss) * (relative + harder * sum_error)))
    error = 1.01 * (still + turning * y + quadrature + tails + lost)
    return Panel(turns + (plane - faded), error)


def _sum_in_chunks(loss: Real, grown: Real, y: Real) -> tuple[Complex, float]:
    """Compute the turning part of the sums, so many nodes at a time that memory stays small."""
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
    """Choose the trapezoid's step, and bound its error by the strip theorem (Q1)."""
    angles = lines.angles
    rising = lines.read(reach, rising=True)
    finest = 38.0 + min(math.log(max(count, 1)), 8.0)
    goal = rising - log_total + finest
    pitch = float(np.max(2 * math.pi * step.variance * angles / np.maximum(goal, 1.0)))
    constant = np.zeros_like(angles)
    if count:
        constant = _bound_constant(step, angles)
        flat = constant + finest - min(log_total, 0.0)
        pitch = min(pitch, float(np.max(2 * math.pi * step.variance * angles / flat)))
    mantissa, exponent = math.frexp(pitch)
    pitch = math.ldexp(math.floor(mantissa * 256) / 256, exponent)
    pull = 2 * math.pi * step.variance * angles / pitch
    logs = np.logaddexp(rising, constant) if count else rising
    errors = np.exp(np.minimum(logs - pull, 700.0)) * (2 / -np.expm1(-pull))
    if step.end < math.inf:
        errors = errors + _bound_cut(step, angles, reach, pitch, pull)
    return pitch, float(np.min(errors))


def _bound_constant(step: FadedStep, angles: Real) -> Real:
    """log of a bound of the integral of |density * weight| on each line: 1 + (2^m - 1) g^m times
    the faded mass, for m decreasing factors that grow by g (W4)."""
    cost = step.variance / 2 * angles**2
    factors = len(step.tops)
    if not factors:
        return np.asarray(cost)
    faded = math.log(max(step.faded_mass(0.0), 1e-300)) + math.log(2**factors - 1)
    return np.asarray(cost + np.logaddexp(0.0, factors * step.grow_weight(angles) + faded) + 1e-9)


def _bound_cut(step: FadedStep, angles: Real, reach: float, pitch: float, pull: Real) -> Real:
    """What the end of the weight costs the trapezoid rule, line by line (W6)."""
    log_end = step.log_end(pitch)
    turn = reach * step.turn_end(pitch)
    turned = np.maximum(0.0, step.line_cost * angles**2 + turn * angles - pull)
    return np.asarray(
        np.exp(np.minimum(log_end + turned, 700.0)) * 2 * (angles * step.variance + pitch)
    )


def _choose_nodes(
    step: FadedStep, lines: LineBound, pitch: float, log_total: float, count: int
) -> tuple[Real, float]:
    """Choose the trapezoid's nodes, and bound what they leave out (Q2)."""
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
    first = first if step.bottoms else min(first, -reserve)
    lowest = min(step.tops, default=math.inf)
    if step.direction == "add" and not step.bottoms:
        last = max(last, min(reserve, lowest + 13 * step.fade))
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
    if not step.bottoms:
        plain = float(ndtr(first / step.sigma))
        if step.direction == "add":
            plain += float(ndtr(-last / step.sigma) * ndtr((lowest - last) / step.fade))
    return nodes, 2 * (out + 2 * rest + 2 * plain)


def evaluate_at_zero(step: FadedStep, count: int, *, less_one: bool) -> tuple[float, float]:
    """The transform at c itself (less one), between two floats."""
    panel = evaluate(step, LineBound(step, 0.0, 3), np.zeros(1), count, less_one=less_one)
    value = float(panel.values[0].real)
    error = float(panel.error[0])
    return value - error, value + error


def evaluate_in_pieces(
    step: FadedStep, lines: LineBound, y: Real, count: int, log_size: float, *, less_one: bool
) -> Panel:
    """Compute the transform of a step, large noises apart: they turn fast, and fall off soon
    (W5).

    `log_size` bounds the logarithm of the transform at c.
    """
    pitch, _ = _choose_pitch(step, lines, float(y[-1]), log_size, 0)
    first = step.bottom if step.bottoms else 0.5 * step.variance
    last = step.top if step.tops else _WIDE * step.sigma
    if (last - first) / pitch * len(y) < _SMALL_PANEL or (less_one and count > _MANY):
        return evaluate(step, lines, y, count, less_one=less_one)
    width = max(7 * step.fade, 0.75 * step.variance)
    room = last - first if step.bottoms else last - first - _APART * step.fade
    cuts = min(math.floor(room / width) - 1, _MOST_CUTS)
    pieces = step.cut([first + width * (i + 1) for i in range(cuts)])
    goal = (-math.log(count) if less_one else log_size) - 41.0
    values = np.zeros(len(y), complex)
    errors = np.zeros(len(y))
    for piece in pieces:
        has_one = less_one and not piece.bottoms
        piece_lines = LineBound(piece, 0.0)
        size = len(y)
        log_rest = -math.inf
        if not has_one:
            size, log_rest = _find_end(piece_lines, y, goal)
        errors[size:] += math.exp(log_rest)
        if not size:
            continue
        piece_lines = piece_lines.with_reach(float(y[size - 1]))
        panel = evaluate(piece, piece_lines, y[:size], count, less_one=has_one)
        values[:size] += panel.values
        errors[:size] += panel.error + 4 * UNIT * np.abs(values[:size])
    return Panel(values, errors)


def _find_end(lines: LineBound, y: Real, goal: float) -> tuple[int, float]:
    """Find how many of the y a piece needs, and bound log |J| at all that follow."""
    bound = float(np.min(lines.read(0.0, rising=False)))
    if bound < goal:
        return 0, bound
    low = 1
    high = len(y)
    bound = math.inf
    while high - low > max(8, low // 8):
        middle = (low + high) // 2
        fall = float(np.min(lines.read(float(y[middle]), rising=False)))
        if fall < goal:
            high = middle
            bound = fall
        else:
            low = middle
    return high, bound
