"""Bounds beside the contour of faded steps: what is faded out, and the small losses alone.

Proofs: docs/proofs/few-steps.md, (F1) and (S3).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import log_ndtr, ndtr

from dither.accounting.bounds import Bounds
from dither.accounting.faded import FAR, FadedStep, cut_line, sum_logs
from dither.accounting.trapezoid import log_ratio


@dataclass(frozen=True)
class FarLosses:
    """Losses so large that the other steps cannot undo them: their part of delta in closed form
    (F1).

    `mass` and `other_mass` are what is faded out of one step under the two laws of the pair,
    `surplus` is their difference and `spread` the size of its terms; `overlap` bounds what the
    bulk of a split keeps of them; (tilt, level) bounds what the closed form may miss.
    """

    count: int
    mass: float
    other_mass: float
    surplus: float
    spread: float
    overlap: float = 0.0
    tilt: float = 0.0
    level: float = math.inf

    def delta(self, epsilon: float) -> Bounds:
        """What the faded losses add to delta: at least P(A) - e^epsilon Q(A), at most P(A)."""
        total = -math.expm1(self.count * math.log1p(-self.mass))
        stays = self.count * math.log1p(-self.other_mass)
        shrinks = self.count * math.log1p(-self.surplus / (1 - self.other_mass))
        more = math.exp(stays) * -math.expm1(shrinks)
        undone = math.expm1(min(epsilon, 700.0)) * -math.expm1(stays)
        blur = 1e-12 * (self.count * self.spread + abs(more) + undone)
        blur += self.count * self.overlap * math.exp(min(epsilon, 700.0))
        log_missed = self.level + (self.tilt + 1) * epsilon
        missed = math.exp(min(log_missed, 0.0)) * (1 + 1e-9)
        upper = min(total * (1 + 1e-12), max(more - undone, 0.0) + blur + missed)
        return Bounds(max(0.0, more - undone - blur), upper)


@dataclass(frozen=True)
class BulkBound:
    """Chernoff's bounds on the sum of small losses, and the mass that they leave aside (S3)."""

    levels: tuple[tuple[float, float], ...]
    aside: float

    def delta(self, epsilon: float) -> float:
        """An upper bound of what the small losses alone add to delta."""
        log_bulk = min(level - tilt * epsilon for tilt, level in self.levels)
        return (math.exp(min(log_bulk, 0.0)) + self.aside) * (1 + 1e-9)


def log_faded_share(step: FadedStep, tilt: float) -> float:
    """log of an upper bound of E[(1 - W) r^-tilt] under N(0, sigma^2): what is faded out, by its
    loss (F1).

    1 - W increases and r^-tilt decreases along the line, so each cell takes the ends that are
    worst.
    """
    sigma = step.sigma
    fade = (step.top - 14 * step.fade, step.top + 4 * step.fade)
    last = step.top + 14 * step.fade + FAR * sigma
    y = cut_line(-FAR * sigma, last, sigma / 64, [fade], min(sigma / 64, step.fade / 8))
    nearest = np.where(y[:-1] >= 0, y[:-1], np.where(y[1:] <= 0, y[1:], 0.0))
    logs = log_ratio(step.q, (2 * y - 1) / (2 * step.variance))[0]
    faded = np.asarray(log_ndtr((y[1:] - step.top) / step.fade))
    density = -nearest * nearest / (2 * step.variance)
    cells = density - math.log(sigma * math.sqrt(2 * math.pi)) + faded - tilt * logs[:-1]
    inside = float(sum_logs(cells + np.log(np.diff(y))))
    # left of the cells r^-tilt is at most (1-q)^-tilt, right of them at most its last value
    left = float(log_ndtr(y[0] / sigma)) + float(faded[0]) - tilt * math.log1p(-step.q)
    right = float(log_ndtr(-y[-1] / sigma)) - tilt * float(logs[-1])
    return float(sum_logs(np.array([inside, left, right]))) + 1e-9


def bound_bulk(step: FadedStep, tilt: float, edge: float) -> float:
    """An upper bound of log E[W e^{tilt Z}; y <= edge] in the remove direction (S3).

    The integrand less one is bounded cell by cell: from above where r > 1, from below where r < 1.
    """
    sigma = step.sigma
    y = cut_line(-FAR * sigma, edge, sigma / 256, [], sigma)
    logs = log_ratio(step.q, (2 * y - 1) / (2 * step.variance))[0]
    nearest = np.where(y[:-1] >= 0, y[:-1], np.where(y[1:] <= 0, y[1:], 0.0))
    farthest = np.maximum(np.abs(y[:-1]), np.abs(y[1:]))
    area = np.diff(y) / (sigma * math.sqrt(2 * math.pi))
    weights = ndtr((step.top - y) / step.fade)
    rise = np.expm1(np.minimum((tilt + 1) * logs[1:], 700.0))
    most = np.exp(-nearest * nearest / (2 * step.variance)) * weights[:-1]
    least = np.exp(-farthest * farthest / (2 * step.variance)) * weights[1:]
    excess = float(np.sum(area * rise * np.where(rise > 0, most, least))) + 1e-15
    return math.log1p(excess - step.faded_mass(0.0) * (1 - 1e-12)) + 1e-15
