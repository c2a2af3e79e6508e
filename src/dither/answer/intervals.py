"""Intervals from the known noise law: they cover the exact answer on the registered table at least as often as said."""

from __future__ import annotations

from fractions import Fraction

from dither.canonical import Number, exact
from dither.errors import ParameterError
from dither.privacy.mechanisms import IntegerGaussian, IntegerLaplace


def level_of(confidence: Number) -> Fraction:
    """A confidence level, checked."""
    level = exact(confidence, "confidence")
    if not 0 < level < 1 or not 0.0 < float(level) < 1.0:
        raise ParameterError(f"confidence must lie in (0, 1), got {confidence}: choose e.g. 0.95")
    return level


def half_width(mechanism: IntegerLaplace | IntegerGaussian, level: Fraction) -> int:
    """The smallest whole number w with P(|noise| <= w) at least the level, in grid steps."""
    return mechanism.error().interval(level)


def noise_scale(mechanism: IntegerLaplace | IntegerGaussian) -> Fraction:
    """The parameter of the noise, in grid steps: the scale of Laplace noise, the sigma of Gaussian noise."""
    return mechanism.scale if isinstance(mechanism, IntegerLaplace) else mechanism.sigma
