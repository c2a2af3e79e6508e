"""Contour inversion of the moment-generating function, as a bracket.

For any c > 0 with M(c) finite,

    delta(eps) = 1/(2 pi i) * integral over Re s = c of M(s) e^{-s eps} / (s (s+1)) ds,

and the trapezoid rule of step h on that line equals the sum over integers m of e^{2 pi c m/h}
delta(eps + 2 pi m/h): no term is negative, so the discretisation alone never under-reports. What
remains (aliasing from the lower end, truncation, the error of M, roundoff) is bounded term by term
in docs/proofs/contour-accounting.md. When some bound cannot be made small, `Contour.build` raises
`OutOfReach` and another engine serves.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dither.accounting.bounds import Bounds
from dither.accounting.saddle import (
    FINE,
    find_cumulants,
    find_real_part,
    find_saddle,
    group_sampled,
)
from dither.accounting.sampled import OutOfReach, SampledGroup
from dither.accounting.transforms import UNIT, Complex, Factor, GaussianFactor, Real

_GOAL = 1e-13
_MOST_NODES = 60_000
_EXTENDED = 2  # Chernoff points that a contour keeps when it grows


def _bound_logs(factors: Sequence[Factor], real_parts: Sequence[float]) -> Real:
    """Compute proved upper bounds on log M at several c."""
    total = np.zeros(len(real_parts))
    for factor in factors:
        if isinstance(factor, SampledGroup):
            total += factor.levels(real_parts)
            continue
        if isinstance(factor, GaussianFactor):
            total += np.array([factor.level_bound(c) for c in real_parts])
            continue
        for i, c in enumerate(real_parts):
            logs, error = factor.log_mgf(c, np.zeros(1), 1e-12)
            total[i] += float(logs[0].real) + float(error[0])
    return np.asarray(total + 1e-13 * (1 + np.abs(total)))


def log_payoff(t: float) -> float:
    """log of (1/(t+1)) (t/(t+1))^t, the sharp constant of the Chernoff bound on delta."""
    return -math.log1p(t) - t * math.log1p(1 / t)


class _Aliases(NamedTuple):
    """log of the terms below, and (c', log of the terms above at epsilon = 0) for each c' (T2)."""

    below: float
    above: tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class Contour:
    """M on the nodes c + ikh, k = 0..K, good for every epsilon near the one it was built for."""

    c: float
    step: float
    near_epsilon: float
    nodes: Real
    payoff: Complex
    logs: Complex
    errors: Real
    truncation: float
    tolerance: float
    chernoff: tuple[tuple[float, float], ...]
    aliases: _Aliases
    level: float
    noise: float
    farthest: float
    real: Real
    imaginary: Real

    @staticmethod
    def build(
        factors: Sequence[Factor], log_delta: float | None = None, epsilon: float | None = None
    ) -> Contour:
        """Build the nodes for the epsilon at which delta = exp(log_delta), or for the delta at
        `epsilon`."""
        factors = group_sampled(factors)
        c, near_epsilon = find_saddle(factors, log_delta, epsilon)
        level, _, second = find_cumulants(factors, c)
        least = min(0.7 / math.sqrt(second), 50.0)
        if c < least:
            c = find_real_part(math.ceil(FINE * math.log2(least)))
            level, first, second = find_cumulants(factors, c)
            near_epsilon = min(near_epsilon, first - 1 / c - 1 / (c + 1))
        near_epsilon = epsilon if epsilon is not None else max(0.0, near_epsilon)
        if log_delta is None:
            log_delta = (
                level
                - c * near_epsilon
                - math.log(c * (c + 1))
                - 0.5 * math.log1p(2 * math.pi * second * c * c)
            )
        chernoff = _bound_by_chernoff(factors, c)
        step = choose_step(c, near_epsilon, log_delta, chernoff)
        goal = log_delta - (level - c * near_epsilon) + math.log(_GOAL) + math.log(math.pi)
        reach, truncation = _find_reach(factors, c, step, goal, second)
        count = math.ceil(reach / step)
        nodes = np.arange(count + 1, dtype=np.float64) * step
        s: Complex = np.asarray(c + 1j * nodes, dtype=np.complex128)
        tolerance = _GOAL * min(1.0, math.exp(max(-600.0, log_delta - level + c * near_epsilon)))
        logs = np.zeros(count + 1, complex)
        errors = np.zeros(count + 1)
        for factor in factors:
            value, error = factor.log_mgf(c, nodes, tolerance)
            errors = errors + error + 2 * UNIT * (np.abs(logs) + np.abs(value))
            logs = logs + value
        return build_contour(
            c,
            step,
            near_epsilon,
            nodes,
            1 / (s * (s + 1)),
            logs,
            errors,
            truncation,
            tolerance,
            chernoff,
        )

    def extended(self, factors: Sequence[Factor], near_epsilon: float) -> Contour:
        """Return the same nodes with more events, for epsilons around `near_epsilon`.

        (T1) holds as it stands, since no event has |M(c+iy)| above M(c); the rest is added up anew.
        """
        by_bound = sorted(
            self.chernoff, key=lambda point: point[1] - point[0] * (near_epsilon + self.period)
        )
        sharpest = by_bound[:_EXTENDED]
        logs = self.logs
        errors = self.errors
        beyond = np.array([level for _, level in sharpest])
        real_parts = [other for other, _ in sharpest]
        for factor in group_sampled(factors):
            if isinstance(factor, SampledGroup):
                value, error, levels = factor.log_mgf_and_levels(
                    self.c, self.nodes, self.tolerance, real_parts
                )
            else:
                value, error = factor.log_mgf(self.c, self.nodes, self.tolerance)
                levels = _bound_logs([factor], real_parts)
            errors = errors + error + 2 * UNIT * (np.abs(logs) + np.abs(value))
            logs = logs + value
            beyond = beyond + levels + 2 * UNIT * (np.abs(beyond) + np.abs(levels))
        if not np.all(beyond < math.inf):
            raise OutOfReach
        chernoff = tuple(zip(real_parts, beyond.tolist(), strict=True))
        return build_contour(
            self.c,
            self.step,
            near_epsilon,
            self.nodes,
            self.payoff,
            logs,
            errors,
            self.truncation,
            self.tolerance,
            chernoff,
        )

    @property
    def period(self) -> float:
        """The distance from one alias of epsilon to the next."""
        return 2 * math.pi / self.step

    def delta(self, epsilon: float) -> Bounds:
        """Bracket delta at epsilon, from the sum over the nodes."""
        if (
            epsilon > self.farthest
        ):  # the phase's roundoff was counted up to there; delta does not increase
            return Bounds(0.0, self.delta(self.farthest).upper)
        exponent = self.level - self.c * epsilon
        blur = 4 * UNIT * (abs(self.level) + abs(self.c * epsilon) + 1)
        if exponent > 700 or blur > 1:
            return Bounds(0.0, 1.0)
        turn = self.nodes * epsilon
        total = float(self.real @ np.cos(turn)) + float(self.imaginary @ np.sin(turn))
        middle = self.step / (2 * math.pi) * total
        factor = math.exp(exponent)
        high = (middle + self.noise) * factor * math.exp(blur)
        low = (middle - self.noise) * factor
        low = low * math.exp(-blur) if low > 0 else 0.0
        low = max(0.0, low - self._alias(epsilon))
        high = high * (1 + 8 * UNIT) + 5e-324
        return Bounds(low * (1 - 8 * UNIT), min(1.0, high) if high == high else 1.0)

    def _alias(self, epsilon: float) -> float:
        """(T2) the other terms of the trapezoid identity, which only a lower bound has to give
        back."""
        return math.exp(min(700.0, _log_alias(self.aliases, epsilon))) * (1 + 1e-9)


def build_contour(
    c: float,
    step: float,
    near_epsilon: float,
    nodes: Real,
    payoff: Complex,
    logs: Complex,
    errors: Real,
    truncation: float,
    tolerance: float,
    chernoff: tuple[tuple[float, float], ...],
) -> Contour:
    """The sum that `delta` takes, and all that it may lose, from the logarithms at the nodes."""
    level = float(logs[0].real)
    slack = float(errors[0])
    if not slack < 0.1:
        raise OutOfReach
    values = np.exp(logs - level) * payoff
    sizes = np.abs(values)
    # (R1) error of each node: of log M, of the phase, of the elementary functions; |M(s)| <= M(c)
    # caps it
    farthest = 4 * near_epsilon + 40 / c
    phase = 4 * UNIT * (np.abs(logs.imag) + nodes * farthest + np.abs(logs.real - level) + 16)
    relative = errors + phase
    with np.errstate(over="ignore", invalid="ignore"):
        grown = np.exp(np.minimum(logs.real - level + relative, 1.0)) * np.abs(payoff)
        node_errors = np.where(relative < 1, sizes * np.expm1(np.minimum(relative, 1.0)), grown)
    node_errors = np.minimum(node_errors, 1.2 * np.abs(payoff) + sizes)
    noise = 2 * float(node_errors.sum()) + 2 * len(values) * UNIT * float(sizes.sum())
    # (T1) the nodes beyond the last one
    noise = step / (2 * math.pi) * noise * (1 + 1e-12) + truncation * math.exp(slack)
    if not noise < math.inf:
        raise OutOfReach
    values[1:] *= 2
    real = np.ascontiguousarray(values.real)
    imaginary = np.ascontiguousarray(values.imag)
    return Contour(
        c,
        step,
        near_epsilon,
        nodes,
        payoff,
        logs,
        errors,
        truncation,
        tolerance,
        chernoff,
        _aliases(c, step, chernoff),
        level,
        noise,
        farthest,
        real,
        imaginary,
    )


def _aliases(c: float, step: float, chernoff: tuple[tuple[float, float], ...]) -> _Aliases:
    """Collect what bounds the aliases of the sum: periods below, and Chernoff points above (T2)."""
    period = 2 * math.pi / step
    above = [(other, level, (other - c) * period) for other, level in chernoff]
    return _Aliases(
        -c * period - math.log(-math.expm1(-c * period)),
        tuple(
            (other, level - d - math.log(-math.expm1(-d))) for other, level, d in above if d > 1e-3
        ),
    )


def _log_alias(aliases: _Aliases, epsilon: float) -> float:
    """Bound the logarithm of the aliases at epsilon: the sum of both kinds."""
    below = aliases.below
    above = math.inf
    for other, level in aliases.above:
        above = min(above, level - other * epsilon)
    top = max(below, above)
    return top + math.log1p(math.exp(min(below, above) - top)) if math.isfinite(top) else top


def _bound_by_chernoff(factors: Sequence[Factor], c: float) -> tuple[tuple[float, float], ...]:
    """List (c', log M(c') + log payoff) for a few c' > c, each proved."""
    points: list[tuple[float, float]] = []
    for ratios in (
        (1.0, 1.02, 1.06, 1.2, 2.0),
        (1.02,),
        (1.06,),
        (4.0,),
    ):  # 1.0 is for the decay at c, asked for next
        real_parts = [ratio * c for ratio in ratios]
        try:
            levels = _bound_logs(factors, real_parts)
        except OutOfReach:
            continue
        points += [
            (real_part, float(level) + log_payoff(real_part))
            for real_part, level in zip(real_parts, levels, strict=True)
            if math.isfinite(level) and real_part > c
        ]
        if len(points) == 4:
            break
    return tuple(points)


def choose_step(
    c: float,
    epsilon: float,
    log_delta: float,
    chernoff: tuple[tuple[float, float], ...],
    share: float = _GOAL,
) -> float:
    """Choose the largest step whose aliases are below `share` of delta (T2).

    Raises OutOfReach where none is.
    """
    step = 2 * math.pi * c / (max(0.0, -log_delta) + 30.0)
    for _ in range(60):
        if _log_alias(_aliases(c, step, chernoff), epsilon) <= log_delta + math.log(share):
            return step
        step *= 0.85
    raise OutOfReach


def _find_reach(
    factors: Sequence[Factor], c: float, step: float, goal: float, variance: float
) -> tuple[float, float]:
    """Choose where to stop, and bound what is left out, relative to M(c) e^{-c eps} (T1).

    The search for a rest of at most e^goal starts where a Gaussian of that variance has fallen so
    far.
    """

    def bound_rest(y: float) -> float:
        return sum(factor.decay(c, y) for factor in factors) - math.log(max(y - step, step / 2))

    high = max(4 * step, 1.1 * math.sqrt(max(0.0, -2 * goal) / variance))
    low = step
    while bound_rest(high) > goal:
        low, high = high, high * 1.4
        if high > _MOST_NODES * step:
            raise OutOfReach
    while low == step and high > 4 * step and bound_rest(high / 1.4) <= goal:
        high /= 1.4
    low = max(low, high / 1.4)
    while high / low > 1.12:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if bound_rest(middle) > goal else (low, middle)
    return high, math.exp(bound_rest(high)) / math.pi * (1 + 1e-9)
