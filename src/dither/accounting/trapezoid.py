"""Trapezoid sums for the sampled Gaussian, many rows at once, each with its proved error: (Q1) to
(Q3).

A row is one rate, noise and real part c; all rows share the imaginary parts y.
Bounds: docs/proofs/contour-accounting.md.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr

from dither.accounting.transforms import (
    LIBM,
    UNIT,
    Complex,
    Real,
    log1p_complex,
    log_error,
    pairwise,
    rounded_one,
)

Kind = Literal["remove", "add", "swap"]
_ANGLES = np.linspace(0.02, 1.0, 40) * (math.pi / 2)
_LARGEST_PANEL = 12_000_000
_LONGEST_RULE = 100_000
_CHUNK = 250_000
_LONG = 64
BLOCK = 32
_ONE_THREAD = 250_000
"""Multiplications of one matrix product that OpenBLAS still does in one thread."""
_KEPT = 4096


class OutOfReach(Exception):
    """The proved error cannot be made small with a bearable number of nodes: another engine must
    serve."""


class QuadratureRow(NamedTuple):
    """One rate, noise and real part; the quadrature errs by 2^finest of M(c), the tails by e^-(50 +
    reserve).

    Rate, noise and variance are the exact ones rounded to floats: their roundoff is part of (Q3).
    """

    q: float
    sigma: float
    variance: float
    c: float
    finest: int
    reserve: int


_kept_rows: OrderedDict[tuple[Kind, QuadratureRow, float], tuple[Complex, Real]] = OrderedDict()


def rows(kind: Kind, goal: Sequence[QuadratureRow], y: Real) -> tuple[Complex, Real]:
    """(log M(c+iy), bound on its absolute error) of one copy, a row each; rows on a uniform y are
    kept."""
    logs, errors, _ = rows_and_levels(kind, goal, y, ())
    return logs, errors


def rows_and_levels(
    kind: Kind, goal: Sequence[QuadratureRow], y: Real, still: Sequence[QuadratureRow]
) -> tuple[Complex, Real, list[float]]:
    """Compute log M for the rows `goal` with error bounds, and upper bounds of log M(c) for
    `still`.

    The few rows `still` are taken along with them.
    """
    uniform = len(y) == 1 or (y[0] == 0.0 and bool(np.all(y == np.arange(len(y)) * y[1])))
    pitch = float(y[1]) if len(y) > 1 else 0.0
    logs = np.empty((len(goal), len(y)), complex)
    errors = np.empty((len(goal), len(y)))
    missing = []
    for index, row in enumerate(goal):
        kept = _kept_rows.get((kind, row, pitch)) if uniform else None
        if kept is None or len(kept[0]) < len(y) or (len(y) == 1 and y[0] != 0.0):
            missing.append(index)
        else:
            logs[index] = kept[0][: len(y)]
            errors[index] = kept[1][: len(y)]
    unknown = [row for row in still if (kind, row, 0.0) not in _kept_rows]
    for chunk in _chunks(kind, goal, missing, y) or ([[]] if unknown else []):
        moving, standing = _evaluate(kind, [goal[index] for index in chunk], y, unknown)
        for row, row_logs, row_errors in zip(unknown, *standing, strict=True):
            _kept_rows[kind, row, 0.0] = (row_logs, row_errors)
        unknown = []
        logs[chunk], errors[chunk] = moving
        if uniform and y[0] == 0.0:
            for index, row_logs, row_errors in zip(chunk, *moving, strict=True):
                _kept_rows[kind, goal[index], pitch] = (row_logs, row_errors)
    levels = [
        float(row_logs[0].real) + float(row_errors[0])
        for row_logs, row_errors in (_kept_rows[kind, row, 0.0] for row in still)
    ]
    while len(_kept_rows) > _KEPT:
        _kept_rows.popitem(last=False)
    return logs, errors, levels


def forget() -> None:
    """Drop the rows that were kept (a cold start, for measuring)."""
    _kept_rows.clear()


def _chunks(
    kind: Kind, goal: Sequence[QuadratureRow], missing: list[int], y: Real
) -> list[list[int]]:
    """Rows that are evaluated together, so many that their panel stays small."""
    if not missing:
        return []
    wide = len(y) if len(y) < _LONG else 4 * math.isqrt(len(y))
    size = max(1, _CHUNK // (400 * wide))
    return [missing[start : start + size] for start in range(0, len(missing), size)]


class _Rule(NamedTuple):
    nodes: Real
    step: Real
    quadratic: Real
    height: Real
    weights: Real
    base: Real
    loss: Real
    loss_relative: Real
    weight_relative: Real


_Panel = tuple[Complex, Real]


def _evaluate(
    kind: Kind, goal: Sequence[QuadratureRow], y: Real, still: Sequence[QuadratureRow] = ()
) -> tuple[_Panel, _Panel]:
    """Values and errors at all y of the rows that are wanted, and at zero of the rows that stand
    still."""
    q, sigma, variance, c, finest, reserve = np.array([*goal, *still], dtype=np.float64).T
    moving = len(goal)
    reach = np.zeros(len(q))
    reach[:moving] = np.abs(y).max(initial=0.0)
    step, quadrature = _steps(kind, variance, c, reach, finest)
    ends = _ends(kind, q, sigma, c, step, reserve)
    if (ends[1] - ends[0] + 1) * len(y) > _LARGEST_PANEL:
        raise OutOfReach
    rule = _rule(kind, q, sigma, variance, ends, step)
    tilt = rule.base + c[:, None] * rule.loss
    exponent = tilt - rule.quadratic
    top = exponent.max(axis=1)
    shift = np.where(top > 1.0, top, 0.0)
    near = shift == 0.0
    grown = np.exp(exponent - shift[:, None]) * rule.height[:, None]
    # weight * (e^tilt - 1), the difference of two exponentials where e^tilt alone might overflow
    excess_terms = np.where(
        tilt > 1, grown - rule.weights, rule.weights * np.expm1(np.minimum(tilt, 1.0))
    )
    plane = pairwise(np.where(near[:, None], excess_terms, grown)) - np.where(near, 0.0, 1.0)
    turn, harder = (
        sum_turns(rule.loss[:moving], grown[:moving], y)
        if moving
        else (np.zeros((0, len(y)), complex), 1.0)
    )
    absolute = _roundoff(rule, c, reach, grown, excess_terms, near, harder)
    absolute += 4 * UNIT * shift * grown.sum(axis=1)
    absolute += 2 * quadrature * np.maximum(1.0 + plane, np.exp(-shift)) + _tails(
        kind, q, sigma, c, rule, shift
    )
    excess = np.concatenate([(plane[:moving, None] + turn).ravel(), plane[moving:]])
    columns = np.where(np.arange(len(q)) < moving, len(y), 1)
    logs = log1p_complex(excess) + np.repeat(shift, columns)
    size = np.abs(1 + excess)
    error = log_error(np.repeat(absolute, columns) + rounded_one(size), size) + 6 * UNIT * np.abs(
        logs
    )
    cut = moving * len(y)
    shape = (moving, len(y))
    return (logs[:cut].reshape(shape), error[:cut].reshape(shape)), (
        logs[cut:, None],
        error[cut:, None],
    )


def sum_turns(loss: Real, grown: Real, y: Real) -> tuple[Complex, float]:
    """The sum of grown * (e^{i y loss} - 1), and by how much the roundoff bound grows for the way
    it was taken.

    Short: u = 2 sin^2(y loss/2) and sin(y loss) outright. Long and uniform: y = y1 + y2 on two
    short grids, and u = u1 + u2 - u1 u2 + s1 s2, s = s1 + s2 - s1 u2 - s2 u1, sums of products
    taken as matrix products in blocks.
    """
    if len(y) < _LONG or y[0] != 0.0 or not np.all(y == np.arange(len(y)) * y[1]):
        phase = y[None, :, None] * loss[:, None, :]
        real = -2 * pairwise(np.sin(0.5 * phase) ** 2 * grown[:, None, :])
        return np.asarray(real + 1j * pairwise(np.sin(phase) * grown[:, None, :])), 1.0
    fine = math.isqrt(len(y))
    coarse = -(-len(y) // fine)
    shape = (len(loss), -1, 1, BLOCK)
    loss = loss.reshape(shape)
    grown = grown.reshape(shape)
    first = np.arange(fine)[:, None] * y[1] * loss
    second = np.arange(coarse)[:, None] * (fine * y[1]) * loss
    near = np.concatenate([2 * np.sin(first / 2) ** 2, np.sin(first), np.ones_like(grown)], axis=2)
    far = (
        np.concatenate([2 * np.sin(second / 2) ** 2, np.sin(second), np.ones_like(grown)], axis=2)
        * grown
    )
    joined = _multiply_blocks(far, near)
    u2 = joined[:, :coarse]
    s2 = joined[:, coarse:-1]
    one2 = joined[:, -1:]
    u1 = slice(fine)
    s1 = slice(fine, 2 * fine)
    one1 = slice(2 * fine, None)
    turns = np.empty((len(loss), coarse, fine), complex)
    turns.real = u2[..., u1] - s2[..., s1] - u2[..., one1] - one2[..., u1]
    turns.imag = one2[..., s1] + s2[..., one1] - s2[..., u1] - u2[..., s1]
    return turns.reshape(len(loss), -1)[:, : len(y)], 8.0


def _multiply_blocks(far: Real, near: Real) -> Real:
    """Sum the products of `far` and `near` over the nodes: inside a block in any order, blocks by
    halving.

    So few rows at a time that BLAS works in one thread: its other threads would mostly wait, at
    the cost of as much processor time again.
    """
    turned = np.swapaxes(near, -1, -2)
    size = max(1, _ONE_THREAD // (BLOCK * near.shape[2]))
    pieces = []
    for start in range(0, far.shape[2], size):
        products = np.matmul(far[:, :, start : start + size], turned)
        while products.shape[1] > 1:
            half = products.shape[1] // 2
            products[:, :half] += products[:, half : 2 * half]
            if products.shape[1] % 2:
                products[:, half] = products[:, -1]
            products = products[:, : products.shape[1] - half]
        pieces.append(products[:, 0])
    return np.concatenate(pieces, axis=1)


def _steps(kind: Kind, variance: Real, c: Real, reach: Real, finest: Real) -> tuple[Real, Real]:
    """The largest short dyadic steps whose quadrature error, relative to M(c), is at most 2^finest
    (Q1)."""
    turns = 2.0 if kind == "swap" else 1.0
    growth = variance[:, None] * _ANGLES**2 / 2 + turns * reach[:, None] * _ANGLES
    if kind != "remove":
        growth = growth - c[:, None] * np.log(np.cos(_ANGLES / 2))
    goal = growth - finest[:, None] * math.log(2) + 2.0
    mantissa, exponent = np.frexp((2 * math.pi * variance[:, None] * _ANGLES / goal).max(axis=1))
    step = np.ldexp(np.floor(mantissa * 256) / 256, exponent)
    pull = 2 * math.pi * variance / step
    best = (growth - pull[:, None] * _ANGLES).min(axis=1)
    return step, 2.0 * np.exp(best) / -np.expm1(-pull * float(_ANGLES[0]))


def _ends(kind: Kind, q: Real, sigma: Real, c: Real, step: Real, reserve: Real) -> tuple[int, int]:
    """First and last index of the nodes, wide enough for every row."""
    room = sigma * np.sqrt(2 * (50.0 + reserve))
    left, right = room, room
    if kind == "add":
        left = np.maximum(
            left, np.minimum(c + room, sigma * np.sqrt(2 * (50 + reserve - c * np.log1p(-q))))
        )
    else:
        right = c + 1 + room
    if kind == "swap":
        right = right + sigma * np.sqrt(-2 * c * np.log1p(-q))
    first = float((left / step).max())
    last = float((right / step).max())
    if not first + last <= _LONGEST_RULE:
        raise OutOfReach
    low = -math.ceil(first) - 1
    high = math.ceil(last) + 1
    return low, high + (low - high - 1) % BLOCK


def _tails(kind: Kind, q: Real, sigma: Real, c: Real, rule: _Rule, shift: Real) -> Real:
    """e^-shift times the sum beyond the nodes (Q2), by convexity of powers."""
    left = -rule.nodes[:, 0] - rule.step
    right = rule.nodes[:, -1] - rule.step
    power = c + 1
    centre = c * (c + 1) / (2 * sigma * sigma)
    moved_place = left - c if kind == "add" else right - power
    far_left, far_right, far_moved = (
        log_ndtr(np.array([-left, -right, -moved_place]) / sigma) - shift
    )
    plain = np.exp(far_left) + np.exp(far_right)
    if kind == "add":
        rest = np.array([far_moved + centre + np.log(q), far_left - c * np.log1p(-q)])
        moved_tail, plain_tail = np.exp(np.minimum(rest, 700.0))
        return np.asarray(4 * (plain + np.minimum(np.exp(far_left) + moved_tail, plain_tail)))
    # (1-q + qw)^p <= (1-q) + q w^p, or lambda^{1-p} (1-q)^p + (1-lambda)^{1-p} (qw)^p for any
    # lambda
    log_q = np.log(q)
    firsts = np.exp(np.minimum(far_right + c * _LOG_SHARES, 700.0))
    seconds = far_moved + centre + log_q + c * (_LOG_RESTS + _POWERS * log_q)
    moved = np.min(firsts + np.exp(np.minimum(seconds, 700.0)), axis=0)
    if kind == "swap":
        more = -c * np.log1p(-q)
        with np.errstate(over="ignore"):
            moved = np.where(more < 700, moved * np.exp(np.minimum(more, 700.0)), np.inf)
    return np.asarray(4 * (plain + moved))


_SHARES = (0.5, 0.1, 0.01)
_LOG_SHARES = np.array([0.0, *(-math.log(share) for share in _SHARES)])[:, None]
_LOG_RESTS = np.array([0.0, *(-math.log1p(-share) for share in _SHARES)])[:, None]
_POWERS = np.array([0.0, 1.0, 1.0, 1.0])[:, None]


def _roundoff(
    rule: _Rule,
    c: Real,
    reach: Real,
    grown: Real,
    excess: Real,
    near: NDArray[np.bool_],
    harder: float,
) -> Real:
    """Roundoff of the sums (Q3), with |y| at its largest."""
    size = np.abs(rule.loss)
    modulus = np.abs(rule.base) + (c + reach)[:, None] * size
    turned = np.minimum(2.0, reach[:, None] * size)
    terms = np.where(near[:, None], np.abs(excess), grown + rule.weights) + harder * grown * turned
    node_errors = (grown + rule.weights) * modulus * rule.loss_relative + terms * (
        rule.weight_relative + 4 * LIBM
    )
    depth = 2 + math.ceil(math.log2(terms.shape[1])) + (BLOCK if harder > 1 else 0)
    return np.asarray(1.01 * (node_errors + (2 * depth * UNIT) * terms).sum(axis=1))


def log_ratio(q: float | Real, x: Real) -> tuple[Real, Real]:
    """log(1 - q + q e^x) and a bound on its relative error (in units of 1)."""
    grown = q * np.expm1(np.minimum(x, 600.0))
    value = np.log1p(grown)
    if x.max(initial=0.0) > 600.0:
        value = np.where(x > 600.0, x + np.log(q), value)
    with np.errstate(divide="ignore", invalid="ignore"):
        amplify = np.abs(grown) / ((1 + grown) * np.abs(value))
    amplify = np.where(np.isfinite(amplify), np.maximum(amplify, 1.0), 2.0)
    return np.asarray(value), np.asarray(UNIT * (8 + amplify * (24 + 4 * np.abs(x))))


def _rule(
    kind: Kind, q: Real, sigma: Real, variance: Real, ends: tuple[int, int], step: Real
) -> _Rule:
    q = q[:, None]
    variance = variance[:, None]
    nodes = np.arange(ends[0], ends[1] + 1, dtype=np.float64) * step[:, None]
    quadratic = nodes * nodes / (2 * variance)
    height = step / (sigma * math.sqrt(2 * math.pi))
    weights = np.exp(-quadratic) * height[:, None]
    forward, relative = log_ratio(q, (2 * nodes - 1) / (2 * variance))
    if kind == "remove":
        base = forward
        loss = forward
    elif kind == "add":
        base = np.zeros_like(forward)
        loss = -forward
    else:
        backward, other = log_ratio(q, (-2 * nodes - 1) / (2 * variance))
        base = forward
        loss = forward - backward
        absolute = np.abs(forward) * relative + np.abs(backward) * other
        with np.errstate(divide="ignore", invalid="ignore"):
            joined = np.maximum(relative, absolute / np.abs(loss)) + UNIT
        # at y = 0 the loss vanishes by antisymmetry, and so does its error
        relative = np.where(loss == 0.0, relative, joined)
    return _Rule(
        nodes, step, quadratic, height, weights, base, loss, relative, UNIT * (24 + 8 * quadratic)
    )
