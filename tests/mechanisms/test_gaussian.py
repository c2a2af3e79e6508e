"""Integer Gaussian: the continuous calibration is never used, and every calibration rounds against
us."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp, mpf

from dither import ParameterError
from dither.accounting.lattice import delta_discrete_gaussian
from dither.laws import GaussianErrorLaw, find_error_law
from dither.mechanisms import calibrations
from dither.plan.norms import Sensitivity
from dither.privacy.charges.conversions import epsilon_from_rho
from dither.privacy.losses import (
    BoundedRange,
    DiscreteGaussian,
    DiscreteGaussianVector,
    Gaussian,
    Laplace,
    Pure,
)
from dither.privacy.mechanisms import IntegerGaussian
from tests.evidence import assert_counts, gaussian_tail
from tests.sources import Refusing

ONE = Sensitivity.of(largest=1)
sensitivities = st.builds(
    lambda c, m: Sensitivity.of(cells=c, largest=m), st.integers(1, 50), st.integers(1, 10**6)
)
ANALYTIC, CLASSIC = (
    Fraction("3.73063"),
    Fraction("4.84481"),
)  # continuous noise at (1, 1e-5), fundamentals 3


def exact_delta(sigma: Fraction, shift: int, epsilon: Fraction) -> mpf:
    t = math.floor((2 * sigma * sigma * epsilon + shift * shift) / (2 * shift)) + 1
    e = mp.exp(mpf(epsilon.numerator) / epsilon.denominator)
    return gaussian_tail(sigma, t - shift) - e * gaussian_tail(sigma, t)


def test_epsilon_one_needs_slightly_more_than_the_continuous_sigma_and_less_than_the_classic():
    sigma = calibrations.fit_gaussian(1, 1e-5, ONE).sigma
    assert ANALYTIC < sigma < ANALYTIC * Fraction(101, 100) < CLASSIC
    with mp.workdps(50):
        assert exact_delta(sigma, 1, Fraction(1)) <= mpf("1e-5")
        assert exact_delta(sigma * (1 - Fraction(1, 10**4)), 1, Fraction(1)) > mpf("1e-5")
        assert exact_delta(ANALYTIC, 1, Fraction(1)) > mpf("1.034e-5")


def test_the_classic_formula_and_the_analytic_calibration_are_what_they_are_said_to_be():
    assert math.sqrt(2 * math.log(1.25e5)) == pytest.approx(float(CLASSIC), abs=1e-5)
    s = float(ANALYTIC)
    phi = lambda z: 0.5 * math.erfc(-z / math.sqrt(2))
    assert phi(0.5 / s - s) - math.e * phi(-0.5 / s - s) == pytest.approx(1e-5, rel=1e-5)


@settings(max_examples=25, deadline=None)
@given(
    st.fractions(Fraction(1, 20), 12),
    st.integers(2, 11).map(lambda k: Fraction(1, 10**k)),
    st.integers(1, 4),
)
def test_the_exact_delta_of_a_calibrated_sigma_never_exceeds_the_delta_asked(epsilon, delta, shift):
    sigma = calibrations.fit_gaussian(epsilon, delta, Sensitivity.of(largest=shift)).sigma
    with mp.workdps(50):
        goal = mpf(delta.numerator) / delta.denominator
        assert exact_delta(sigma, shift, epsilon) <= goal * (
            1 + (mpf("1e-12") if sigma > 60 else 0)
        )


@pytest.mark.parametrize(
    ("epsilon", "delta", "largest"),
    [
        (1, 0.45, 10**6),
        (1, 1e-5, 10**9),
        (0.01, 1e-9, 5000),
        (700, 1e-5, 1),
        (1, 0.999, 1),
        ("0.001", "1e-250", 3),
    ],
)
def test_extreme_targets_are_met_or_refused_never_missed(epsilon, delta, largest):
    mechanism = calibrations.fit_gaussian(epsilon, delta, Sensitivity.of(largest=largest))
    assert delta_discrete_gaussian(mechanism.sigma, largest, epsilon).upper <= Fraction(str(delta))


@settings(max_examples=100)
@given(st.fractions(Fraction(1, 10**6), 10**4), sensitivities)
def test_the_charged_rho_never_exceeds_the_rho_asked(rho, sensitivity):
    mechanism = IntegerGaussian.for_rho(rho, sensitivity)
    charged = sensitivity.l2_squared / (2 * mechanism.sigma**2)
    assert charged <= rho
    assert charged >= rho * (1 - Fraction(1, 2**17)) or mechanism.sigma == Fraction(1, 1000)


@settings(max_examples=15, deadline=None)
@given(st.fractions(Fraction(1, 10), 10), st.integers(2, 30), st.integers(1, 100))
def test_a_vector_is_calibrated_by_zcdp_and_meets_its_target(epsilon, cells, largest):
    sensitivity = Sensitivity.of(cells=cells, largest=largest)
    mechanism = calibrations.fit_gaussian(epsilon, 1e-6, sensitivity)
    rho = sensitivity.l2_squared / (2 * mechanism.sigma**2)
    assert epsilon_from_rho(rho, 1e-6) <= epsilon
    assert mechanism.loss() == DiscreteGaussianVector(mechanism.sigma, sensitivity.l2_squared)


def test_one_moved_cell_has_the_lattice_loss_and_several_have_the_vectors():
    towards = {"neighbours": "replace", "unit": "person"}
    assert IntegerGaussian(4, ONE, **towards).loss() == DiscreteGaussian(4, 1, **towards)
    two = Sensitivity.of(cells=2, largest=3)
    assert IntegerGaussian(4, two, **towards).loss() == DiscreteGaussianVector(4, 18, **towards)
    assert IntegerGaussian(4, Sensitivity.of(largest=0)).loss() == Pure(0)


@given(sensitivities, st.fractions(1, 10**6))
def test_an_integer_mechanism_emits_no_continuous_or_bounded_range_loss(sensitivity, sigma):
    loss = IntegerGaussian(sigma, sensitivity).loss()
    assert isinstance(loss, (DiscreteGaussian, DiscreteGaussianVector, Pure))
    assert not isinstance(loss, (Laplace, Gaussian, BoundedRange))


def test_releases_of_neighbours_are_as_close_as_the_lattice_says():
    draws, mechanism = 400_000, IntegerGaussian(1, ONE)
    for truth in (100, 101):
        released = mechanism.release(np.full(draws, truth))
        expected = {"at or above 102": float(gaussian_tail(Fraction(1), 102 - truth))}
        assert_counts({"at or above 102": int((released >= 102).sum())}, draws, expected)


@pytest.mark.parametrize(
    ("epsilon", "delta"),
    [
        (0, 0.1),
        (-1, 0.1),
        (float("nan"), 0.1),
        (float("inf"), 0.1),
        (1, 0),
        (1, 1),
        (1, 1.5),
        (1, -0.1),
        (1, True),
    ],
)
def test_bad_prices_are_refused(epsilon, delta):
    with pytest.raises(ParameterError, match=r"epsilon|delta"):
        calibrations.fit_gaussian(epsilon, delta, ONE)


@pytest.mark.parametrize("rho", [0, -1, float("nan"), True, "1e-40"])
def test_a_bad_rho_is_refused(rho):
    with pytest.raises(ParameterError, match=r"rho|sigma"):
        IntegerGaussian.for_rho(rho, ONE)


@pytest.mark.parametrize(
    "bad",
    [
        {"sigma": 0},
        {"sigma": float("inf")},
        {"sigma": 2**61},
        {"neighbours": "friends"},
        {"unit": 3},
    ],
)
def test_a_mechanism_that_means_nothing_cannot_be_built(bad):
    with pytest.raises(ParameterError):
        IntegerGaussian(**{"sigma": Fraction(2), "sensitivity": ONE, **bad})


def test_a_bare_number_is_no_sensitivity():
    for build in (
        IntegerGaussian,
        IntegerGaussian.for_rho,
        lambda r, s: calibrations.fit_gaussian(r, 0.1, s),
    ):
        with pytest.raises(ParameterError, match="Sensitivity"):
            build(1, 1)


@pytest.mark.parametrize("values", [[1.0], np.array([0.5]), [True], None])
def test_inexact_values_are_refused_before_anything_is_drawn(values):
    with pytest.raises(ParameterError):
        IntegerGaussian(2, ONE).release(values, source=Refusing())


@settings(max_examples=40, deadline=None)
@given(
    st.fractions(Fraction(1, 100), 30),
    st.fractions(Fraction(1, 100), 1 - Fraction(1, 10**12)).filter(lambda c: c < 1),
)
def test_the_interval_covers_its_level_and_one_less_would_not(sigma, level):
    with mp.workdps(40):
        goal = mpf(level.numerator) / level.denominator
        half = GaussianErrorLaw(sigma).interval(level)
        assert 1 - 2 * gaussian_tail(sigma, half + 1) >= goal
        assert half == 0 or 1 - 2 * gaussian_tail(sigma, half) < goal + (1 - goal) * mpf("1e-11")


@pytest.mark.parametrize("sigma", [2**12, 2**12 + 1, 2**20, 2**40, 2**60])
def test_the_interval_of_wide_noise_covers_its_level(sigma):
    with mp.workdps(60):
        for level in ("0.5", "0.95", "0.99999999999999999999"):
            half = GaussianErrorLaw(Fraction(sigma)).interval(level)
            assert 1 - 2 * gaussian_tail(Fraction(sigma), half + 1) >= mpf(level)
            shorter = half - max(2, half // 10**9)
            assert 1 - 2 * gaussian_tail(Fraction(sigma), shorter) < mpf(level)


@pytest.mark.parametrize("sigma", ["1/10", "1/2", "1", "12"])
def test_the_error_law_agrees_with_brute_force(sigma):
    law = GaussianErrorLaw(Fraction(sigma))
    with mp.workdps(40):
        s = mpf(law.sigma.numerator) / law.sigma.denominator
        mass = {
            k: mp.exp(-(mpf(k) ** 2) / (2 * s * s))
            for k in range(-int(30 * s) - 4, int(30 * s) + 5)
        }
        total = sum(mass.values())
        assert law.variance == pytest.approx(
            float(sum(k * k * p for k, p in mass.items()) / total), rel=1e-12
        )
        assert law.variance <= float(s * s) * (1 + 1e-15)
        for t in (0, 1, 2, 5):
            exact = sum(p for k, p in mass.items() if abs(k) >= t) / total
            assert law.tail(t) == pytest.approx(float(exact), rel=1e-12)
            assert law.pmf(t) == pytest.approx(float(mass[t] / total), rel=1e-12)
        for p in (0.001, 0.3, 0.5, 0.77, 0.999):
            z = law.quantile(p)
            assert sum(q for k, q in mass.items() if k <= z) / total >= p * (1 - 1e-11)
            assert sum(q for k, q in mass.items() if k < z) / total < p * (1 + 1e-11)


@settings(max_examples=12, deadline=None)
@given(st.integers(1, 10**5), st.sampled_from(["0.5", "0.95", "0.999999"]))
def test_a_wanted_interval_is_met_with_the_most_noise(half_width, level):
    mechanism = calibrations.fit_gaussian_interval(half_width, level, ONE)
    assert find_error_law(mechanism).interval(level) <= half_width
    assert (
        GaussianErrorLaw(mechanism.sigma * (1 + Fraction(1, 2**12))).interval(level)
        > half_width - 2
    )
