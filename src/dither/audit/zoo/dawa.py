"""The first stage of DAWA with half of the noise that its proof needs."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dither.privacy.noise import SystemSource

DAWA_CHANCES = (0.016274, 0.005444)  # ends at 1e-9 from 1e8 runs a side: 1,635,085 and 539,917 hits


def dawa_partition(counts: list[int], size: int) -> NDArray[np.bool_]:
    """Run DAWA's first stage on 8 cells as in the public code.

    Returns True where the chosen partition is a single bucket. cost(B) = sum |x - mean| + 1/eps2,
    floored at 1/eps2; eps1 = 1, eps2 = 1/20. The noise of a bucket of length L has scale (2 - 1/L -
    1/N) / eps1, half of what choosing the least of all partitions needs; single cells have none.
    """
    x = np.array(counts, np.float64)
    n = len(counts)
    floor_cost = np.float32(20)
    best: list[Any] = [np.zeros(size, np.float32)]
    long = best[0]
    for end in range(1, n + 1):
        least = best[end - 1] + floor_cost
        length = 2
        while length <= end:
            bucket = x[end - length : end]
            exact = np.float32(np.abs(bucket - bucket.mean()).sum()) + floor_cost
            noisy = exact + _laplace(size) * np.float32(2 - 1 / length - 1 / n)
            long = best[end - length] + np.maximum(noisy, floor_cost)
            if end == n and length == n:
                return np.asarray(long < least)
            least = np.minimum(least, long)
            length *= 2
        best.append(least)
    raise ValueError("the number of cells must be a power of two")


def _laplace(size: int) -> NDArray[np.float32]:
    """Standard Laplace noise from 32 bits each: enough for events of probability 1e-3."""
    bits = SystemSource().words(-(-size // 2)).view(np.int32)[:size]
    u = (np.abs(bits).astype(np.float32) + np.float32(0.5)) * np.float32(2.0**-31)
    return np.asarray(np.copysign(-np.log(u), bits.astype(np.float32)))
