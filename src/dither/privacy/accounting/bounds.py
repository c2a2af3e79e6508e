"""A number known to lie between two floats, and rounding away from the truth."""

from __future__ import annotations

import math
from typing import NamedTuple


class Bounds(NamedTuple):
    """The truth lies in [lower, upper]; both ends are rounded outwards."""

    lower: float
    upper: float


def down(x: float) -> float:
    """The next float below x."""
    return math.nextafter(x, -math.inf)


def up(x: float) -> float:
    """The next float above x."""
    return math.nextafter(x, math.inf)
