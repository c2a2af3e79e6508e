"""The Poisson-sampled Gaussian: its moment-generating function by trapezoid with a proved error.

In units of the shift (sigma = noise / shift), y ~ N(0, sigma^2) and r(y) = 1 - q + q exp((2y-1)/(2 sigma^2)):

    remove: M(s) = E[r^{s+1}],    add: M(s) = E[r^{-s}],
    swap:   M(s) = E[r(y)^{s+1} r(-y)^{-s}]   (replace one unit: shift +C against shift -C).

The integrand is analytic for |Im y| < pi sigma^2, so the trapezoid rule errs by 2 N/(e^{2 pi a/step} - 1) with N the
integral of the modulus on the shifted lines (Q1); tails, roundoff and the decay in s are bounded in
docs/proofs/contour-accounting.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Literal

import numpy as np
from scipy.special import log_ndtr

from dither.privacy.accounting.transforms import (
    LIBM,
    UNIT,
    Complex,
    Real,
    log1p_complex,
    log_error,
    log_one_minus,
    pairwise,
    rounded_one,
    sinc_envelope_gap,
)

Kind = Literal["remove", "add", "swap"]
_ANGLES = np.linspace(0.02, 1.0, 40) * (math.pi / 2)
_LARGEST_PANEL = 1_500_000
_LONGEST_RULE = 100_000


class OutOfReach(Exception):
    """The proved error cannot be made small with a bearable number of nodes: another engine must serve."""


@dataclass(frozen=True)
class _Rule:
    """Trapezoid nodes with log P/phi (`base`), the loss, and all that the error bounds need."""

    nodes: Real
    step: float
    quadratic: Real
    height: float
    weights: Real
    base: Real
    loss: Real
    loss_relative: Real
    weight_relative: Real


@dataclass(frozen=True)
class SampledGaussianFactor:
    """`count` Poisson-sampled Gaussians of rate q and noise `sigma` per unit shift, in one direction."""

    kind: Kind
    q: Fraction
    sigma: Fraction
    count: int

    def log_mgf(self, c: float, y: Real, tolerance: float) -> tuple[Complex, Real]:
        reach = float(np.max(np.abs(y), initial=0.0))
        step, quadrature = self._step(c, reach, tolerance / self.count)
        rule = self._rule(c, step)
        if len(rule.nodes) * max(1, len(y)) > _LARGEST_PANEL:
            raise OutOfReach
        tilt = rule.base + c * rule.loss
        top = float(np.max(tilt - rule.quadratic))
        shift = top if top > 1.0 else 0.0
        near = shift == 0.0
        grown = np.exp(tilt - shift - rule.quadratic) * rule.height
        # weight * (e^tilt - 1), the difference of two exponentials where e^tilt alone might overflow
        excess_terms = np.where(tilt > 1, grown - rule.weights, rule.weights * np.expm1(np.minimum(tilt, 1.0)))
        plane = float(pairwise(excess_terms) if near else pairwise(grown) - 1.0)
        # e^{tilt + i y loss} - 1 = expm1(tilt) - 2 sin^2(y loss/2) e^tilt + i sin(y loss) e^tilt
        phase = np.outer(y, rule.loss)
        real = plane - 2 * pairwise(np.sin(0.5 * phase) ** 2 * grown)
        imaginary = pairwise(np.sin(phase) * grown)
        excess = real + 1j * imaginary
        logs = log1p_complex(excess) + shift
        absolute = self._roundoff(rule, c, reach, grown, excess_terms, near) + 4 * UNIT * shift * float(np.sum(grown))
        scale = 1.0 + plane
        absolute += 2 * quadrature * max(scale, math.exp(-shift)) + self._tails(c, rule, shift)
        size = np.abs(1 + excess)
        error = log_error(absolute + rounded_one(size), size)
        return self.count * logs, self.count * (error + 6 * UNIT * np.abs(logs))

    def _step(self, c: float, reach: float, tolerance: float) -> tuple[float, float]:
        """The largest dyadic step whose quadrature error, relative to M(c), is at most `tolerance` (Q1)."""
        variance = float(self.sigma) ** 2
        turns = 2.0 if self.kind == "swap" else 1.0
        growth = variance * _ANGLES**2 / 2 + turns * reach * _ANGLES
        if self.kind != "remove":
            growth = growth - c * np.log(np.cos(_ANGLES / 2))
        wanted = growth - math.log(tolerance) + 2.0
        step = float(np.max(2 * math.pi * variance * _ANGLES / wanted))
        mantissa, exponent = math.frexp(step)
        step = math.ldexp(math.floor(mantissa * 256) / 256, exponent)
        best = float(np.min(growth - 2 * math.pi * variance * _ANGLES / step))
        return step, 2.0 * math.exp(best) / (1 - math.exp(-2 * math.pi * variance * float(_ANGLES[0]) / step))

    def _rule(self, c: float, step: float) -> _Rule:
        return _rule(self.kind, self.q, self.sigma, self._ends(c, step), step)

    def _ends(self, c: float, step: float) -> tuple[int, int]:
        sigma = float(self.sigma)
        room = sigma * math.sqrt(2 * (50.0 + math.log(self.count)))
        left = right = room
        if self.kind == "add":
            worst = min(c + room, sigma * math.sqrt(2 * (50 + math.log(self.count) - c * math.log1p(-float(self.q)))))
            left = max(left, worst)
        else:
            right = c + 1 + room
        if self.kind == "swap":
            right += max(0.0, sigma * math.sqrt(-2 * c * math.log1p(-float(self.q))))
        if (left + right) / step > _LONGEST_RULE:
            raise OutOfReach
        # rounded outwards to multiples of 64 so that nearby c share one cached rule
        return -64 * math.ceil(left / step / 64), 64 * math.ceil(right / step / 64)

    def _tails(self, c: float, rule: _Rule, shift: float) -> float:
        """e^-shift times the sum beyond the nodes (Q2), by convexity of powers."""
        q, sigma = float(self.q), float(self.sigma)
        left, right = -float(rule.nodes[0]) - rule.step, float(rule.nodes[-1]) - rule.step

        def upper_tail(distance: float, log_factor: float) -> float:
            exponent = log_factor + float(log_ndtr(-distance / sigma)) - shift
            return math.exp(exponent) if exponent < 700 else math.inf

        plain = upper_tail(left, 0.0) + upper_tail(right, 0.0)
        if self.kind == "add":
            one = upper_tail(left, 0.0) + q * upper_tail(left - c, c * (c + 1) / (2 * sigma * sigma))
            return 4 * (plain + min(one, upper_tail(left, -c * math.log1p(-q))))
        # (1-q + qw)^p <= (1-q) + q w^p, or lambda^{1-p} (1-q)^p + (1-lambda)^{1-p} (qw)^p for any lambda
        power = c + 1
        centre = power * (power - 1) / (2 * sigma * sigma)
        moved = upper_tail(right, 0.0) + upper_tail(right - power, centre + math.log(q))
        for share in (0.5, 0.1, 0.01):
            first = upper_tail(right, -c * math.log(share))
            moved = min(moved, first + upper_tail(right - power, centre + power * math.log(q) - c * math.log1p(-share)))
        if self.kind == "swap":
            more = -c * math.log1p(-q)
            moved *= math.exp(more) if more < 700 else math.inf
        return 4 * (plain + moved)

    def _roundoff(self, rule: _Rule, c: float, reach: float, grown: Real, excess: Real, near: bool) -> float:
        """Roundoff of the sums (Q3), with |y| at its largest."""
        modulus = np.abs(rule.base) + (c + reach) * np.abs(rule.loss)
        turned = np.minimum(2.0, reach * np.abs(rule.loss))
        terms = (np.abs(excess) if near else grown + rule.weights) + grown * turned
        each = (grown + rule.weights) * modulus * rule.loss_relative + terms * (rule.weight_relative + 4 * LIBM)
        depth = 2 + math.ceil(math.log2(len(terms)))
        return 1.01 * float(np.sum(each) + 2 * depth * UNIT * np.sum(terms))

    def decay(self, c: float, y: float) -> float:
        gap_mass, lengths = _layers(self.kind, self.q, self.sigma, c)
        gap = float(np.sum(gap_mass * sinc_envelope_gap(0.5 * y * lengths)))
        return self.count * log_one_minus(gap * (1 - 1e-9))

    def largest(self) -> float:
        return math.inf if self.kind != "add" else -self.count * math.log1p(-float(self.q)) * (1 + 1e-14)


def log_ratio(q: float, x: Real) -> tuple[Real, Real]:
    """log(1 - q + q e^x) and a bound on its relative error (in units of 1)."""
    grown = q * np.expm1(np.minimum(x, 600.0))
    value = np.where(x > 600.0, x + math.log(q), np.log1p(grown))
    with np.errstate(divide="ignore", invalid="ignore"):
        amplify = np.abs(grown) / ((1 + grown) * np.abs(value))
    amplify = np.where(np.isfinite(amplify), np.maximum(amplify, 1.0), 2.0)
    return np.asarray(value), np.asarray(UNIT * (8 + amplify * (24 + 4 * np.abs(x))))


@lru_cache(maxsize=256)
def _rule(kind: Kind, rate: Fraction, noise: Fraction, ends: tuple[int, int], step: float) -> _Rule:
    q, sigma = float(rate), float(noise)
    nodes = np.arange(ends[0], ends[1] + 1, dtype=np.float64) * step
    variance = float(noise * noise)
    quadratic = nodes * nodes / (2 * variance)
    height = step / (sigma * math.sqrt(2 * math.pi))
    weights = np.exp(-quadratic) * height
    forward, relative = log_ratio(q, (2 * nodes - 1) / (2 * variance))
    if kind == "remove":
        base, loss = forward, forward
    elif kind == "add":
        base, loss = np.zeros_like(forward), -forward
    else:
        backward, other = log_ratio(q, (-2 * nodes - 1) / (2 * variance))
        base, loss = forward, forward - backward
        absolute = np.abs(forward) * relative + np.abs(backward) * other
        with np.errstate(divide="ignore", invalid="ignore"):
            relative = np.maximum(relative, absolute / np.abs(loss)) + UNIT
        # at y = 0 the loss vanishes by antisymmetry, and so does its error
        relative = np.where(np.isfinite(relative), relative, 0.0)
    return _Rule(nodes, step, quadratic, height, weights, base, loss, relative, UNIT * (24 + 8 * quadratic))


@lru_cache(maxsize=256)
def _layers(kind: Kind, rate: Fraction, noise: Fraction, c: float) -> tuple[Real, Real]:
    """Uniform layers below the tilted density of the loss: (mass, length) of each (D4)."""
    q, sigma = float(rate), float(noise)
    variance = sigma * sigma
    right = c + 1 if kind != "add" else 0.0
    left = -min(c, 8 * sigma) if kind == "add" else 0.0
    nodes = np.linspace(left - 6 * sigma, right + 6 * sigma, 400 + int(40 * (right - left) / sigma))
    x = (2 * nodes - 1) / (2 * variance)
    forward, _ = log_ratio(q, x)
    slope = q * np.exp(x - forward) / variance
    if kind == "remove":
        tilt, loss, steep = (c + 1) * forward, forward, slope[1:]
    elif kind == "add":
        tilt, loss, steep = -c * forward, -forward, slope[1:]
    else:
        backward, _ = log_ratio(q, -(2 * nodes + 1) / (2 * variance))
        tilt, loss = (c + 1) * forward - c * backward, forward - backward
        returning = q * np.exp(-(2 * nodes + 1) / (2 * variance) - backward) / variance
        steep = slope[1:] + returning[:-1]
    log_density = -nodes * nodes / (2 * variance) - math.log(sigma * math.sqrt(2 * math.pi))
    log_m, error = SampledGaussianFactor(kind, rate, noise, 1).log_mgf(c, np.zeros(1), 1e-12)
    log_total = float(log_m[0].real) + float(error[0]) + 1e-10
    floor = np.minimum(log_density[:-1], log_density[1:]) + np.minimum(tilt[:-1], tilt[1:])
    heights = np.exp(floor - log_total) / steep
    lengths = np.abs(np.diff(loss))
    peak = int(np.argmax(heights))
    heights = np.concatenate(
        [np.minimum.accumulate(heights[: peak + 1][::-1])[::-1], np.minimum.accumulate(heights[peak:])[1:]]
    )
    order = np.argsort(-heights)
    heights, spans = heights[order], np.cumsum(lengths[order])
    drops = heights - np.append(heights[1:], 0.0)
    return drops * spans, spans
