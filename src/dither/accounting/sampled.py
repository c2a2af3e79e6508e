"""The Poisson-sampled Gaussian: its moment-generating function by trapezoid with a proved error.

In units of the shift (sigma = noise / shift), y ~ N(0, sigma^2) and r(y) = 1 - q + q exp((2y-1)/(2
sigma^2)):

    remove: M(s) = E[r^{s+1}],    add: M(s) = E[r^{-s}],
    swap:   M(s) = E[r(y)^{s+1} r(-y)^{-s}]   (replace one unit: shift +C against shift -C).

The integrand is analytic for |Im y| < pi sigma^2, so the trapezoid rule errs by 2 N/(e^{2 pi
a/step} - 1) with N the integral of the modulus on the shifted lines (Q1); tails, roundoff and the
decay in s are bounded in docs/proofs/contour-accounting.md. Different noises and rates are
evaluated together, one row each (`trapezoid.py`); rows are kept, so that a workload to which an
event is appended costs the new event alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from dither.accounting.transforms import UNIT, Complex, Real, sinc_envelope_gap
from dither.accounting.trapezoid import (
    Kind,
    OutOfReach,
    QuadratureRow,
    log_ratio,
    rows,
    rows_and_levels,
)
from dither.accounting.trapezoid import forget as rows_forget

__all__ = [
    "Kind",
    "OutOfReach",
    "SampledGaussianFactor",
    "SampledGroup",
    "forget",
    "grouped",
    "log_ratio",
]

_LAYERS = 96
_FEW = 3


@dataclass(frozen=True)
class SampledGaussianFactor:
    """`count` Poisson-sampled Gaussians of rate q and noise `sigma` per unit shift, in one
    direction."""

    kind: Kind
    q: Fraction
    sigma: Fraction
    count: int

    @cached_property
    def floats(self) -> tuple[float, float, float]:
        """Rate, noise and variance, rounded once."""
        return float(self.q), float(self.sigma), float(self.sigma * self.sigma)

    @cached_property
    def floats_of_kind(self) -> tuple[Kind, float, float, float]:
        """All that the transform of one copy depends on."""
        return self.kind, *self.floats

    def times(self, count: int) -> SampledGaussianFactor:
        """The same with another count."""
        return SampledGaussianFactor(self.kind, self.q, self.sigma, count)

    @cached_property
    def alone(self) -> SampledGroup:
        return SampledGroup(self.kind, (self,))

    def log_mgf(self, c: float, y: Real, tolerance: float) -> tuple[Complex, Real]:
        return self.alone.log_mgf(c, y, tolerance)

    def decay(self, c: float, y: float) -> float:
        return self.alone.decay(c, y)

    def level_bound(self, c: float) -> float:
        """Bound count * log M(c) in closed form, for small rates; infinite where none is known
        (C1)."""
        q, _, variance = self.floats
        if self.kind != "add" or q > 0.1 or variance < 0.05 or c > 1e3:
            return math.inf
        square = q * q * math.expm1(1 / variance)
        return self.count * math.log1p(c * (c + 1) / 2 * square * (1 - q) ** (-c - 2)) * (1 + 1e-12)

    @cached_property
    def _largest(self) -> float:
        return math.inf if self.kind != "add" else self.count * _log_missed(self.q) * (1 + 1e-14)

    def largest(self) -> float:
        return self._largest


def _log_missed(q: Fraction) -> float:
    """-log(1 - q), with the digits of a rate near one."""
    return -math.log1p(-float(q)) if 2 * q < 1 else -math.log(float(1 - q))


@dataclass(frozen=True)
class SampledGroup:
    """Several sampled Gaussians of one direction, added up."""

    kind: Kind
    factors: tuple[SampledGaussianFactor, ...]

    @cached_property
    def arrays(self) -> tuple[Real, Real, Real]:
        """Rates, noises and counts."""
        rates, noises, _ = np.array([factor.floats for factor in self.factors]).T
        return rates, noises, np.array([float(factor.count) for factor in self.factors])

    @cached_property
    def key(self) -> tuple[object, ...]:
        """What the decay depends on, cheap to hash."""
        return (self.kind, *((*factor.floats, factor.count) for factor in self.factors))

    @property
    def count(self) -> int:
        return sum(factor.count for factor in self.factors)

    def log_mgf(self, c: float, y: Real, tolerance: float) -> tuple[Complex, Real]:
        """Each row to its share of the tolerance, times its count."""
        value, error, _ = self.log_mgf_and_levels(c, y, tolerance, ())
        return value, error

    def log_mgf_and_levels(
        self, c: float, y: Real, tolerance: float, real_parts: Sequence[float]
    ) -> tuple[Complex, Real, Real]:
        """Compute log M(c + iy), a bound of its error, and proved upper bounds on log M at
        `real_parts`."""
        goal = [_row(factor, c, tolerance / len(self.factors)) for factor in self.factors]
        still = [
            _row(factor, real_part, 1e-12) for real_part in real_parts for factor in self.factors
        ]
        logs, errors, levels = rows_and_levels(self.kind, goal, y, still)
        counts = self.arrays[2]
        # roundoff: a product each, and so many additions
        errors = errors + (len(counts) + 1) * UNIT * np.abs(logs)
        above = np.array(levels).reshape(len(real_parts), len(counts)) @ counts
        return (
            counts @ logs,
            np.asarray(counts @ errors * (1 + 1e-12)),
            above + 1e-13 * (1 + np.abs(above)),
        )

    def levels(self, real_parts: Sequence[float]) -> Real:
        """Proved upper bounds on log M(c) at several c at once."""
        goal = [_row(factor, c, 1e-12) for c in real_parts for factor in self.factors]
        logs, errors = rows(self.kind, goal, np.zeros(1))
        factor_levels = (logs[:, 0].real + errors[:, 0]).reshape(len(real_parts), len(self.factors))
        return np.asarray(factor_levels @ self.arrays[2])

    def cumulants(self, c: float) -> tuple[float, float, float]:
        """Compute log M and its first two derivatives at c, roughly and cheaply.

        They choose the contour and prove nothing; they are kept for the next call.
        """
        keys = [(self.kind, *factor.floats, c) for factor in self.factors]
        missing = [key for key in keys if key not in _kept_cumulants]
        if missing:
            if (
                len(missing) <= _FEW
            ):  # the search for c will ask for its neighbours next: they cost next to nothing now
                index = round(4 * math.log2(c))
                near = {c, *(2.0 ** (other / 4) for other in range(index - 4, index + 5))}
                missing = [(*key[:4], other) for key in missing for other in near]
            _kept_cumulants.update(zip(missing, _cumulants(self.kind, missing), strict=True))
        total = self.arrays[2] @ np.array([_kept_cumulants[key] for key in keys])
        _trim(_kept_cumulants)
        return float(total[0]), float(total[1]), float(total[2])

    def decay(self, c: float, y: float) -> float:
        """Bound log |M(c+iy)| / M(c) of the whole group from above; the result is kept."""
        key = (self.key, c, y)
        kept_fall = _falls.get(key)
        if kept_fall is not None:
            return kept_fall
        mass, lengths = self._layers(c)
        gap = np.sum(mass * sinc_envelope_gap(0.5 * y * lengths), axis=1) * (1 - 1e-9)
        fall = float(np.sum(self.arrays[2] * np.log1p(-np.clip(gap, 0.0, 1.0 - 1e-16)))) * (
            1 - 1e-12
        )
        _falls[key] = fall
        _trim(_falls)
        return fall

    @cached_property
    def _kept_layers(self) -> dict[float, tuple[Real, Real]]:
        return {}

    def _layers(self, c: float) -> tuple[Real, Real]:
        """The layers of every factor; a group is asked for them many times at the same c."""
        if c not in self._kept_layers:
            self._kept_layers[c] = self._collect_layers(c)
        return self._kept_layers[c]

    def _collect_layers(self, c: float) -> tuple[Real, Real]:
        """Collect the layers of every factor; those that are not known yet are made together."""
        keys = [(self.kind, *factor.floats, c) for factor in self.factors]
        missing = [index for index, key in enumerate(keys) if key not in _staircases]
        if missing:
            chosen = [self.factors[index] for index in missing]
            logs, errors = rows(
                self.kind, [_row(factor, c, 1e-12) for factor in chosen], np.zeros(1)
            )
            layers = _layers(
                self.kind, [factor.floats for factor in chosen], c, logs.real + errors + 1e-10
            )
            for index, mass, lengths in zip(missing, *layers, strict=True):
                _staircases[keys[index]] = (mass, lengths)
        staircases = [_staircases[key] for key in keys]
        _trim(_staircases)
        return np.array([mass for mass, _ in staircases]), np.array(
            [lengths for _, lengths in staircases]
        )

    def largest(self) -> float:
        return sum(factor.largest() for factor in self.factors)


def forget() -> None:
    """Drop everything that was kept from earlier workloads (a cold start, for measuring)."""
    _kept_cumulants.clear()
    _falls.clear()
    _staircases.clear()
    rows_forget()


def _trim(kept: dict[Any, Any]) -> None:
    """Keep the newest few thousand."""
    while len(kept) > 4096:
        del kept[next(iter(kept))]


def grouped(factors: Sequence[SampledGaussianFactor]) -> list[SampledGroup]:
    """Group the factors by their kind."""
    kinds = dict.fromkeys(factor.kind for factor in factors)
    return [
        SampledGroup(kind, tuple(factor for factor in factors if factor.kind == kind))
        for kind in kinds
    ]


def _row(factor: SampledGaussianFactor, c: float, tolerance: float) -> QuadratureRow:
    """What is asked of the quadrature, rounded to the safe side so that rows are found again.

    No better than 2^-56, since the sum's own roundoff is larger; what is reached is computed, and
    counted.
    """
    finest = max(-56, 8 * math.floor(math.log2(tolerance / factor.count) / 8))
    return QuadratureRow(*factor.floats, c, finest, 4 * math.ceil(math.log(factor.count) / 4))


_kept_cumulants: dict[tuple[object, ...], Real] = {}
_falls: dict[tuple[tuple[object, ...], float, float], float] = {}
_staircases: dict[tuple[object, ...], tuple[Real, Real]] = {}


def _cumulants(kind: Kind, keys: Sequence[tuple[Any, ...]]) -> Real:
    """Log M and its first two derivatives at c, one row for a key (kind, rate, noise, variance, c).

    Plain sums over nodes: rough, for the choice of a contour. Nothing is proved by them.
    """
    q, sigma, _, c = np.array([key[1:] for key in keys]).T[:, :, None]
    right = 7 * sigma + (c + 1 if kind != "add" else 0.0)
    left = 7 * sigma + (np.minimum(c, 12 * sigma) if kind == "add" else 0.0)
    share = np.linspace(
        0.0, 1.0, min(4000, 96 + int(3 * np.max((left + right - 14 * sigma) / sigma)))
    )
    nodes = -left + (left + right) * share
    forward = log_ratio(q, (2 * nodes - 1) / (2 * sigma * sigma))[0]
    if kind == "remove":
        base = forward
        loss = forward
    elif kind == "add":
        base = np.zeros_like(forward)
        loss = -forward
    else:
        base = forward
        loss = forward - log_ratio(q, (-2 * nodes - 1) / (2 * sigma * sigma))[0]
    exponent = base + c * loss - nodes * nodes / (2 * sigma * sigma)
    top = np.max(exponent, axis=1, keepdims=True)
    weight = np.exp(exponent - top)
    total = np.sum(weight, axis=1, keepdims=True)
    weight /= total
    area = (left + right) * (share[1] / math.sqrt(2 * math.pi)) / sigma
    level = top + np.log(total * area)
    mean = np.sum(weight * loss, axis=1, keepdims=True)
    spread = np.sum(weight * (loss - mean) ** 2, axis=1, keepdims=True)
    return np.concatenate([level, mean, spread], axis=1)


def _layers(
    kind: Kind, laws: Sequence[tuple[float, float, float]], c: float, log_total: Real
) -> tuple[Real, Real]:
    """Uniform layers below the tilted density of the loss, a row each: (mass, length) of every
    layer (D4).

    `log_total` is an upper bound of log M(c), a column.
    """
    q, sigma, _ = np.array(laws).T[:, :, None]
    variance = sigma * sigma
    right = np.full_like(sigma, c + 1 if kind != "add" else 0.0)
    left = -np.minimum(c, 8 * sigma) if kind == "add" else np.zeros_like(sigma)
    cells = 320 + int(32 * np.max((right - left) / sigma))
    if cells * len(laws) > 400_000:
        raise OutOfReach
    nodes = (left - 6 * sigma) + (right - left + 12 * sigma) * np.linspace(0.0, 1.0, cells)
    x = (2 * nodes - 1) / (2 * variance)
    forward, _ = log_ratio(q, x)
    slope = q * np.exp(x - forward) / variance
    if kind == "remove":
        tilt = (c + 1) * forward
        loss = forward
        steep = slope[:, 1:]
    elif kind == "add":
        tilt = -c * forward
        loss = -forward
        steep = slope[:, 1:]
    else:
        backward, _ = log_ratio(q, -(2 * nodes + 1) / (2 * variance))
        tilt = (c + 1) * forward - c * backward
        loss = forward - backward
        returning = q * np.exp(-(2 * nodes + 1) / (2 * variance) - backward) / variance
        steep = slope[:, 1:] + returning[:, :-1]
    log_density = -nodes * nodes / (2 * variance) - np.log(sigma * math.sqrt(2 * math.pi))
    floor = np.minimum(log_density[:, :-1], log_density[:, 1:]) + np.minimum(
        tilt[:, :-1], tilt[:, 1:]
    )
    with np.errstate(over="ignore", divide="ignore"):
        heights = np.minimum(
            np.exp(np.minimum(floor - log_total, 700.0)) / np.maximum(steep, 1e-300), 1e300
        )
    # a cell is as long as its loss differs for certain: roundoff must not widen cells on which the
    # loss stands still
    lengths = np.maximum(
        np.abs(np.diff(loss)) - 1e-15 * (np.abs(loss[:, 1:]) + np.abs(loss[:, :-1])), 0.0
    )
    return stack_layers(heights, lengths)


def stack_layers(heights: Real, lengths: Real) -> tuple[Real, Real]:
    """Compute (mass, length) of uniform layers below staircases, a row each (D4).

    They are made unimodal first.
    """
    cells = heights.shape[1] + 1
    # running minima outwards from the peak: to its right of what was, to its left of what comes
    peak = np.argmax(heights, axis=1)[:, None]
    cell = np.arange(cells - 1)
    rising = np.minimum.accumulate(np.where(cell < peak, heights, np.inf)[:, ::-1], axis=1)[:, ::-1]
    falling = np.minimum.accumulate(np.where(cell >= peak, heights, np.inf), axis=1)
    heights = np.where(cell < peak, rising, falling)
    order = np.argsort(-heights, axis=1)
    heights = np.take_along_axis(heights, order, axis=1)
    spans = np.cumsum(np.take_along_axis(lengths, order, axis=1), axis=1)
    # fewer layers: a staircase that keeps some of the steps lies below the one that keeps all
    kept = np.linspace(0, cells - 2, _LAYERS).astype(int)
    heights = heights[:, kept]
    spans = spans[:, kept]
    drops = heights - np.concatenate([heights[:, 1:], np.zeros_like(heights[:, :1])], axis=1)
    return drops * spans, spans
