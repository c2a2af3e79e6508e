"""The rho that an epsilon buys at a delta, checked with the conversion that will charge it."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache

from dither.canonical import number_text
from dither.errors import ParameterError
from dither.privacy.charges.conversions import rho_for
from dither.privacy.charges.gaussian_curve import GRAINS, is_gaussian_within
from dither.privacy.charges.logarithms import epsilon_up

_LESS = 1 - Fraction(1, 2**20)
_MOST_STEPS = 512
_MOST_HALVINGS = 64


@lru_cache(maxsize=256)
def rho_within(epsilon: Fraction, delta: Fraction) -> Fraction:
    """A rho, the largest to six digits, whose exact conversion at delta is at most epsilon.

    >>> float(rho_within(Fraction(1), Fraction(1, 10**6)))
    0.02435...
    """
    return _find_largest(
        epsilon, delta, rho_for(epsilon, delta), lambda rho: epsilon_up(rho, delta) <= epsilon
    )


@lru_cache(maxsize=256)
def rho_on_curve(epsilon: Fraction, delta: Fraction) -> Fraction:
    """Find the rho that an epsilon buys for Gaussian noise alone, by its exact curve.

    It is larger than that of `rho_within`, so less noise is needed.

    >>> float(rho_on_curve(Fraction(1), Fraction(1, 10**6)))
    0.02801...
    """
    least = Fraction(int(epsilon * GRAINS), GRAINS)
    return _find_largest(
        epsilon,
        delta,
        2 * rho_for(epsilon, delta),
        lambda rho: is_gaussian_within(2 * rho, least, delta),
    )


def _find_largest(
    epsilon: Fraction, delta: Fraction, start: Fraction, fits: Callable[[Fraction], bool]
) -> Fraction:
    """Find the largest rho up to `start` that fits, to six digits."""

    def lowered(step: int) -> Fraction:
        return start * Fraction(_LESS**step)

    steps = first_step(lambda step: fits(lowered(step)), _MOST_STEPS)
    if steps is not None:
        return lowered(steps)
    halvings = first_step(lambda step: fits(start / 2**step), _MOST_HALVINGS)
    if halvings is None:
        raise ParameterError(
            f"epsilon {number_text(epsilon)} is too small for Gaussian noise at delta "
            f"{number_text(delta)}: ask with "
            "Laplace noise, with rho= in a zCDP budget, or choose e.g. epsilon=0.5"
        )
    low: Fraction = start / 2**halvings

    def raised(step: int) -> Fraction:
        return low * (2 - Fraction(step, 2**20))

    finer = first_step(lambda step: fits(raised(step)), 2**20)
    return low if finer is None else raised(finer)


def first_step(holds: Callable[[int], bool], last: int) -> int | None:
    """Find the first step from 0 to `last` at which `holds` is true, by doubling and bisection.

    Returns None where it is true at none. From the first such step on it must stay true.

    >>> first_step(lambda step: step >= 300, 512), first_step(lambda step: False, 512)
    (300, None)
    """
    if holds(0):
        return 0
    low = 0
    high = 1
    while not holds(high):
        if high == last:
            return None
        low = high
        high = min(2 * high, last)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high
