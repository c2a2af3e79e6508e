"""The exact law of weighted guesses: how often so many right ones come if each is right with
probability at most q.

Under an epsilon-DP claim a guess of the input from the output is right with probability at most
q = e^epsilon / (1 + e^epsilon), whatever the output. With r_k guesses of weight k, the sum of the
weights of the right ones is at most W = sum of k Bin(r_k, q) in law. Its tail is computed by
exponential tilting and a discrete Fourier transform: docs/proofs/audit.md#guesses.

>>> round(tail(np.array([8]), np.array([2]), 0.5), 6)  # 8 right of 10: 56 / 1024
0.054688
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

LEVELS = 8
_OUTWARD = 1e-9
_CLEAR = 1e-30  # Chernoff's bound on the tail decides where it is as small as this
_ROUNDING = 1e-13  # of the transform: sums of at most a few million terms of size at most 1
_OUTSIDE = 1.1e-9  # more than the mass outside the window of the transform
_DELTA_PART = 0.05  # of alpha, for more failures of probability delta than are taken off
Integers = NDArray[np.int64]
Floats = NDArray[np.float64]


def tail(right: Integers, wrong: Integers, chance: float) -> float:
    """Bound P[W >= the weights of the right guesses] from above.

    Entry k - 1 of `right` and `wrong` counts guesses of weight k.
    """
    weights = np.arange(1, len(right) + 1)
    counts = (right + wrong).astype(np.float64)
    total = int(weights @ right)
    all_weights = int(weights @ (right + wrong))
    if total <= chance * all_weights:
        return 1.0
    if total == all_weights:
        return min(1.0, chance ** int(counts.sum()) * (1 + _OUTWARD))
    tilt = _find_tilt(weights, counts, chance, total)
    growth = np.log1p(chance * np.expm1(tilt * weights))
    bound = math.exp(min(0.0, float(counts @ growth) - tilt * total))
    if bound < _CLEAR:
        return bound
    tilted = chance * np.exp(tilt * weights - growth)
    share = _sum_window(weights, counts, tilted, tilt, total, all_weights)
    return min(1.0, bound * (1 + _OUTWARD) * min(1.0, share + _ROUNDING + _OUTSIDE))


def _find_tilt(weights: Integers, counts: Floats, chance: float, total: int) -> float:
    """Find the tilt under which the mean is `total`, by bisection."""
    low = 0.0
    high = 1.0
    while _tilted_mean(weights, counts, chance, high) < total:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        if _tilted_mean(weights, counts, chance, middle) < total:
            low = middle
        else:
            high = middle
    return low


def _tilted_mean(weights: Integers, counts: Floats, chance: float, tilt: float) -> float:
    odds = np.exp(np.minimum(tilt * weights, 700.0)) * chance / (1 - chance)
    return float((weights * counts) @ (odds / (1 + odds)))


def _sum_window(
    weights: Integers, counts: Floats, tilted: Floats, tilt: float, total: int, all_weights: int
) -> float:
    """Sum over d >= 0 of e^(-tilt d) P[W = total + d] under the tilted law, d inside the window."""
    spread = math.sqrt(float((weights**2 * counts) @ (tilted * (1 - tilted))))
    window = min(all_weights + 1, int(40 * spread) + 32 * int(weights[-1]) + 2)
    angles = 2 * math.pi * np.arange(window // 2 + 1) / window
    log_transform = np.zeros(len(angles), np.complex128)
    for weight, count, share in zip(weights, counts, tilted, strict=True):
        if count:
            log_transform += count * np.log1p(share * np.expm1(-1j * weight * angles))
    law = np.maximum(np.fft.irfft(np.exp(log_transform), window), 0.0)
    reach = all_weights - total if window == all_weights + 1 else window // 2
    distances = np.arange(min(reach, window - 1) + 1)
    return float(law[(total + distances) % window] @ np.exp(-tilt * distances))


def discount_failures(
    right: Integers, trials: int, delta: float, alpha: float
) -> tuple[Integers, float]:
    """Take from the right guesses those that failures of probability delta may have given.

    The heaviest go first. Returns the rest, and what is left of alpha.
    """
    if delta <= 0:
        return right, alpha
    failures = int(binom.isf(_DELTA_PART * alpha, trials, delta)) + 1
    kept = right.copy()
    for k in range(len(kept) - 1, -1, -1):
        taken = min(failures, int(kept[k]))
        kept[k] -= taken
        failures -= taken
    return kept, (1 - _DELTA_PART) * alpha


def epsilon_lower(
    right: Integers, wrong: Integers, trials: int, delta: float, alpha: float
) -> float:
    """Find the largest epsilon that these guesses refute at this delta (0 if none), to three
    digits.

    The tail falls with epsilon, so the refuted ones are those below it.
    """
    kept, level = discount_failures(right, trials, delta, alpha)
    if tail(kept, wrong, 0.5) > level:
        return 0.0
    low = 0.0
    step = 0.01
    while tail(kept, wrong, _right_chance(low + step)) <= level:
        low += step
        step *= 2
    high = low + step
    while high - low > 1e-3 * high:
        middle = (low + high) / 2
        if tail(kept, wrong, _right_chance(middle)) <= level:
            low = middle
        else:
            high = middle
    return low


def guess_ceiling(trials: int, delta: float, alpha: float) -> float:
    """Compute the largest epsilon that so many guesses could refute, if all were right.

    It solves q^trials <= alpha.

    >>> round(guess_ceiling(1000, 0.0, 0.05), 5)  # as audit.one_run with 1000 of 1000 right
    5.80907
    """
    kept, level = discount_failures(np.array([trials], np.int64), trials, delta, alpha)
    count = int(kept[0])
    if count <= 0 or 0.5**count > level:
        return 0.0
    chance_log = math.log(level) / count
    return max(0.0, chance_log - math.log(-math.expm1(chance_log)))


def _right_chance(epsilon: float) -> float:
    return 1 / (1 + math.exp(-epsilon))
