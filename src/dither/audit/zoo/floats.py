"""Noise in floating point: holes in the noise itself, and the rounding of the sum."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dither.audit.views import lowest_bit
from dither.audit.zoo.bug import Bug, black_box
from dither.privacy.noise import SystemSource, discrete_laplace

Floats = NDArray[np.float64]
SCALE = 10.0  # epsilon 1/10, as in Mironov's attack on a count
# above the share of the other side's answers that the first could have given; measured by the tests
REACHED = 0.5


def textbook_laplace(count: float, size: int) -> Floats:
    """count +- scale ln(U), U a multiple of 2^-53: the inverse transform of every textbook."""
    words = SystemSource().words(size)
    u = ((words >> np.uint64(11)).astype(np.float64) + 1) * 2.0**-53
    sign = np.where(words & np.uint64(1), 1.0, -1.0)
    return np.asarray(count + sign * (SCALE * np.log(u)))


def reachable(answers: Any, count: float) -> NDArray[np.bool_]:
    """Whether the sampler can give these answers for this count: some U near exp(-|answer - count|
    / scale) does."""
    y = np.asarray(answers, np.float64)
    middle = np.rint(np.exp(-np.abs(y - count) / SCALE) * 2.0**53)
    is_reachable = np.zeros(len(y), np.bool_)
    for step in range(-8, 9):  # the logarithm and the sum each move U by a few units
        u = np.clip(middle + step, 1, 2.0**53) * 2.0**-53
        noise = SCALE * np.log(u)
        is_reachable |= (count + noise == y) | (count - noise == y)
    return is_reachable


def exact_noise_rounded_sum(count: float, size: int) -> Floats:
    """Noise on a grid of 2^-58 with the exact law, correctly rounded; then count + noise, which is
    rounded again."""
    fine = discrete_laplace(2**58, size)
    noise = np.array([float(draw) for draw in fine]) * 2.0**-58
    return np.asarray(count + noise)


def _fine_chance() -> float:
    """P(the answer to 0 has a bit below 2^-53): in [2^-(j+1), 2^-j) such a bit is set with
    probability 1 - 2^-j."""
    mass = [math.exp(-(2.0 ** -(j + 1))) - math.exp(-(2.0**-j)) for j in range(1, 6)]
    return sum(m * (1 - 2.0**-j) for j, m in enumerate(mass, start=1))


def bugs() -> list[Bug]:
    """List the planted bugs of this module, for the black-box tester to catch."""
    return [
        black_box(
            "float-laplace-holes",
            "Laplace noise by the inverse transform in doubles: most doubles are never drawn",
            "Mironov 2012 (PINQ, Airavat, Fuzz, GUPT and others)",
            mechanism=textbook_laplace,
            pair=(0.0, 1.0),
            epsilon=0.1,
            named=("an answer that the sampler can give for 0", lambda x: reachable(x, 0.0)),
            chances=lambda: (0.999, REACHED),
            runs=4_000,
        ),
        black_box(
            "precision-of-the-sum",
            "exact noise, but added in doubles: how finely the sum is rounded depends on the count",
            "Haney, Desfontaines, Hartman, Shrestha, Hay 2022",
            mechanism=exact_noise_rounded_sum,
            pair=(0.0, 1.0),
            epsilon=1.0,
            named=("a bit below 2^-53", lambda x: lowest_bit(np.asarray(x)) <= -54),
            chances=lambda: (_fine_chance(), 0.0),
            runs=4_000,
        ),
    ]
