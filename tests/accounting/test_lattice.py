"""delta of integer noise: brackets against brute-force sums at 60 digits, wherever float64 could go
wrong."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp, mpf

from dither import ParameterError
from dither.accounting.bounds import Bounds
from dither.accounting.lattice import delta_discrete_gaussian, delta_discrete_laplace
from tests.case_lists import mark_rest
from tests.evidence import gaussian_tail, laplace_tail, to_real


@pytest.fixture(autouse=True)
def _digits():
    with mp.workdps(60):
        yield


def by_all_events(mass, epsilon: Fraction, shift: int, reach: int) -> mpf:
    """sup over events of P(S) - e^eps Q(S): the sum of all positive parts, no half-line assumed."""
    e = mp.exp(to_real(epsilon))
    return mp.fsum(
        max(mpf(0), mass(x - shift) - e * mass(x)) for x in range(-reach, reach + shift + 1)
    )


@pytest.mark.parametrize("sigma", ["1/1000", "1/5", "1", "3.73063", "17"])
@pytest.mark.parametrize("shift", mark_rest([2, 1, 5], quick=1))
@pytest.mark.parametrize("epsilon", ["0", "0.3", "1", "7", "60"])
def test_the_gaussian_bracket_holds_the_sum_over_all_events(sigma, shift, epsilon):
    sigma, epsilon = Fraction(sigma), Fraction(epsilon)
    s = to_real(sigma)
    reach = int(40 * s) + 8
    total = mp.fsum(mp.exp(-(mpf(k) ** 2) / (2 * s * s)) for k in range(-reach, reach + 1))
    exact = by_all_events(
        lambda k: mp.exp(-(mpf(k) ** 2) / (2 * s * s)) / total, epsilon, shift, reach
    )
    found = delta_discrete_gaussian(sigma, shift, epsilon)
    assert found.lower <= exact <= found.upper
    assert found.upper - found.lower <= 1e-10 * exact + 1e-299


@pytest.mark.parametrize("scale", ["1/1000", "1/2", "1", "10"])
@pytest.mark.parametrize("shift", mark_rest([2, 1, 5], quick=1))
@pytest.mark.parametrize("part", ["0", "0.3", "0.9", "1", "2"])
def test_the_laplace_bracket_holds_the_sum_over_all_events(scale, shift, part):
    scale = Fraction(scale)
    epsilon = Fraction(part) * shift / scale
    reach = int(140 * scale) + 10
    with mp.workdps(
        60 + int(epsilon)
    ):  # e^5000 times e^-5000: the brute force needs digits that the code does not
        a = mp.exp(-1 / to_real(scale))
        exact = by_all_events(lambda k: (1 - a) / (1 + a) * a ** abs(k), epsilon, shift, reach)
    found = delta_discrete_laplace(scale, shift, epsilon)
    assert found.lower <= exact + mpf(10) ** -50 and exact <= found.upper + mpf(10) ** -50
    assert found.upper - found.lower <= 1e-14


def exact_gaussian(sigma: Fraction, shift: int, epsilon: Fraction) -> mpf:
    threshold = (2 * sigma * sigma * epsilon + shift * shift) / (2 * shift)
    t = math.floor(threshold) + 1
    return gaussian_tail(sigma, t - shift) - mp.exp(to_real(epsilon)) * gaussian_tail(sigma, t)


@settings(max_examples=40, deadline=None)
@given(
    st.floats(math.log(4100), math.log(2.0**60)).map(math.exp),
    st.floats(-5, 4).map(math.exp),
    st.floats(-3, 3).map(math.exp),
)
def test_the_gaussian_bracket_holds_where_sums_become_integrals(sigma, shift_part, epsilon_part):
    sigma = Fraction(sigma)
    shift = max(1, int(sigma * Fraction(shift_part)))
    epsilon = Fraction(epsilon_part) * shift / sigma
    with mp.workdps(60):
        exact = exact_gaussian(sigma, shift, epsilon)
        found = delta_discrete_gaussian(sigma, shift, epsilon)
        room = exact * 1e-12  # Euler-Maclaurin of the oracle
        assert found.lower <= exact + room and exact <= found.upper + room
        assert found.upper - found.lower <= 1e-5 * exact + 1e-299


@pytest.mark.parametrize(
    ("sigma", "shift", "epsilon"),
    [
        ("1/1000", 1, 1),
        ("1/1000", 10**9, 1),
        ("1/1000", 1, 10**6),
        ("5", 10**12, 700),
        ("1", 10**30, 3),
    ],
)
def test_hopeless_noise_has_delta_one_and_needs_no_memory(sigma, shift, epsilon):
    found = delta_discrete_gaussian(Fraction(sigma), shift, epsilon)
    exact = 1 if shift * shift > 4 * epsilon * Fraction(sigma) ** 2 else 0
    assert found.lower <= exact <= found.upper and found.upper - found.lower < 1e-11


@pytest.mark.parametrize("epsilon", [700, 710, 800, 10**6, 10**30, "1e400"])
@pytest.mark.parametrize("sigma", [1, 1000, 2**20, 2**60])
def test_a_huge_epsilon_overflows_nothing_and_never_claims_zero(sigma, epsilon):
    found = delta_discrete_gaussian(Fraction(sigma), 1, epsilon)
    assert found.lower == 0.0 and 0 < found.upper <= 1e-300


def test_delta_never_claims_more_than_the_smallest_float_can_hold():
    found = delta_discrete_gaussian(Fraction(100), 1, Fraction(36, 100))
    assert 1e-290 < found.lower <= found.upper < 1e-280
    assert found.upper / found.lower < 1 + 1e-9  # 280 digits down, still a bracket


@settings(max_examples=50, deadline=None)
@given(st.fractions(Fraction(1, 4), 30), st.integers(1, 6), st.fractions(0, 8))
def test_delta_grows_with_the_shift_and_falls_with_epsilon(scale, shift, epsilon):
    for delta in (delta_discrete_laplace, delta_discrete_gaussian):
        assert delta(scale, shift, epsilon).lower <= delta(scale, shift + 1, epsilon).upper
        assert (
            delta(scale, shift, epsilon + Fraction(1, 9)).lower
            <= delta(scale, shift, epsilon).upper
        )


def test_no_shift_has_no_loss():
    assert (
        delta_discrete_gaussian(Fraction(1), 0, 0)
        == delta_discrete_laplace(Fraction(1), 0, 0)
        == Bounds(0.0, 0.0)
    )


@pytest.mark.parametrize("delta", [delta_discrete_gaussian, delta_discrete_laplace])
def test_bad_parameters_are_refused(delta):
    for shift, epsilon in [(-1, 1), (1.5, 1), (True, 1), (1, -1), (1, float("nan")), (1, "x")]:
        with pytest.raises(ParameterError):
            delta(Fraction(1), shift, epsilon)


# rule integer-noise-price: the figures of docs/rules/noise.md


def test_integer_noise_at_the_analytic_sigma_breaks_its_delta():
    lower, upper = delta_discrete_gaussian(Fraction("3.73063"), 1, 1)
    assert 1.03455e-5 < lower <= upper < 1.03465e-5  # "1.0346e-5 > 1e-5"


@pytest.mark.parametrize(("sigma", "epsilon", "ratio"), [(1, "5.33", 2.1), ("1/2", "13.7", 5.1)])
def test_the_continuous_curve_under_reports_small_integer_noise(sigma, epsilon, ratio):
    s, e = to_real(Fraction(sigma)), to_real(Fraction(epsilon))
    continuous = mp.ncdf(1 / (2 * s) - e * s) - mp.exp(e) * mp.ncdf(-1 / (2 * s) - e * s)
    found = delta_discrete_gaussian(Fraction(sigma), 1, Fraction(epsilon))
    assert abs(found.lower / continuous - ratio) < 0.1


def test_integer_laplace_at_sensitivity_one_is_randomised_response():
    # delta(eps) of RR(eps0) is (e^eps0 - e^eps) / (1 + e^eps0); the continuous curve is 1 - e^((eps
    # - eps0) / 2)
    for epsilon in ("0", "0.25", "0.7"):
        e = to_real(Fraction(epsilon))
        found = delta_discrete_laplace(Fraction(1), 1, Fraction(epsilon))
        assert found.lower <= (mp.e - mp.exp(e)) / (1 + mp.e) <= found.upper
        assert found.lower > 1 - mp.exp((e - 1) / 2)


def test_laplace_tails_of_the_oracle_agree_with_its_mass():
    assert laplace_tail(Fraction(3), -4) - laplace_tail(Fraction(3), -3) == pytest.approx(
        float(mp.tanh(mpf(1) / 6) * mp.exp(-mpf(4) / 3))
    )
