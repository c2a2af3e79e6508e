"""How many standard deviations an interval of a fitted answer takes.

A fitted answer errs by a fixed combination of independent noises of known variances, so that its
variance is known exactly.

* Rounded Gaussian noise is a normal number and a rounding of at most 1/2. The combination of the
  normal numbers is normal; the roundings add at most half the sum of the coefficients.
* Integer Laplace noise is a difference of two rounded exponential numbers: a Laplace number and a
  rounding below 1. A combination of Laplace numbers is symmetric and log-concave, and among all
  such laws of one variance the tail is largest for one with a density that is flat and then falls
  exponentially to an end (Fradelizi and Guedon 2004): the largest over these is taken. Normal
  numbers may be among them.
* Integer Gaussian noise is sub-Gaussian, and so is a combination: Chernoff's bound. Beside other
  noise each of the two sums gets half of the misses.

Proof: docs/proofs/workloads.md#intervals.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from scipy.special import ndtri

from dither.workloads.lines import Floats, JointNoise

_GRID = 400
_REFINED = 60
_DISCRETE_SPREAD = 1.01
"""Above sigma / deviation of an integer Gaussian number whose variance is at least 1/2."""


def find_multiplier(level: float, noise: JointNoise) -> float:
    """So many standard deviations hold a combination of unrounded noises at this level."""
    match noise:
        case "gaussian":
            return float(-ndtri((1 - level) / 2))
        case "laplace":
            return _find_log_concave_multiplier(level)
        case "discrete gaussian":
            return math.sqrt(2 * math.log(2 / (1 - level)))
    half = (1 + level) / 2
    # a s + b t <= sqrt(a^2 + b^2) sqrt(s^2 + t^2): deviations s and t of the two sums
    return math.hypot(find_multiplier(half, "discrete gaussian"), find_multiplier(half, "laplace"))


def find_rounding_share(rows: list[int], variances: Floats, noise: JointNoise) -> float:
    """What roundings can add, in standard deviations of any combination: by Cauchy-Schwarz, the
    root of the sum over all noisy numbers of 1 / variance, times the largest rounding.

    Noise so small that its variance is 0 has no such bound: infinity."""
    if not variances.all():
        return math.inf
    if noise == "discrete gaussian":
        return 0.0
    largest = 0.5 if noise == "gaussian" else 1.0
    return largest * float(np.sqrt((np.array(rows) / variances).sum()))


def find_spread(variances: Floats, noise: JointNoise) -> float:
    """At most so many times the deviation of the noise is that of the unrounded noise.

    A Laplace number has a variance above that of its integer noise, by less than 1/6.
    """
    if noise == "gaussian":
        return 1.0
    discrete = 1.0 if noise == "laplace" else _DISCRETE_SPREAD
    laplace = 1.0 if noise == "discrete gaussian" else 1 + 1 / (6 * float(variances.min()))
    return max(discrete, math.sqrt(laplace))


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
