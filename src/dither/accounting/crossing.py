"""Where a curve that is known by brackets crosses a target. Nothing about the search needs to be
trusted.

The upper end is a place at which the *upper* bound is at most the target, the lower end one at
which the *lower* bound is at least the target, and the curve does not increase.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from dither.accounting.bounds import Bounds


def invert(
    curve: Callable[[float], Bounds],
    target: float,
    target_upper: float,
    guess: float,
    slope: float,
    certain: bool = False,
) -> tuple[Bounds, float]:
    """Bracket where a non-increasing curve crosses a target between `target` and `target_upper`.

    The curve is known by brackets. Also returns the slope of its logarithm there. `certain` saves a
    look at zero, where the curve may start below the target; without that look the answer is just
    wider.
    """
    brackets: dict[float, Bounds] = {}

    def read_bracket(point: float) -> Bounds:
        if point not in brackets:
            brackets[point] = curve(point)
        return brackets[point]

    if not certain and read_bracket(0.0).upper <= target:
        return Bounds(0.0, 0.0), slope
    upper, slope = _find_crossing(read_bracket, 1, target, max(guess, 1e-15), slope)
    if not math.isfinite(upper):
        return Bounds(0.0, math.inf), slope
    lower, slope = _find_crossing(read_bracket, 0, target_upper, upper, slope)
    return Bounds(min(upper, lower), upper), slope


def _find_crossing(
    curve: Callable[[float], Bounds], end: int, target: float, guess: float, slope: float
) -> tuple[float, float]:
    """Where the lower (end 0) or upper (end 1) bound of the curve crosses the target, on the safe
    side; and its slope.

    Guarded Newton on logarithms. The safe side: an upper bound is at most the target there, a lower
    bound at least. It stops when the place moves the bound by a fifth of the width of the bracket,
    or by nothing.
    """
    blur = 1e-16

    def measure_height(point: float) -> float:
        nonlocal blur
        bounds = curve(point)
        value = bounds[end]
        width = (bounds.upper - bounds.lower) / bounds.upper if bounds.upper > 0 else 0.0
        blur = max(0.2 * width, 6e-16 * max(1.0, abs(slope * point)))
        return math.log(value / target) if value > 1e-300 * target and value > 0 else -690.0

    low = 0.0
    high = guess
    tries = 0
    value = measure_height(high)
    while value > 0:
        # by Newton, and from the fourth step on further and further
        before = value
        tries = tries + 1
        low = high
        high = high + min(0.5 * high + 0.05, -(value + blur) * 2.0 ** max(0, tries - 3) / slope)
        value = measure_height(high)
        if high > 1e12:
            return (low if end == 0 else math.inf), slope
        if value < before and value > -600:
            slope = (value - before) / (high - low)
    point = high
    for step in range(90):
        safe = value <= 0 if end == 1 else value >= 0
        if (safe and abs(value) <= blur) or high - low <= 4e-16 * high:
            break
        # aim a little to the safe side of the root
        trial = point - (value + (blur if end == 1 else -blur) / 2) / slope
        if not low < trial < high or step % 6 == 5:
            trial = (low + high) / 2
        new = measure_height(trial)
        if new > 0:
            low = trial
        else:
            high = trial
        if trial != point and (new - value) / (trial - point) < 0:
            slope = (new - value) / (trial - point)
        point = trial
        value = new
    return (low if end == 0 else high), slope
