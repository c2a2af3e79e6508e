"""Five hundred sampled Gaussians over the whole range that the accountant promises to serve."""

import math
from fractions import Fraction
from typing import NamedTuple

ROOT = 1.1673039782614187
"""The positive root of x^5 = x + 1: its powers make a low-discrepancy sequence in four dimensions
(Roberts 2018)."""


class Workload(NamedTuple):
    """`steps` steps of rate q and noise sigma per unit shift, at a delta."""

    steps: int
    q: Fraction
    sigma: Fraction
    delta: Fraction


def build_grid(size: int = 500) -> list[Workload]:
    """Evenly spread in the logarithms: steps 1 to 1e9, q 1e-9 to 1, sigma 0.3 to 1e3, delta 1e-12
    to 1e-3."""
    return [_place(index) for index in range(1, size + 1)]


def _place(index: int) -> Workload:
    shares = [(0.5 + index / ROOT**power) % 1 for power in (1, 2, 3, 4)]
    lowest = math.log10(0.3)
    return Workload(
        round(10 ** (9 * shares[0])),
        _shorten(10 ** (-9 + 9 * shares[1])),
        _shorten(10 ** (lowest + shares[2] * (3 - lowest))),
        _shorten(10 ** (-12 + 9 * shares[3])),
    )


def _shorten(value: float) -> Fraction:
    return Fraction(f"{value:.4g}")
