"""Wide integer Gaussian noise between two readings of the continuous curve."""

from __future__ import annotations

from fractions import Fraction

import mpmath
import numpy as np
import pytest

from dither import accounting as acc
from dither.accounting import wide_gaussians
from dither.accounting.lattice import delta_discrete_gaussian
from tests.accounting.loss_oracles import gaussian


@pytest.mark.parametrize(("sigma", "shift", "count"), [(40, 7, 1), (30, 2, 3), (25, 40, 2)])
def test_sums_of_integer_noise_lie_between_two_continuous_readings(sigma, shift, count):
    """The law of the sum by brute convolution; float64 sums of positive terms err by 1e-12."""
    x = np.arange(-12 * sigma, 12 * sigma + 1)
    weights = np.exp(-(x.astype(float) ** 2) / (2 * sigma**2))
    law = weights / weights.sum()
    total = law
    for _ in range(count - 1):
        total = np.convolve(total, law)
    sums = np.arange(len(total)) - len(total) // 2
    losses = (count * shift**2 - 2 * shift * sums) / (2 * sigma**2)
    blur = wide_gaussians.blur_wide_gaussian(acc.DiscreteGaussian(sigma, shift), count)
    with mpmath.workdps(30):
        curve = gaussian(mpmath.mpf(shift) / sigma * mpmath.sqrt(count))
        for epsilon in (0.0, 0.1, 0.5, 2.0):
            above = losses > epsilon
            delta = float(np.sum(total[above] * -np.expm1(epsilon - losses[above])))
            below = curve(epsilon + float(blur.shift)) * (1 - float(blur.relative))
            over = curve(epsilon - float(blur.shift)) * (1 + float(blur.relative))
            assert below * (1 - 1e-10) <= delta <= over * (1 + 1e-10)
            # not vacuous: without the shift the lattice is missed on one side or the other
            assert over - below < 20 * float(blur.relative) + 0.2


@pytest.mark.parametrize("shift", [1, 300, 40_000])
@pytest.mark.parametrize("epsilon", ["0", "1e-7", "0.5", "3"])
def test_one_wide_release_meets_the_lattice_law(shift, epsilon):
    """`lattice` sums one release by the midpoint rule, with a bound of its own."""
    bounds = acc.delta(acc.DiscreteGaussian(40_000, shift), epsilon)
    single = delta_discrete_gaussian(Fraction(40_000), shift, epsilon)
    assert bounds.lower <= single.upper
    assert single.lower <= bounds.upper


def test_a_billion_wide_releases_have_a_narrow_bracket():
    """mu = 1e-5 sqrt(1e9) and half a step of the losses, 5e-11, to either side."""
    bounds = acc.epsilon(acc.DiscreteGaussian(10**5, 1) * 10**9, 1e-6)
    truth = acc.epsilon(acc.Gaussian(10**5) * 10**9, 1e-6)
    assert bounds.lower < truth.lower <= truth.upper < bounds.upper
    assert bounds.upper - bounds.lower < 1.1e-10
    assert Fraction(bounds.lower) > 1
