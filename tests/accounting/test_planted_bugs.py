"""Each mistake that accountants have made, made once more here, and caught by our bracket.

A bug is a function that returns the wrong number; the test shows that the number lies outside the
bracket on the unsafe side (or, for structural bugs, that the mistake cannot be written).
"""

import math
from fractions import Fraction

import pytest

from dither import accounting as acc
from dither.accounting.alternatives import alternatives
from dither.accounting.renyi import conversion_epsilon, renyi_upper
from dither.errors import RefusedError

SGD = acc.PoissonSampled(0.01, acc.Gaussian(1.1)) * 10_000


def test_integer_laplace_priced_as_laplace():
    claimed = acc.epsilon(acc.Laplace(10) * 100, 1e-6)
    truth = acc.epsilon(acc.DiscreteLaplace(10, 1) * 100, 1e-6)
    assert claimed.upper < truth.lower
    assert acc.delta(acc.DiscreteLaplace(10, 1) * 100, claimed.upper).lower == pytest.approx(
        1.594e-6, rel=1e-3
    )


def test_integer_laplace_depends_on_scale_and_sensitivity_not_on_their_ratio():
    one, ten = acc.DiscreteLaplace(10, 1) * 100, acc.DiscreteLaplace(100, 10) * 100
    assert acc.epsilon(ten, 1e-6).upper < acc.epsilon(one, 1e-6).lower


def test_discrete_gaussian_at_the_analytic_sigma():
    assert acc.delta(acc.Gaussian("3.73063"), 1).upper == pytest.approx(1e-5, rel=1e-5)
    assert acc.delta(acc.DiscreteGaussian("3.73063", 1), 1).lower == pytest.approx(
        1.0346e-5, rel=1e-4
    )


def test_discrete_gaussians_folded():
    """Four integer Gaussians of sigma 1 are not one of sigma 1/2, nor one continuous Gaussian."""
    truth = acc.delta(acc.DiscreteGaussian(1, 1) * 4, "10.7")
    assert acc.delta(acc.Gaussian(1) * 4, "10.7").upper * 1.1 < truth.lower
    folded = acc.delta(acc.DiscreteGaussian(Fraction(1, 2), 1), "9.9")
    truth = acc.delta(acc.DiscreteGaussian(1, 1) * 4, "9.9")
    assert folded.upper < truth.lower or truth.upper < folded.lower


def test_permute_and_flip_at_bounded_range():
    wrong = acc.epsilon(acc.BoundedRange(1) * 100, 1e-6).upper
    # permute-and-flip keeps epsilon-DP only, and with two candidates at eps = 1 its divergence
    # already exceeds 1/8
    p = (
        1 - math.exp(-0.5) / 2
    )  # best candidate leads by one sensitivity step: P(best) = 1 - e^{-eps/2}/2
    other = math.exp(-0.5) / 2
    divergence = p * math.log(p / other) + other * math.log(other / p)
    assert divergence > 1 / 8
    assert wrong < acc.epsilon(acc.Pure(1) * 100, 1e-6).lower


def test_central_limit_used_as_a_bound():
    mu = 0.01 * math.sqrt(10_000) * math.sqrt(math.expm1(1 / 1.1**2))
    wrong = acc.epsilon(acc.Gaussian(Fraction(1 / mu)), 1e-5).upper
    assert wrong == pytest.approx(5.0647, abs=1e-4)
    assert wrong < acc.epsilon(SGD, 1e-5).lower


def test_renyi_orders_mixed():
    """R_1(alpha_1) + R_2(alpha_2) read at the larger order under-reports; ours adds at one
    order."""
    loss = acc.PoissonSampled(0.01, acc.Gaussian(1.1))
    (events,) = alternatives(loss * 2)
    honest = renyi_upper(events, "add_remove", 16.0, "remove")
    mixed = acc.rdp(loss, 16).upper + acc.rdp(loss, 8).upper
    assert mixed < acc.rdp(loss * 2, 16).lower <= honest
    with pytest.raises(RefusedError, match="order"):
        acc.charge(acc.RDP(8, 0.1), acc.RenyiRule(Fraction(16), Fraction(1), Fraction(0)))


def test_dropped_direction():
    assert acc.epsilon(SGD, 1e-5, direction="add").upper < acc.epsilon(SGD, 1e-5).lower
    assert acc.epsilon(SGD, 1e-5) == acc.epsilon(SGD, 1e-5, direction="remove")


EVENTS = [
    acc.Gaussian(5),
    acc.Laplace(5),
    acc.Pure(0.1),
    acc.Approx(0.1, 1e-9),
    acc.RandomizedResponse(0.1),
    acc.DiscreteLaplace(9, 2),
    acc.DiscreteGaussian(4, 1),
    acc.DiscreteGaussianVector(9, 3),
    acc.BoundedRange(0.2),
    acc.ZCDP(0.01),
    acc.RDP(8, 0.02),
    acc.PoissonSampled(0.1, acc.Pure(0.5)),
    acc.PoissonSampled(0.1, acc.ZCDP(0.1)),
    acc.SampledWithoutReplacement(1, 10, acc.Pure(0.5, neighbours="replace")),
]


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_ignored_count(event):
    once, often = acc.epsilon(event, 1e-6), acc.epsilon(event * 7, 1e-6)
    listed = acc.epsilon(acc.compose(*[event] * 7), 1e-6)
    assert often.upper == pytest.approx(listed.upper, rel=1e-10)
    assert often.upper > once.upper * 1.05
    assert often.lower >= once.lower * 1.5


def test_classic_gaussian():
    """sigma = sqrt(2 log(1.25/delta))/eps, used above eps = 1 where it was never proved."""
    sigma = Fraction(math.sqrt(2 * math.log(1.25 / 1e-2)) / 10)
    assert acc.epsilon(acc.Gaussian(sigma), 1e-2).lower > 10


def test_misprinted_triangle_inequality():
    def gaussian(order):
        return order / 2

    truth = 2 * 2**2 / 2  # N(0,1) against N(2,1) at order 2
    assert acc.triangle(2, 4, gaussian, gaussian) == pytest.approx(truth)
    misprinted = 4 / 3 * gaussian(2 * 3 / 4) + gaussian(4)
    assert misprinted < truth
    for other in (2.5, 3, 5, 9):
        assert acc.triangle(2, other, gaussian, gaussian) >= truth


def test_sampling_schemes_are_different_events():
    poisson = acc.epsilon(SGD, 1e-5)
    clip = acc.GaussianSum(1.1, 1, neighbours="replace")
    replace = acc.epsilon(acc.PoissonSampled(0.01, clip) * 10_000, 1e-5)
    fixed = acc.epsilon(acc.SampledWithoutReplacement(1, 100, clip) * 10_000, 1e-5)
    assert poisson.upper == pytest.approx(5.1926, abs=1e-4)
    assert replace.upper == pytest.approx(9.4223, abs=1e-4)
    assert fixed.lower >= 30.88
    assert poisson.upper < replace.lower < replace.upper < fixed.lower


def test_noise_multiplier_read_as_sigma_over_twice_the_clip_norm():
    """dp-accounting's without-replacement route reads 1.1 as sigma/2C and reports 11.77."""
    confused = (
        acc.SampledWithoutReplacement(1, 100, acc.Gaussian(1.1, 1, neighbours="replace")) * 10_000
    )
    honest = (
        acc.SampledWithoutReplacement(1, 100, acc.GaussianSum(1.1, 1, neighbours="replace"))
        * 10_000
    )
    assert acc.epsilon(confused, 1e-5).upper < acc.epsilon(honest, 1e-5).lower


def test_lattice_rounding_bumps_exact_multiples():
    """Rounding each epsilon up to a float grid is not exact: dp-accounting's finer grid gives
    1.9959576 here."""
    ladder = acc.compose(*(acc.RandomizedResponse(Fraction(j, 100)) for j in range(1, 21)))
    assert acc.epsilon(ladder, 1e-6).upper < 1.99594551


def test_loose_renyi_conversion_is_not_used():
    loose = min(a * 0.5 - math.log(1e-6) / (a - 1) for a in (x / 10 for x in range(11, 400)))
    tight, _ = conversion_epsilon(lambda alpha: alpha * 0.5, math.log(1e-6))
    assert tight < loose - 0.5
    assert tight == pytest.approx(5.221534, abs=1e-6)


def test_pure_limits_that_peers_miss():
    assert acc.epsilon(acc.Laplace(10), 0) == acc.epsilon(acc.Pure(0.1), 0)
    assert acc.epsilon(acc.RandomizedResponse(0.1), 1e-6).upper <= 0.1
    assert acc.delta(acc.RandomizedResponse(0.1) * 10, 1) == (0.0, 0.0)
