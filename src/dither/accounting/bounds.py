"""A number known between two floats, rounded outwards."""

from __future__ import annotations

import math
from typing import NamedTuple

SMALLEST = 5e-324
"""The least positive float: what an upper end is at least, where the truth is positive."""


class Bounds(NamedTuple):
    """lower <= the true number <= upper."""

    lower: float
    upper: float


def down(x: float) -> float:
    """The next float below."""
    return math.nextafter(x, -math.inf)


def up(x: float) -> float:
    """The next float above."""
    return math.nextafter(x, math.inf)


def exp_up(exponent: float) -> float:
    """An upper bound of exp(exponent), never zero."""
    return up(math.exp(exponent)) * (1 + 1e-15) if exponent < 700 else math.inf


def is_wide(bounds: Bounds, absolute: float = 0.0) -> bool:
    """Whether another route may improve the upper end; a width of `absolute` is narrow enough."""
    narrow = max(1e-6 * bounds.upper, absolute)
    return bounds.upper == math.inf or not bounds.upper - bounds.lower <= narrow
