"""Equal mechanisms of bounded range, one after another: the best bound there is.

Whoever chooses the next mechanism by the earlier answers makes the most of `count` mechanisms of
range eta, and what they can reach solves a recursion (Dong, Durfee and Rogers 2020). With V_0(x) =
(1 - e^x)_+ and delta(epsilon) = V_count(epsilon),

    V_{k+1}(x) = max over 0 <= t <= eta of p_t V_k(x - t) + (1 - p_t) V_k(x - t + eta),

where p_t = (e^eta - e^t)/(e^eta - 1). It is solved on a grid, once from below and once from above
(docs/proofs/composition.md, section 11).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Literal, NamedTuple

import numpy as np

from dither.accounting.bounds import Bounds, down, up
from dither.accounting.transforms import Real

MOST_MECHANISMS = 200
_WORK = 6000
_FINEST = 320
_ROUNDOFF = 1e-13
"""More than one step of the recursion rounds, relative to its value."""


@dataclass(frozen=True)
class RangeComposition:
    """`count` mechanisms of range `epsilon`, and nothing else."""

    epsilon: Fraction
    count: int

    def largest(self) -> float:
        return self.count * float(self.epsilon) * (1 + 1e-14)

    @cached_property
    def _curves(self) -> tuple[ValueCurve, ValueCurve]:
        cells = min(_FINEST, _WORK // self.count)
        return (
            solve_recursion(down(float(self.epsilon) / cells), cells, self.count, "lower"),
            solve_recursion(up(float(self.epsilon) / cells), cells, self.count, "upper"),
        )

    def delta(self, epsilon: float) -> Bounds:
        """Bracket delta at an epsilon that is not negative."""
        lower, upper = self._curves
        return Bounds(lower.bound_below(epsilon, upper), upper.bound_above(epsilon))


class ValueCurve(NamedTuple):
    """Bounds of V at x = index * pitch, `middle` being the index of zero."""

    pitch: float
    middle: int
    values: Real

    def _find_cell(self, epsilon: float) -> int:
        return self.middle + math.floor(epsilon / self.pitch)

    def bound_above(self, epsilon: float) -> float:
        """Bound V at epsilon from above: it is convex in e^x, so it lies below its chords."""
        near = epsilon * (1 - 1e-14)
        cell = self._find_cell(near)
        if cell + 1 >= len(self.values):
            return 5e-324
        first = (cell - self.middle) * self.pitch
        share = min(1.0, max(0.0, math.expm1(near - first) / math.expm1(self.pitch)))
        first_value = float(self.values[cell])
        last_value = float(self.values[cell + 1])
        chord = first_value - (first_value - last_value) * share
        return min(1.0, chord * (1 + 1e-12) + 5e-324)

    def bound_below(self, epsilon: float, upper: ValueCurve) -> float:
        """Bound V at epsilon from below: above its next chord drawn on, and its next value."""
        near = epsilon * (1 + 1e-14)
        cell = self._find_cell(near) + 1
        if cell + 1 >= len(self.values):
            return 0.0
        value = float(self.values[cell])
        first = (cell - self.middle) * self.pitch
        next_value = upper.bound_above((first + self.pitch) * (1 - 1e-14))
        share = -math.expm1(near - first) / math.expm1(self.pitch)
        drawn = (1 + share) * value - share * next_value
        return max(0.0, value, drawn) * (1 - 1e-12)


@lru_cache(maxsize=16)
def solve_recursion(
    pitch: float, cells: int, count: int, side: Literal["lower", "upper"]
) -> ValueCurve:
    """Solve the recursion for the range cells * pitch on the grid of that pitch.

    From below t is taken on the grid alone. From above every V is replaced by its chords between
    the points of the grid, and what a maximum inside a cell may add is bounded.
    """
    middle = (count + 1) * cells
    x = np.arange(-middle, middle + 1) * pitch
    values = np.maximum(0.0, -np.expm1(np.minimum(x, 0.0)))
    width = cells * pitch
    t = np.arange(cells + 1) * pitch
    larger = np.expm1(t - width) / math.expm1(-width)
    larger[-1] = 0.0
    smaller = np.exp(t - width) * np.expm1(-t) / math.expm1(-width)
    excess = np.exp(t) * (math.expm1(pitch) ** 2 / (4 * math.expm1(width)))
    for step in range(1, count + 1):
        low = middle - step * cells
        high = middle + step * cells + 1
        best = values[low:high].copy()
        # where the chord of each cell meets e^x = 0
        tangents = np.zeros_like(values)
        tangents[1:] = values[:-1] + (values[:-1] - values[1:]) / math.expm1(pitch)
        before = np.zeros(0)
        for j in range(cells + 1):
            reached = larger[j] * values[low - j : high - j]
            reached += smaller[j] * values[low - j + cells : high - j + cells]
            np.maximum(best, reached, out=best)
            if side == "lower":
                continue
            if j:
                bend = tangents[low - j + 1 : high - j + 1]
                bend = bend - tangents[low - j + 1 + cells : high - j + 1 + cells]
                ends = np.maximum(before, reached)
                np.maximum(best, ends + excess[j - 1] * np.maximum(bend, 0.0), out=best)
            before = reached
        values = values.copy()
        values[low:high] = best * (1 + _ROUNDOFF if side == "upper" else 1 - _ROUNDOFF)
    return ValueCurve(pitch, middle, values)
