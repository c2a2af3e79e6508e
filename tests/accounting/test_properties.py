"""What must hold for every loss: structure, monotonicity, limits; by hypothesis."""

import cmath
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dither import accounting as acc
from dither.accounting.sampled import SampledGaussianFactor
from dither.accounting.transforms import AtomsFactor, LaplaceFactor
from dither.errors import ParameterError, RefusedError

FEW = settings(max_examples=25, deadline=None, derandomize=True)


def tenths(low, high):
    return st.integers(low, high).map(lambda k: Fraction(k, 10))


elementary = st.one_of(
    tenths(5, 60).map(acc.Gaussian),
    tenths(5, 60).map(acc.Laplace),
    tenths(1, 15).map(acc.Pure),
    st.builds(acc.Approx, tenths(1, 15), st.just(Fraction(1, 10**8))),
    st.builds(acc.DiscreteLaplace, tenths(10, 80), st.integers(1, 3)),
    st.builds(acc.DiscreteGaussian, tenths(10, 60), st.integers(1, 2)),
    tenths(1, 15).map(acc.BoundedRange),
    tenths(1, 9).map(acc.ZCDP),
    st.builds(acc.PoissonSampled, st.sampled_from([0.05, 0.2]), tenths(1, 15).map(acc.Pure)),
)
cheap = st.one_of(
    tenths(5, 60).map(acc.Gaussian),
    tenths(1, 15).map(acc.Pure),
    st.builds(acc.DiscreteLaplace, tenths(10, 80), st.just(1)),
)


def close(a, b, tolerance=1e-10):
    """Brackets of one number: they intersect, and their ends agree."""
    assert max(a.lower, b.lower) <= min(a.upper, b.upper)
    assert a.upper == pytest.approx(b.upper, rel=tolerance)
    assert a.lower == pytest.approx(b.lower, rel=tolerance, abs=1e-12)


@FEW
@given(elementary, st.integers(2, 4))
def test_repetition_equals_listing(loss, count):
    close(acc.epsilon(loss * count, 1e-5), acc.epsilon(acc.compose(*[loss] * count), 1e-5))


@FEW
@given(elementary, elementary, cheap)
def test_order_and_grouping_do_not_matter(a, b, c):
    one = acc.epsilon((a + b) + c, 1e-4)
    close(one, acc.epsilon(c + (b + a), 1e-4))
    close(one, acc.epsilon(acc.compose(b, c, a), 1e-4))


@FEW
@given(elementary, cheap)
def test_lower_below_upper_and_composition_never_helps(loss, more):
    alone, both = acc.epsilon(loss, 1e-6), acc.epsilon(loss + more, 1e-6)
    assert 0 <= alone.lower <= alone.upper
    assert both.lower <= both.upper
    assert both.upper >= alone.lower
    assert acc.delta(loss + more, 1).upper >= acc.delta(loss, 1).lower


@FEW
@given(elementary, st.integers(0, 30), st.integers(1, 20))
def test_profile_does_not_increase_and_is_convex_in_the_odds(loss, start, gap):
    first, last = start / 10, (start + gap) / 10
    middle = math.log((math.exp(first) + math.exp(last)) / 2)
    low, mid, high = (acc.delta(loss, place) for place in (first, middle, last))
    assert high.lower <= low.upper
    assert mid.lower <= (low.upper + high.upper) / 2 * (1 + 1e-9)


@FEW
@given(elementary)
def test_epsilon_and_delta_are_inverse(loss):
    # truth <= upper end, so delta there is at most the target; and at the lower end at least
    bounds = acc.epsilon(loss, 1e-4)
    if bounds.lower > 0:
        assert acc.delta(loss, bounds.upper).lower <= 1e-4 * (1 + 1e-9)
        assert acc.delta(loss, bounds.lower).upper >= 1e-4 * (1 - 1e-9)


@settings(max_examples=8, deadline=None, derandomize=True)
@given(
    st.lists(
        st.one_of(tenths(1, 20).map(acc.Pure), tenths(5, 60).map(acc.Laplace)),
        min_size=1,
        max_size=5,
    )
)
def test_pure_sums_are_exact_at_delta_zero_and_clip_elsewhere(losses):
    total = sum(
        (part.epsilon if isinstance(part, acc.Pure) else 1 / part.scale for part in losses),
        Fraction(0),
    )
    whole = acc.compose(*losses)
    bounds = acc.epsilon(whole, 0)
    assert Fraction(bounds.lower) <= total <= Fraction(bounds.upper)
    assert bounds.upper - bounds.lower <= math.ulp(bounds.upper)
    assert acc.epsilon(whole, 1e-15).upper <= bounds.upper
    assert acc.delta(whole, total) == (0.0, 0.0)
    assert acc.delta(whole, bounds.upper).upper <= 1e-15


@FEW
@given(tenths(5, 50), st.integers(1, 30), st.integers(1, 5))
def test_monotone_in_sigma_count_and_sensitivity(sigma, count, sensitivity):
    base = acc.epsilon(acc.Gaussian(sigma, sensitivity) * count, 1e-6)
    assert (
        acc.epsilon(acc.Gaussian(sigma + Fraction(1, 100), sensitivity) * count, 1e-6).upper
        < base.upper
    )
    assert acc.epsilon(acc.Gaussian(sigma, sensitivity) * (count + 1), 1e-6).lower > base.lower
    assert acc.epsilon(acc.Gaussian(sigma, sensitivity + 1) * count, 1e-6).lower > base.lower
    assert acc.epsilon(acc.Gaussian(sigma, sensitivity) * count, 1e-7).lower > base.lower


def more_and_less(make, low, high):
    """(costs less, costs more) of one kind of loss, one parameter moved."""
    return st.integers(low, high).map(lambda k: (make(Fraction(k, 10)), make(Fraction(k + 3, 10))))


EVERY_PARAMETER = st.one_of(
    more_and_less(acc.Laplace, 5, 90).map(lambda pair: pair[::-1]),
    more_and_less(lambda x: acc.Laplace(5, x), 5, 90),
    more_and_less(acc.Pure, 1, 30),
    more_and_less(lambda x: acc.Approx(x, Fraction(1, 10**8)), 1, 30),
    more_and_less(lambda x: acc.Approx(1, x / 10**8), 1, 30),
    more_and_less(acc.RandomizedResponse, 1, 30),
    more_and_less(lambda x: acc.DiscreteLaplace(x, 2), 10, 90).map(lambda pair: pair[::-1]),
    st.integers(1, 6).map(lambda k: (acc.DiscreteLaplace(9, k), acc.DiscreteLaplace(9, k + 1))),
    more_and_less(lambda x: acc.DiscreteGaussian(x, 2), 10, 90).map(lambda pair: pair[::-1]),
    st.integers(1, 6).map(lambda k: (acc.DiscreteGaussian(9, k), acc.DiscreteGaussian(9, k + 1))),
    st.integers(1, 6).map(
        lambda k: (acc.DiscreteGaussianVector(9, k), acc.DiscreteGaussianVector(9, k + 1))
    ),
    more_and_less(acc.ZCDP, 1, 30),
    more_and_less(lambda x: acc.RDP(8, x), 1, 30),
    more_and_less(acc.BoundedRange, 1, 30),
    more_and_less(lambda x: acc.PoissonSampled(x / 20, acc.Pure(1)), 1, 90),
    more_and_less(lambda x: acc.Shuffled(x, 50, theorem="FMT21"), 5, 30),
    st.integers(2, 60).map(
        lambda n: tuple(acc.Shuffled(1, n - k, theorem="FMT21") for k in (0, 1))
    ),
)


@settings(max_examples=50, deadline=None, derandomize=True)
@given(EVERY_PARAMETER, st.integers(1, 3), st.sampled_from(["1e-3", "1e-6"]))
def test_monotone_in_every_parameter(pair, count, delta):
    less, more = (acc.epsilon(loss * count, delta) for loss in pair)
    assert less.lower <= more.upper
    assert less.upper <= more.upper * (1 + 1e-9)


@settings(max_examples=25, deadline=None, derandomize=True)
@given(st.sampled_from(["laplace", "gaussian"]), tenths(3, 40), st.integers(1, 6), tenths(0, 20))
def test_post_processing_never_costs_more(kind, scale, count, place):
    """The sign of a noisy difference is randomised response: its curve lies below that of the noise
    it came from."""
    size = float(scale)
    right = (
        1 - math.exp(-0.5 / size) / 2
        if kind == "laplace"
        else 0.5 * math.erfc(-0.5 / size / math.sqrt(2))
    )
    odds = Fraction(math.log(right / (1 - right)) * (1 - 1e-12))
    noise = acc.Laplace(scale) if kind == "laplace" else acc.Gaussian(scale)
    processed = acc.RandomizedResponse(odds, neighbours="add_remove")
    assert acc.delta(processed * count, place).lower <= acc.delta(noise * count, place).upper
    assert acc.epsilon(processed * count, 1e-4).lower <= acc.epsilon(noise * count, 1e-4).upper


@settings(max_examples=10, deadline=None, derandomize=True)
@given(st.integers(5, 40), tenths(9, 25), st.integers(200, 5000))
def test_monotone_in_the_sampling_rate(per_mille, sigma, steps):
    def at(rate):
        return acc.epsilon(acc.PoissonSampled(rate, acc.Gaussian(sigma)) * steps, 1e-5)

    assert at(Fraction(per_mille, 1000)).upper < at(Fraction(per_mille + 1, 1000)).lower


@pytest.mark.parametrize(
    ("kind", "per_mille", "sigma", "c", "y"),
    [
        ("remove", 10, Fraction(11, 10), 4, 9),
        ("remove", 200, Fraction(2), 1, 20),
        ("add", 10, Fraction(11, 10), 5, 12),
        ("add", 300, Fraction(7, 10), 3, 4),
        ("swap", 10, Fraction(11, 10), 2, 5),
        ("swap", 150, Fraction(3, 2), 3, 7),
    ],
)
def test_transform_of_the_sampled_gaussian_against_mpmath(kind, per_mille, sigma, c, y):
    factor = SampledGaussianFactor(kind, Fraction(per_mille, 1000), sigma, 1)
    logs, error = factor.log_mgf(float(c), np.array([0.0, float(y)]), 1e-16)
    with mpmath.workdps(25):
        rate, noise, s = (
            mpmath.mpf(per_mille) / 1000,
            mpmath.mpf(sigma.numerator) / sigma.denominator,
            mpmath.mpc(c, y),
        )
        step = noise * mpmath.mpf("0.1") * min(1, noise)
        low, high = (
            -11 * noise - (c if kind == "add" else 0),
            11 * noise + (c + 1 if kind != "add" else 0),
        )
        total = mpmath.mpc(0)
        for k in range(int((high - low) / step) + 1):
            v = low + k * step
            right = mpmath.log(1 - rate + rate * mpmath.exp((2 * v - 1) / (2 * noise**2)))
            left = mpmath.log(1 - rate + rate * mpmath.exp((-2 * v - 1) / (2 * noise**2)))
            power = {
                "remove": (s + 1) * right,
                "add": -s * right,
                "swap": (s + 1) * right - s * left,
            }[kind]
            total += mpmath.exp(power - v * v / (2 * noise**2))
        truth = complex(total * step / (noise * mpmath.sqrt(2 * mpmath.pi)))
    # the modulus and the phase, the latter modulo a turn
    assert abs(cmath.exp(logs[1]) / truth - 1) <= error[1] + 1e-15
    assert error[1] < 1e-11


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    st.sampled_from(["remove", "add", "swap"]),
    st.integers(5, 300),
    tenths(6, 30),
    tenths(5, 80),
    st.floats(0.1, 200),
)
def test_decay_bounds_every_later_node(kind, per_mille, sigma, c, y):
    factor = SampledGaussianFactor(kind, Fraction(per_mille, 1000), sigma, 1)
    nodes = y * np.array([0.0, 1.0, 1.1, 1.7, 3.0, 6.0])
    logs, error = factor.log_mgf(float(c), nodes, 1e-12)
    seen = logs.real[1:] - logs.real[0]
    allowed = factor.decay(float(c), y) + error[1:] + error[0] + 1e-12
    assert np.all(seen <= allowed)
    laplace = LaplaceFactor((Fraction(per_mille, 100),), (1,))
    logs, error = laplace.log_mgf(float(c), nodes, 1e-12)
    assert np.all(
        logs.real[1:] - logs.real[0] <= laplace.decay(float(c), y) + error[1:] + error[0] + 1e-12
    )


def test_decay_is_not_vacuous_and_atoms_claim_none():
    factor = SampledGaussianFactor("remove", Fraction(1, 100), Fraction(11, 10), 10_000)
    assert factor.decay(3.5, 20.0) < -60
    assert AtomsFactor(np.array([1.0, -1.0]), np.array([0.7, 0.3]), 1).decay(1.0, 9.0) == 0.0


def test_units_and_relations_do_not_mix():
    with pytest.raises(ParameterError, match="neighbours"):
        acc.Gaussian(1) + acc.RandomizedResponse(1)
    with pytest.raises(ParameterError, match="unit"):
        acc.Gaussian(1, unit="row") + acc.Gaussian(1, unit="person")


def test_parallel_is_the_largest_under_add_remove_and_the_two_largest_under_replace():
    one, two, three = (acc.Pure(Fraction(k, 10)) for k in (1, 2, 3))
    assert acc.epsilon(acc.Parallel((one, two, three)), 0) == acc.epsilon(three, 0)
    swapped = [acc.Pure(Fraction(k, 10), neighbours="replace") for k in (1, 2, 3)]
    assert acc.epsilon(acc.Parallel(tuple(swapped)), 0) == acc.epsilon(swapped[1] + swapped[2], 0)
    with pytest.raises(RefusedError, match="parallel"):
        acc.epsilon(acc.Parallel((one, two)) * 3, 0)


def test_refusals_name_the_remedy():
    with pytest.raises(RefusedError, match="GaussianSum"):
        acc.epsilon(acc.PoissonSampled(0.1, acc.Gaussian(1, neighbours="replace")), 1e-6)
    with pytest.raises(RefusedError, match="replace"):
        acc.epsilon(acc.SampledWithoutReplacement(1, 10, acc.Gaussian(1)), 1e-6)
    with pytest.raises(RefusedError, match="order"):
        acc.epsilon(acc.RDP(2, 0.1) + acc.RDP(3, 0.1) + acc.RDP(1.0000001, 0.1), 1e-300)
    with pytest.raises(ParameterError, match="delta"):
        acc.epsilon(acc.Pure(1), 1)


def test_mass_at_infinity_is_kept_apart():
    loss = acc.Approx(0.1, 1e-4) * 3
    mass = 1 - (1 - Fraction(1, 10**4)) ** 3
    assert acc.epsilon(loss, 1e-5) == (math.inf, math.inf)
    assert acc.delta(loss, 50).lower == pytest.approx(float(mass), rel=1e-14)
    assert Fraction(acc.delta(loss, 50).upper) >= mass
