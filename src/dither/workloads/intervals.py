"""How many standard deviations an interval of a fitted answer takes.

A fitted answer errs by a fixed combination of independent noises of known variances, so that its
variance is known exactly.

* Rounded Gaussian noise is a normal number and a rounding of at most 1/2. The combination of the
  normal numbers is normal; the roundings add at most half the sum of the coefficients.
* Integer Laplace noise is a difference of two rounded exponential numbers: a Laplace number and a
  rounding below 1. A combination of Laplace numbers is symmetric and log-concave, and among all
  such laws of one variance the tail is largest for one with a density that is flat and then falls
  exponentially to an end (Fradelizi and Guedon 2004): the largest over these is taken.

Proof: docs/proofs/workloads.md#intervals.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from scipy.special import ndtri

from dither.workloads.lines import Floats, Noise

_GRID = 400
_REFINED = 60


def find_multiplier(level: float, noise: Noise) -> float:
    """So many standard deviations hold a combination of unrounded noises at this level."""
    if noise == "gaussian":
        return float(-ndtri((1 - level) / 2))
    return _find_log_concave_multiplier(level)


def find_rounding_share(rows: list[int], variances: Floats, noise: Noise) -> float:
    """What roundings can add, in standard deviations of any combination: by Cauchy-Schwarz, the
    root of the sum over all noisy numbers of 1 / variance, times the largest rounding.

    Noise so small that its variance is 0 has no such bound: infinity."""
    if not variances.all():
        return math.inf
    largest = 0.5 if noise == "gaussian" else 1.0
    return largest * float(np.sqrt((np.array(rows) / variances).sum()))


def find_spread(variances: Floats, noise: Noise) -> float:
    """At most so many times the deviation of the noise is that of the unrounded noise.

    A Laplace number has a variance above that of its integer noise, by less than 1/6.
    """
    return 1.0 if noise == "gaussian" else math.sqrt(1 + 1 / (6 * float(variances.min())))


@lru_cache(maxsize=32)
def _find_log_concave_multiplier(level: float) -> float:
    """The largest quantile of |S| over symmetric log-concave S of variance 1.

    >>> round(_find_log_concave_multiplier(0.95), 3)
    2.169
    """
    flats = np.concatenate([[0.0], np.logspace(-3, 2, _GRID)])
    ends = np.concatenate([np.logspace(-3, 1.8, _GRID), [80.0]])
    quantiles = _find_quantiles(level, flats[:, None], ends[None, :])
    flat, end = np.unravel_index(int(np.argmax(quantiles)), quantiles.shape)
    near_flats = _refine(flats, int(flat))
    near_ends = _refine(ends, int(end))
    refined = _find_quantiles(level, near_flats[:, None], near_ends[None, :])
    return float(max(quantiles.max(), refined.max())) * (1 + 1e-6)


def _refine(grid: Floats, position: int) -> Floats:
    """A finer grid between the neighbours of a point."""
    low = grid[max(position - 1, 0)]
    high = grid[min(position + 1, len(grid) - 1)]
    return np.linspace(low, high, _REFINED)


def _find_quantiles(level: float, flat: Floats, end: Floats) -> Floats:
    """Quantiles of |S| in standard deviations, for densities that are 1 up to `flat` and exp(-y)
    from there to y = `end`."""
    last = np.exp(-end)
    mass = flat + 1 - last
    first = 1 - last * (1 + end)
    second = 2 - last * (2 + 2 * end + end**2)
    variance = (flat**3 / 3 + flat**2 * (1 - last) + 2 * flat * first + second) / mass
    miss = (1 - level) * mass
    falling = flat - np.log(np.maximum(miss + last, 1e-300))
    level_part = flat - (miss - (1 - last))
    return np.asarray(np.where(miss <= 1 - last, falling, level_part) / np.sqrt(variance))
