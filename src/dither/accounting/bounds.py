"""A number known between two floats, rounded outwards."""

from __future__ import annotations

import math
from typing import NamedTuple


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
