"""DAWA's first stage with the scale that our errata ask for: still no proof, and a counterexample.

Buckets of one cell have no noise there. Whether a cell is a bucket by itself hangs on all longer
buckets that hold it at once, and each of them moves.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.integrate import quad

EPSILON = 1.0
FLOOR = 20.0
"""1 / epsilon of the second stage: what every bucket costs."""


def exceed(scale: float, limit: float) -> float:
    """P(Laplace noise of this scale > limit)."""
    tail = math.exp(-abs(limit) / scale) / 2
    return tail if limit >= 0 else 1 - tail


def find_chance(pair: float, whole: float) -> float:
    """P(cell 1 of four is a bucket by itself), exactly, for costs of noise of doubled scale.

    Cells 0, 2, 3 are 0; `pair` is the deviation of the buckets {0, 1} and {1, 2}, `whole` that of
    all four, and {2, 3} has none. With A, B, C, D the noisy costs of {0,1}, {1,2}, {2,3} and all,
    and m = min(2 f, C), the cheapest partition has cell 1 alone where A > 2 f, B > m and
    D > 2 f + m: all partitions of four cells into buckets of 1, 2 or 4.
    """
    of_pairs = 2 * (2 - 1 / 2 - 1 / 4) / EPSILON
    of_whole = 2 * (2 - 1 / 4 - 1 / 4) / EPSILON

    def given(noise: float) -> float:
        """The chance given m = f + noise."""
        first = exceed(of_pairs, FLOOR - pair)
        second = exceed(of_pairs, noise - pair)
        return first * second * exceed(of_whole, 2 * FLOOR + noise - whole)

    density = 1 / (2 * of_pairs)
    middle, _ = quad(lambda z: given(z) * density * math.exp(-z / of_pairs), 0, FLOOR)
    return given(0) / 2 + middle + given(FLOOR) * math.exp(-FLOOR / of_pairs) / 2


def test_the_event_is_that_of_the_cheapest_partition() -> None:
    """Against all partitions, for drawn costs."""
    draws = np.random.default_rng(4)
    floor = 1.0
    for a, b, c, d in floor + np.maximum(0, draws.laplace(0, 3, (4000, 4))):
        alone = (4 * floor, 2 * floor + c)
        others = (a + 2 * floor, a + c, b + 2 * floor, d)
        least = min(2 * floor, c)
        expected = a > 2 * floor and b > least and d > 2 * floor + least
        assert (min(alone) < min(others)) == expected


def test_the_doubled_scale_of_dawa_does_not_meet_its_epsilon() -> None:
    """(0, 0, 0, 0) beside (0, 1, 0, 0): pairs deviate by 1, all four by 2 - 2/4."""
    ratio = math.log(find_chance(1.0, 1.5) / find_chance(0.0, 0.0))
    assert ratio == pytest.approx(1.21, abs=0.01)
    assert ratio > EPSILON


def test_noise_is_needed_for_every_bucket_that_may_win() -> None:
    """The sum over all buckets of powers of two around a middle cell, each by its own scale: what
    an event that needs all of them to lose can reach. It grows with the number of cells."""

    def bound(cells: int) -> float:
        lengths = [2**power for power in range(1, cells.bit_length())]
        buckets = [min(length, cells - length + 1) for length in lengths]
        return sum(
            number * (2 - 2 / length) / (2 * (2 - 1 / length - 1 / cells))
            for number, length in zip(buckets, lengths, strict=True)
        )

    assert [round(bound(cells), 2) for cells in (4, 8, 64)] == [1.3, 3.07, 30.34]
