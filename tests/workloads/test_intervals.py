"""Factors of intervals: at least those of the laws that a combination of noises can have."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.special import ndtri
from scipy.stats import laplace, uniform

from dither.answer.draws import make_noise_law
from dither.answer.sums import find_sum_bound
from dither.laws import LaplaceErrorLaw
from dither.workloads.intervals import find_multiplier, find_rounding_share, find_spread

LEVELS = (0.5, 0.8, 0.9, 0.95, 0.99, 0.999)


@pytest.mark.parametrize("level", LEVELS)
def test_a_log_concave_law_lies_inside(level: float) -> None:
    """Normal, Laplace and uniform laws are symmetric and log-concave, and so is what lies
    between."""
    factor = find_multiplier(level, "laplace")
    assert factor >= -ndtri((1 - level) / 2)
    assert factor >= laplace.ppf((1 + level) / 2, scale=math.sqrt(0.5))
    assert factor >= uniform.ppf(level, scale=math.sqrt(3)) * (1 - 1e-3)
    assert factor <= 1.3 * max(-ndtri((1 - level) / 2), -math.log(1 - level) / math.sqrt(2), 0.67)


def test_gaussian_factors_are_normal_quantiles() -> None:
    assert find_multiplier(0.95, "gaussian") == pytest.approx(1.959963984540054)


@pytest.mark.parametrize("terms", [1, 2, 5, 30])
def test_sums_of_integer_laplace_noise_lie_inside(terms: int) -> None:
    """Against the convolution of the exact laws (`answer/sums.py`), which is an upper bound up to
    its grid."""
    law = LaplaceErrorLaw(Fraction(5000))
    noise = make_noise_law(law)
    exact = find_sum_bound((noise,) * terms, (1.0,) * terms, Fraction(95, 100))
    variances = np.array([law.variance])
    factor = find_multiplier(0.95, "laplace") + find_rounding_share([terms], variances, "laplace")
    assert exact <= factor * math.sqrt(terms * law.variance) * 1.002
    assert factor * math.sqrt(terms * law.variance) <= 1.13 * exact


@pytest.mark.parametrize("scale", [1, 3, 100])
def test_the_unrounded_laplace_number_spreads_at_most_so_far(scale: int) -> None:
    """Its variance is 2 b^2; that of the integers is their law's."""
    law = LaplaceErrorLaw(Fraction(scale))
    spread = find_spread(np.array([law.variance, 10 * law.variance]), "laplace")
    assert math.sqrt(2 * scale**2 / law.variance) <= spread
    assert find_spread(np.array([law.variance]), "gaussian") == 1


def test_roundings_are_bounded_by_their_number() -> None:
    """Four numbers of variance 100 with coefficients 1: at most 4/2 on a deviation of 20."""
    assert find_rounding_share([4], np.array([100.0]), "gaussian") == pytest.approx(0.1)
    assert find_rounding_share([4], np.array([100.0]), "laplace") == pytest.approx(0.2)
