"""Planning solves on the safe side; group privacy and amplification follow their theorems."""

import math
from fractions import Fraction

import pytest

from dither import accounting as acc
from dither.errors import ParameterError, RefusedError


def test_sigma_is_the_smallest_that_fits():
    plan = acc.calibrate(epsilon=1, delta=1e-6)
    assert float(plan.sigma) == pytest.approx(4.22467888933, rel=1e-8)
    assert plan.epsilon.upper <= 1
    assert acc.epsilon(acc.Gaussian(plan.sigma * Fraction(999_999, 1_000_000)), 1e-6).lower > 1


def test_steps_rate_and_epsilon():
    steps = acc.calibrate(sigma=1.1, q=0.01, steps=None, epsilon=5, delta=1e-5)
    assert (
        steps.epsilon.upper
        <= 5
        < acc.epsilon(acc.PoissonSampled(0.01, acc.Gaussian(1.1)) * (steps.steps + 1), 1e-5).lower
    )
    rate = acc.calibrate(sigma=1, q=None, steps=1000, epsilon=2, delta=1e-5)
    assert rate.epsilon.upper <= 2
    assert rate.epsilon.lower > 2 * (1 - 1e-6)
    assert acc.calibrate(sigma=1, steps=10, delta=1e-5).epsilon == acc.epsilon(
        acc.Gaussian(1) * 10, 1e-5
    )


def test_exactly_one_unknown():
    with pytest.raises(ParameterError, match="exactly one"):
        acc.calibrate(epsilon=1, sigma=1, delta=1e-6)
    with pytest.raises(ParameterError, match="exactly one"):
        acc.calibrate(epsilon=1, steps=None, delta=1e-6)


def test_replace_takes_the_clip_norm():
    plan = acc.calibrate(sigma=1.1, q=0.01, steps=10_000, delta=1e-5, neighbours="replace")
    assert plan.epsilon.upper == pytest.approx(9.4223, abs=1e-4)


def test_most_queries_and_marginal_cost():
    assert acc.most_queries(acc.Pure(0.1), 1, 0) == 10
    count = acc.most_queries(acc.Gaussian(10), 1, 1e-6)
    assert (
        acc.epsilon(acc.Gaussian(10) * count, 1e-6).upper
        <= 1
        < acc.epsilon(acc.Gaussian(10) * (count + 1), 1e-6).lower
    )
    cost = acc.marginal_cost(acc.Gaussian(10) * 99, acc.Gaussian(10), 1e-6)
    assert 0 < cost.lower <= cost.upper
    with pytest.raises(RefusedError, match="delta"):
        acc.most_queries(acc.Gaussian(1), 1, 0)


@pytest.mark.parametrize("rule", ["pure", "zcdp"])
def test_split_is_optimal_and_exact(rule):
    weights, sensitivities = [1, 8, 3], [1, 1, 2]
    parts = acc.split(2, weights, sensitivities, rule)
    assert sum(parts) == 2

    def cost(shares):
        power = 2 if rule == "pure" else 1
        return sum(
            w * d * d / float(s) ** power
            for w, d, s in zip(weights, sensitivities, shares, strict=True)
        )

    for i in range(3):
        for j in range(3):
            if i != j:
                moved = list(parts)
                moved[i] += Fraction(1, 1000)
                moved[j] -= Fraction(1, 1000)
                assert cost(moved) > cost(parts)
    assert acc.split(1, [1, 1, 1], [2, 2, 2], rule) == (Fraction(1, 3),) * 3


def test_group_privacy():
    assert acc.group(acc.Pure(0.1), 3).epsilon == Fraction(3, 10)
    assert acc.group(acc.ZCDP(0.1), 3).rho == Fraction(9, 10)
    assert acc.group(acc.Gaussian(2), 3).sensitivity == 3
    assert acc.group(acc.DiscreteGaussianVector(2, 5), 3).l2_squared == 45
    grouped = acc.group(acc.Approx(1, 1e-9), 2)
    assert grouped.epsilon == 2
    assert float(grouped.delta) == pytest.approx(1e-9 * (1 + math.e), rel=1e-12)
    assert acc.group(acc.Laplace(3) * 4, 2).count == 4
    fixed = acc.group(
        acc.SampledWithoutReplacement(1, 10, acc.Gaussian(1, neighbours="replace")), 2
    )
    assert (fixed.sample_size, fixed.population_size, fixed.loss.sensitivity) == (1, 5, 2)
    with pytest.raises(RefusedError, match="group"):
        acc.group(acc.SampledWithoutReplacement(1, 10, acc.Gaussian(1)), 2)


def test_groups_of_sampled_units():
    """Two units that move the same way, each drawn or not: brute force of the mixture lies below
    the group's loss."""
    grouped = acc.group(acc.PoissonSampled(0.1, acc.Gaussian(1)), 2)
    assert grouped == acc.PoissonSampled("0.19", acc.Gaussian(1, 2, unit="2 x unit"))
    from scipy.special import ndtr

    def mixture(edge):  # P(output >= edge) with both, one or none drawn
        return 0.81 * ndtr(-edge) + 0.18 * ndtr(1 - edge) + 0.01 * ndtr(2 - edge)

    for epsilon in (0.1, 0.5, 1.0, 2.0):
        truth = max(
            mixture(edge) - math.exp(epsilon) * ndtr(-edge)
            for edge in (k / 50 for k in range(-200, 400))
        )
        assert truth <= acc.delta(grouped, epsilon).upper
        assert acc.delta(acc.PoissonSampled(0.1, acc.Gaussian(1)), epsilon).upper < truth, (
            "the group was forgotten"
        )
    swapped = acc.group(acc.PoissonSampled(0.1, acc.GaussianSum(1, 1, neighbours="replace")), 3)
    assert swapped.loss.clip_norm == 3 and swapped.q == 1 - Fraction(9, 10) ** 3


@pytest.mark.parametrize(
    ("noise", "sensitivity", "steps", "q"),
    [
        ("laplace", 2, 20, 1),
        ("discrete_laplace", 1, 20, 1),
        ("discrete_gaussian", 1, 5, 1),
        ("discrete_laplace", 1, 50, 0.1),
    ],
)
def test_other_noises_are_calibrated_too(noise, sensitivity, steps, q):
    plan = acc.calibrate(
        epsilon=2, delta=1e-5, noise=noise, sensitivity=sensitivity, steps=steps, q=q
    )
    assert plan.epsilon.upper <= 2 < plan.epsilon.upper * (1 + 1e-4)
    count = acc.calibrate(
        sigma=plan.sigma,
        epsilon=2,
        delta=1e-5,
        noise=noise,
        sensitivity=sensitivity,
        steps=None,
        q=q,
    )
    assert count.steps == steps
    with pytest.raises(ParameterError, match="noise"):
        acc.calibrate(epsilon=1, delta=1e-6, noise="cauchy")
    with pytest.raises(ParameterError, match="integer"):
        acc.calibrate(epsilon=1, delta=1e-6, noise="discrete_laplace", sensitivity=1.5)


def test_pure_calibration_is_exact_and_rates_are_found():
    assert acc.calibrate(epsilon=1, delta=0, noise="laplace", steps=3).sigma == 3
    rate = acc.calibrate(sigma=5, q=None, epsilon=0.05, delta=0, noise="laplace")
    assert float(rate.q) == pytest.approx(math.expm1(0.05) / math.expm1(0.2), rel=1e-6)


def test_the_accuracy_floor():
    """Theorem 3.24; numbers computed with mpmath."""
    assert acc.accuracy_floor(1, 1e-6, 1000, 10**6) == pytest.approx(0.0363735, abs=1e-7)
    assert acc.accuracy_floor(1, 1e-6, 1000, 590_498) is None
    assert acc.accuracy_floor(1, 1e-6, 1000, 590_500) is not None
    assert acc.accuracy_floor(1, 1e-4, 1000, 10**6) is None
    assert acc.accuracy_floor(1, 1e-6, 1000, 10**9) == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("epsilon", "q", "reference"),
    [
        (1, 0.01, 0.0170368632361765),
        (0.5, 0.1, 0.0628547234737304),
        (4, 0.001, 0.0522111155922646),
        (2, 1, 2),
    ],
)
def test_amplification(epsilon, q, reference):
    bounds, delta = acc.amplify(epsilon, q, 1e-6)
    assert bounds.lower <= reference * (1 + 1e-14)
    assert bounds.upper == pytest.approx(reference, rel=1e-12)
    assert delta == Fraction(str(q)) / 10**6
    assert acc.unamplify(reference, q) == pytest.approx(epsilon, rel=1e-10)


def test_cautions():
    assert any("1/n" in note for note in acc.cautions(acc.Gaussian(1), 1e-2, 500))
    assert any("attack" in note for note in acc.cautions(acc.Gaussian(Fraction(1, 4)), 1e-6))
    assert acc.cautions(acc.Gaussian(20), 1e-6, 1000) == []


def test_profile_and_tradeoff_hold_between_their_points():
    loss = acc.Gaussian(1)
    curve = acc.profile(loss, [0, 1, 2, 3])
    inside = curve("1.5")
    truth = acc.delta(loss, "1.5")
    assert inside.lower <= truth.lower <= truth.upper <= inside.upper
    assert acc.profile(acc.Pure(1)).deltas[0].upper == pytest.approx(math.tanh(0.5), rel=1e-12)
    from scipy.special import ndtr, ndtri

    rates = [0.01, 0.05, 0.2, 0.5, 0.9]
    test = acc.tradeoff(loss, rates)
    for rate, bounds in zip(rates, test.false_negative, strict=True):
        truth = ndtr(ndtri(1 - rate) - 1)
        assert bounds.lower <= truth <= bounds.upper
        assert bounds.lower >= truth - 0.01
    assert test.accuracy.upper == pytest.approx(0.5 + 0.3829249225480262 / 2, rel=1e-12)
