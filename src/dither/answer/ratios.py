"""Ends of a ratio of two affine functions of released numbers (AVG, shares, percentages).

They are found by inverting Fieller's test.

A number r is kept iff |N - r D| is no larger than the noise of N - r D is with the probability
asked for. As an angle, r = tan(phi), the size of the noise of cos(phi) N - sin(phi) D is tabulated:
as a certain bound where noises are independent (coverage is at least the level), by points where
several numbers share a box (about the level). Proof: docs/proofs/intervals.md#ratios.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dither.answer import draws
from dither.answer.draws import NoiseLaw
from dither.answer.sums import find_sum_bound, find_union_bound

Floats = NDArray[np.float64]
Ends = tuple[Floats, Floats]
Weights = dict[tuple[int, int], tuple[float, NoiseLaw]]
"""The weight and the law of every released number that one side of a ratio reads."""
FEW = 6
"""Dimensions that points fill."""
_ANGLES = 128
_DIGITS = 1e-9
_ROWS = 1 << 12
_CELLS = 1 << 12
_TURNING = Fraction(1, 50)
"""The part of the miss that pays for angles between those of the table."""


def find_ratio_ends(top: Weights, bottom: Weights, y: Floats, x: Floats, level: Fraction) -> Ends:
    """Find the interval of a ratio: all r for which noise alone can explain |N - r D|.

    `top` and `bottom` are the weighted noises of numerator N and denominator D, `y` and `x` their
    released values, one for each row.
    """
    positions = sorted({*top, *bottom})
    laws = tuple((top.get(position) or bottom[position])[1] for position in positions)
    upper = np.array([top[position][0] if position in top else 0.0 for position in positions])
    lower = np.array([bottom[position][0] if position in bottom else 0.0 for position in positions])
    deviations = np.array([law.deviation for law in laws])
    size_below = _find_unit(lower * deviations, x)
    size_above = _find_unit(upper * deviations, y)
    bounds = _tabulate_bounds(laws, tuple(upper / size_above), tuple(lower / size_below), level)
    return _invert_test(x / size_below, y / size_above, bounds, size_above / size_below)


def _find_unit(deviations: Floats, values: Floats) -> float:
    """Choose the unit in which numerator or denominator is counted.

    Any will do; one far below the values would leave no digits to the angles.
    """
    return (
        max(float(np.linalg.norm(deviations)), _DIGITS * float(np.abs(values).max(initial=0.0)))
        or 1.0
    )


def _make_angles() -> Floats:
    return np.linspace(-math.pi / 2, math.pi / 2, _ANGLES + 1)


@lru_cache(maxsize=64)
def _tabulate_bounds(
    laws: tuple[NoiseLaw, ...], above: tuple[float, ...], below: tuple[float, ...], level: Fraction
) -> Floats:
    """At every angle a size that the noise of cos(phi) N - sin(phi) D keeps with this probability.

    Between two angles the larger of their sizes holds: for certain where noises are independent,
    about where several are numbers of one box. Sizes are found at angles twice as dense, and what
    noise can add on the way to the nearest of them is added: a turn by t moves cos(phi) A -
    sin(phi) B by at most t sqrt(A^2 + B^2), hence by at most t times the sum of |noise|
    sqrt(upper^2 + lower^2). A fiftieth of the miss pays for the bound of that sum.
    """
    upper = np.array(above)
    lower = np.array(below)
    turning = (1 - level) * _TURNING
    sizes = _tabulate_sizes(laws, upper, lower, level + turning)
    turn = math.pi / (4 * _ANGLES)
    added = turn * find_union_bound(laws, tuple(np.hypot(upper, lower)), 1 - turning)
    # Half a turn further is the same line.
    around = np.concatenate([sizes[-2:-1], sizes, sizes[1:2]])
    largest: Floats = np.maximum(np.maximum(around[:-2], around[1:-1]), around[2:])[::2]
    return largest + added


def _tabulate_sizes(
    laws: tuple[NoiseLaw, ...], upper: Floats, lower: Floats, level: Fraction
) -> Floats:
    """Find the size of the noise at twice as many angles, from one quarter turn to the other."""
    angles = np.linspace(-math.pi / 2, math.pi / 2, 2 * _ANGLES + 1)
    weights = np.outer(np.cos(angles), upper) - np.outer(np.sin(angles), lower)
    # Noise is symmetric: then an angle and its mirror image have one size.
    is_mirrored = not np.any(upper * lower)
    kept = weights[_ANGLES:] if is_mirrored else weights
    count = draws.count_size_points(float(level))
    if len(laws) > 1 and any(law.joint is not None for law in laws) and count and len(laws) <= FEW:
        drawn = draws.draw_sizes(laws, count)
        sizes = np.array(
            [
                draws.find_size_quantile(drawn @ angle_weights, float(level))
                for angle_weights in kept
            ]
        )
    else:
        sizes = np.array(
            [find_sum_bound(laws, tuple(angle_weights), level, _CELLS) for angle_weights in kept]
        )
    return np.concatenate([sizes[:0:-1], sizes]) if is_mirrored else sizes


def _invert_test(x: Floats, y: Floats, bounds: Floats, unit: float) -> Ends:
    """Find the outermost kept angles on both sides of the released one, as ends of the ratio.

    No bound if the vertical (D = 0) is kept.
    """
    x, y = np.broadcast_arrays(x, y)
    starts = range(0, max(1, len(x)), _ROWS)
    ends = [
        _find_outermost(x[start : start + _ROWS], y[start : start + _ROWS], bounds)
        for start in starts
    ]
    low, high = (unit * np.tan(np.concatenate(angles)) for angles in zip(*ends, strict=True))
    bounded = np.abs(x) > max(bounds[0], bounds[-1])
    return np.where(bounded, low, np.nan), np.where(bounded, high, np.nan)


def _find_outermost(x: Floats, y: Floats, bounds: Floats) -> Ends:
    """Find the least and the largest phi with |y cos(phi) - x sin(phi)| <= s in each row.

    The bound s is constant on each segment of angles. The left side is r |sin(phi - centre)|: on a
    segment the kept angles are those within asin(s/r) of the centre, or of the centre and half a
    turn, which is the same line.
    """
    edges = _make_angles()
    segment = np.maximum(bounds[:-1], bounds[1:])
    size = np.hypot(x, y)[:, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        centre = np.where(x != 0, np.arctan(y / x), math.pi / 2)[:, None]
        near = (
            np.arcsin(np.minimum(np.where(size > 0, segment / size, 1.0), 1.0)) * (1 + 1e-12)
            + 1e-15
        )
    least = centre[:, 0]
    greatest = centre[:, 0]
    for turn in (0.0, -math.pi, math.pi):
        first = np.maximum(centre + turn - near, edges[:-1])
        last = np.minimum(centre + turn + near, edges[1:])
        least = np.minimum(least, np.where(first <= last, first, math.inf).min(axis=1))
        greatest = np.maximum(greatest, np.where(first <= last, last, -math.inf).max(axis=1))
        if turn == 0.0 and bool(np.all(np.abs(centre) + near < math.pi / 2)):
            break  # none of the other two reaches any segment
    return least, greatest
