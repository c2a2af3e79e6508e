"""Contour inversion of the moment-generating function, as a bracket.

For any c > 0 with M(c) finite,

    delta(eps) = 1/(2 pi i) * integral over Re s = c of M(s) e^{-s eps} / (s (s+1)) ds,

and the trapezoid rule of step h on that line equals the sum over integers m of e^{2 pi c m/h} delta(eps + 2 pi m/h):
no term is negative, so the discretisation alone never under-reports. What remains (aliasing from the lower end,
truncation, the error of M, roundoff) is bounded term by term in docs/proofs/contour-accounting.md. When some bound
cannot be made small, `Contour.build` raises `OutOfReach` and another engine serves.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from dither.privacy.accounting.bounds import Bounds
from dither.privacy.accounting.sampled import OutOfReach
from dither.privacy.accounting.transforms import UNIT, Complex, Factor, Real

_GOAL = 1e-13
_MOST_NODES = 60_000


def _cumulants(factors: Sequence[Factor], c: float) -> tuple[float, float, float]:
    """log M and its first two derivatives at c, roughly: they choose the contour and prove nothing."""
    tiny = 1e-3 * min(1.0, c) if c < 1e3 else 1e-3
    total = sum((factor.log_mgf(c, np.array([0.0, tiny]), 1e-9)[0] for factor in factors), np.zeros(2, complex))
    first = float(total[1].imag) / tiny
    second = 2 * float(total[0].real - total[1].real) / tiny**2
    if second <= 0:
        second = 1e-12
    return float(total[0].real), first, second


def _log_upper(factors: Sequence[Factor], c: float) -> float:
    """A proved upper bound on log M(c)."""
    total = 0.0
    for factor in factors:
        logs, error = factor.log_mgf(c, np.zeros(1), 1e-12)
        total += float(logs[0].real) + float(error[0])
    return total + 1e-13 * (1 + abs(total))


def _log_payoff(t: float) -> float:
    """log of (1/(t+1)) (t/(t+1))^t, the sharp constant of the Chernoff bound on delta."""
    return -math.log1p(t) - t * math.log1p(1 / t)


def _saddle(factors: Sequence[Factor], objective: Callable[[float], float]) -> float:
    """A c where `objective` (increasing in c) crosses zero, to a few per cent, between 1e-3 and 1e7."""
    low, high, c = 1e-3, math.inf, 1.0
    for _ in range(60):
        try:
            value = objective(c)
        except (OverflowError, OutOfReach):
            value = math.inf
        if not value < 0:
            high = c
        else:
            low = c
        if high / low < 1.03 or low > 1e7 or high < 2e-3:
            break
        c = math.sqrt(low * high) if math.isfinite(high) else c * 4
        if low == 1e-3 and c > 0.03:
            c = high / 4
    return low if math.isfinite(high) else c


@dataclass(frozen=True)
class Contour:
    """log M on the nodes c + ikh, k = 0..K, good for every epsilon near the one it was built for."""

    c: float
    step: float
    nodes: Real
    logs: Complex
    errors: Real
    level: float
    weights: Complex
    truncation: float
    chernoff: tuple[tuple[float, float], ...]

    @staticmethod
    def build(factors: Sequence[Factor], log_delta: float | None = None, epsilon: float | None = None) -> Contour:
        """Nodes for the epsilon at which delta = exp(log_delta), or for the delta at `epsilon`."""

        def away(c: float) -> float:
            level, first, second = _cumulants(factors, c)
            place = first - 1 / c - 1 / (c + 1)
            if epsilon is not None:
                return place - epsilon
            assert log_delta is not None
            spread = second + 1 / c**2 + 1 / (c + 1) ** 2
            return log_delta - (level - c * place - math.log(c * (c + 1)) - 0.5 * math.log(2 * math.pi * spread))

        c = _saddle(factors, away)
        level, first, second = _cumulants(factors, c)
        deviation = math.sqrt(second)
        c = max(c, min(0.7 / deviation, 50.0))
        level, first, second = _cumulants(factors, c)
        place = epsilon if epsilon is not None else max(0.0, first - 1 / c - 1 / (c + 1))
        if log_delta is None:
            log_delta = level - c * place - math.log(c * (c + 1)) - 0.5 * math.log1p(2 * math.pi * second * c * c)
        chernoff = _chernoff(factors, c)
        step = _step(c, place, log_delta, chernoff)
        reach, truncation = _reach(factors, c, step, place, level, log_delta)
        count = math.ceil(reach / step)
        nodes = np.arange(count + 1, dtype=np.float64) * step
        tolerance = _GOAL * min(1.0, math.exp(max(-600.0, log_delta - level + c * place)))
        logs, errors = np.zeros(count + 1, complex), np.zeros(count + 1)
        for factor in factors:
            value, error = factor.log_mgf(c, nodes, tolerance)
            logs, errors = logs + value, errors + error
        level, slack = float(logs[0].real), float(errors[0])
        if not slack < 0.1:
            raise OutOfReach
        errors = errors + len(factors) * 2 * UNIT * np.abs(logs)
        s: Complex = np.asarray(c + 1j * nodes, dtype=np.complex128)
        return Contour(c, step, nodes, logs, errors, level, (1 / (s * (s + 1))), truncation * math.exp(slack), chernoff)

    def delta(self, epsilon: float) -> Bounds:
        """A bracket of delta at epsilon."""
        logs = self.logs - self.level
        turn = self.nodes * epsilon
        values = np.exp(logs.real) * np.exp(1j * (logs.imag - turn)) * self.weights
        sizes = np.abs(values)
        total = float(np.sum(values.real)) * 2 - float(values[0].real)
        # (R1) error of each node: of log M, of the phase, of the elementary functions; |M(s)| <= M(c) caps it
        phase = 4 * UNIT * (np.abs(logs.imag) + np.abs(turn) + np.abs(logs.real) + 8)
        with np.errstate(over="ignore", invalid="ignore"):
            each = np.minimum(
                sizes * np.expm1(np.minimum(self.errors + phase, 50.0)), 1.2 * np.abs(self.weights) + sizes
            )
        noise = 2 * float(np.sum(each)) + 2 * len(values) * UNIT * float(np.sum(sizes))
        scale = self.step / (2 * math.pi)
        # (T1) the nodes beyond the last one
        noise = scale * noise * (1 + 1e-12) + self.truncation
        middle = scale * total
        exponent = self.level - self.c * epsilon
        blur = 4 * UNIT * (abs(self.level) + abs(self.c * epsilon) + 1)
        if exponent > 700 or blur > 1:
            return Bounds(0.0, 1.0)
        factor = math.exp(exponent)
        high = (middle + noise) * factor * math.exp(blur)
        low = (middle - noise) * factor
        low = low * math.exp(-blur) if low > 0 else 0.0
        low = max(0.0, low - self._alias(epsilon))
        high = high * (1 + 8 * UNIT) + 5e-324
        return Bounds(low * (1 - 8 * UNIT), min(1.0, high) if high == high else 1.0)

    def _alias(self, epsilon: float) -> float:
        """(T2) the other terms of the trapezoid identity, which only a lower bound has to give back."""
        return math.exp(min(0.0, _log_alias(self.c, self.step, epsilon, self.chernoff))) * (1 + 1e-9)


def _log_alias(c: float, step: float, epsilon: float, chernoff: tuple[tuple[float, float], ...]) -> float:
    period = 2 * math.pi / step
    below = -c * period - math.log(-math.expm1(-c * period))
    above = math.inf
    for other, level in chernoff:
        decay = (other - c) * period
        if decay > 1e-3:
            above = min(above, level - other * epsilon - decay - math.log(-math.expm1(-decay)))
    return float(np.logaddexp(below, above))


def _chernoff(factors: Sequence[Factor], c: float) -> tuple[tuple[float, float], ...]:
    """(c', log M(c') + log payoff) for a few c' > c, each proved."""
    points = []
    for ratio in (1.02, 1.06, 1.15, 1.4, 2.0, 4.0):
        try:
            level = _log_upper(factors, ratio * c)
        except OutOfReach:
            continue
        if math.isfinite(level):
            points.append((ratio * c, level + _log_payoff(ratio * c)))
    return tuple(points)


def _step(c: float, epsilon: float, log_delta: float, chernoff: tuple[tuple[float, float], ...]) -> float:
    step = 2 * math.pi * c / (max(0.0, -log_delta) + 30.0)
    for _ in range(60):
        if _log_alias(c, step, epsilon, chernoff) <= log_delta + math.log(_GOAL):
            return step
        step *= 0.85
    raise OutOfReach


def _reach(
    factors: Sequence[Factor], c: float, step: float, epsilon: float, level: float, log_delta: float
) -> tuple[float, float]:
    """Where to stop, and the proved size of what is left out, relative to M(c) e^{-c eps} (T1)."""
    wanted = log_delta - (level - c * epsilon) + math.log(_GOAL) + math.log(math.pi)

    def left_out(y: float) -> float:
        return sum(factor.decay(c, y) for factor in factors) - math.log(max(y - step, step / 2))

    low, high = step, 4 * step
    while left_out(high) > wanted:
        low, high = high, high * 2
        if high > _MOST_NODES * step:
            raise OutOfReach
    while high / low > 1.05:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if left_out(middle) > wanted else (low, middle)
    return high, math.exp(left_out(high)) / math.pi * (1 + 1e-9)


def saddle_place(factors: Sequence[Factor], log_delta: float) -> tuple[float, float]:
    """Roughly the epsilon at delta = exp(log_delta) and the slope of log delta there; proves nothing."""

    def away(c: float) -> float:
        level, first, second = _cumulants(factors, c)
        place = first - 1 / c - 1 / (c + 1)
        spread = second + 1 / c**2 + 1 / (c + 1) ** 2
        return log_delta - (level - c * place - math.log(c * (c + 1)) - 0.5 * math.log(2 * math.pi * spread))

    c = _saddle(factors, away)
    _, first, _ = _cumulants(factors, c)
    return max(1e-3, first - 1 / c - 1 / (c + 1)), -c


def invert(curve: Callable[[float], Bounds], target: float, target_upper: float, guess: float, slope: float) -> Bounds:
    """Where a non-increasing curve known by brackets crosses a target between `target` and `target_upper`."""
    if curve(0.0).upper <= target:
        return Bounds(0.0, 0.0)
    upper, slope = _crossing(curve, 1, target, max(guess, 1e-6), slope)
    if not math.isfinite(upper):
        return Bounds(0.0, math.inf)
    lower, _ = _crossing(curve, 0, target_upper, upper, slope)
    return Bounds(min(upper, lower), upper)


def _crossing(
    curve: Callable[[float], Bounds], end: int, target: float, guess: float, slope: float
) -> tuple[float, float]:
    """Where the lower (end 0) or upper (end 1) bound of the curve crosses the target, on the safe side; and its slope.

    Guarded Newton on logarithms. The safe side: an upper bound is at most the target there, a lower bound at least.
    It stops when the place moves the bound by a fiftieth of the width of the bracket, or by nothing.
    """
    blur = 1e-16

    def height(place: float) -> float:
        nonlocal blur
        bounds = curve(place)
        value = bounds[end]
        width = (bounds.upper - bounds.lower) / bounds.upper if bounds.upper > 0 else 0.0
        blur = max(0.02 * width, 6e-16 * max(1.0, abs(slope * place)))
        return math.log(value / target) if value > 1e-300 * target and value > 0 else -690.0

    low, high = 0.0, guess
    value = height(high)
    while value > 0:
        low, high = high, high * 1.5 + 0.05
        value = height(high)
        if high > 1e12:
            return (low if end == 0 else math.inf), slope
    place = high
    for step in range(90):
        safe = value <= 0 if end == 1 else value >= 0
        if (safe and abs(value) <= blur) or high - low <= 4e-16 * high:
            break
        # aim a little to the safe side of the root
        trial = place - (value + (blur if end == 1 else -blur) / 2) / slope
        if not low < trial < high or step % 6 == 5:
            trial = (low + high) / 2
        new = height(trial)
        if new > 0:
            low = trial
        else:
            high = trial
        if trial != place and (new - value) / (trial - place) < 0:
            slope = (new - value) / (trial - place)
        place, value = trial, new
    return (low if end == 0 else high), slope
