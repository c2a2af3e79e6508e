"""Claims and runs of audits as people read them."""

from __future__ import annotations

import math

from dither.figures import write_bound, write_figure

_MANY_NINES = 0.9999


def write_claim(epsilon: float, delta: float) -> str:
    """Write the claim of a mechanism of the zoo: an epsilon, or a pair.

    >>> write_claim(1.0, 0.0), write_claim(0.5, 1e-05)
    ('1', '(0.5, 1e-5)')
    """
    shown_epsilon = write_bound(epsilon, up=True)
    return f"({shown_epsilon}, {write_bound(delta, up=True)})" if delta else shown_epsilon


def write_power(power: float) -> str:
    """Write a power, cut down: with six digits, or with as many nines as there are, up to eleven.

    >>> write_power(0.99312), write_power(1 - 2e-11), write_power(1.0)
    ('0.99312', '0.99999999998', '1')
    """
    if power == 1 or power < _MANY_NINES:
        return write_bound(power)
    return f"{math.floor(power * 1e11) / 1e11:.11f}".rstrip("0")


def write_needed_runs(runs: int) -> str:
    """Write how many runs a black box needs, with two digits.

    >>> write_needed_runs(123_456), write_needed_runs(598_765_432_100)
    ('120,000 a side', '600,000,000,000 a side')
    """
    return f"{write_figure(runs, 2)} a side"
