"""Integer Laplace: numbers, calibration against us, exact integers, losses."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp, mpf

from dither import ParameterError
from dither.laws import LaplaceErrorLaw, find_error_law
from dither.mechanisms import calibrations
from dither.plan.norms import Sensitivity
from dither.privacy.losses import BoundedRange, DiscreteLaplace, Gaussian, Laplace, Pure
from dither.privacy.mechanisms import IntegerLaplace
from dither.privacy.mechanisms.additive import add, exact_integers, round_bits, round_up
from tests.evidence import assert_counts
from tests.sources import Refusing

ONE = Sensitivity.of(largest=1)
prices = st.fractions(Fraction(1, 10**6), 900)
sensitivities = st.builds(
    lambda c, m: Sensitivity.of(cells=c, largest=m), st.integers(1, 50), st.integers(1, 10**6)
)


def test_a_histogram_at_half_an_epsilon_has_the_numbers_of_the_book():
    law = find_error_law(IntegerLaplace.for_epsilon(0.5, ONE))
    assert law.scale == 2
    assert law.variance == pytest.approx(7.8354, abs=5e-5)  # below the continuous 8
    assert sum(2 * k * law.pmf(k) for k in range(1, 400)) == pytest.approx(1.9190, abs=5e-5)
    assert law.interval(0.95) == 6  # continuous: 5.99


@settings(max_examples=200)
@given(prices, sensitivities)
def test_the_charged_loss_never_exceeds_the_price_asked(epsilon, sensitivity):
    mechanism = IntegerLaplace.for_epsilon(epsilon, sensitivity)
    loss = mechanism.loss()
    charged = loss.epsilon if isinstance(loss, Pure) else loss.sensitivity / loss.scale
    assert charged <= epsilon
    assert charged >= epsilon * (1 - Fraction(1, 2**18)) or mechanism.scale == Fraction(1, 1000)


@given(st.fractions(Fraction(1, 10**9), 10**12))
def test_scales_are_rounded_to_twenty_significant_bits_outwards(number):
    for rounded, side in ((round_up(number), 1), (round_bits(number, up=False), -1)):
        assert side * (rounded - number) >= 0
        assert abs(rounded - number) <= number / 2**19
        odd = rounded.numerator // (rounded.numerator & -rounded.numerator)
        assert odd.bit_length() <= 20 and rounded.denominator.bit_count() == 1


def test_one_moved_cell_has_the_lattice_loss_and_several_have_the_pure_one():
    towards = {"neighbours": "replace", "unit": "person"}
    assert IntegerLaplace(4, ONE, **towards).loss() == DiscreteLaplace(4, 1, **towards)
    assert IntegerLaplace(4, Sensitivity.of(cells=3, largest=2), **towards).loss() == Pure(
        Fraction(6, 4), **towards
    )
    assert IntegerLaplace(4, Sensitivity.of(largest=0)).loss() == Pure(0)


@given(sensitivities, st.fractions(1, 10**6))
def test_an_integer_mechanism_emits_no_continuous_or_bounded_range_loss(sensitivity, scale):
    loss = IntegerLaplace(scale, sensitivity).loss()
    assert isinstance(loss, (DiscreteLaplace, Pure)) and not isinstance(
        loss, (Laplace, Gaussian, BoundedRange)
    )


def test_a_pure_release_bounds_every_ratio_of_neighbours_exactly():
    # by the exact mass, not by sampling: log P(x - a) / P(x - b) for all |a - b| <= sensitivity
    law = LaplaceErrorLaw(Fraction(4))
    worst = max(
        math.log(law.pmf(x - shift) / law.pmf(x))
        for x in range(-60, 60)
        for shift in range(-3, 4)
        if shift
    )
    assert worst == pytest.approx(float(3 / Fraction(4)), rel=1e-12)


def test_releases_of_neighbours_are_as_close_as_the_loss_says():
    draws, mechanism = 400_000, IntegerLaplace.for_epsilon(1, ONE)
    for truth in (100, 101):
        released = mechanism.release(np.full(draws, truth))
        p = 1 / (1 + math.exp(-1))  # P(noise >= 0)
        above = {"at or above 101": p if truth == 101 else 1 - p}
        assert_counts({"at or above 101": int((released >= 101).sum())}, draws, above)


@pytest.mark.parametrize(
    "epsilon", [0, -1, float("nan"), float("inf"), True, None, "much", "1e-30"]
)
def test_a_bad_epsilon_is_refused(epsilon):
    with pytest.raises(ParameterError, match=r"epsilon|scale"):
        IntegerLaplace.for_epsilon(epsilon, ONE)


@pytest.mark.parametrize("sensitivity", [1, 1.0, None, Fraction(1)])
def test_a_bare_number_is_no_sensitivity(sensitivity):
    for build in (lambda s: IntegerLaplace(1, s), lambda s: IntegerLaplace.for_epsilon(1, s)):
        with pytest.raises(ParameterError, match="Sensitivity"):
            build(sensitivity)


@pytest.mark.parametrize(
    "bad",
    [
        {"scale": 0},
        {"scale": -1},
        {"scale": float("nan")},
        {"scale": 2**61},
        {"scale": Fraction(1, 1001)},
        {"neighbours": "friends"},
        {"unit": ""},
    ],
)
def test_a_mechanism_that_means_nothing_cannot_be_built(bad):
    with pytest.raises(ParameterError):
        IntegerLaplace(**{"scale": Fraction(2), "sensitivity": ONE, **bad})


@pytest.mark.parametrize(
    "values",
    [
        [1.0],
        [0.5],
        np.array([1.0]),
        "12",
        [True],
        None,
        [None],
        np.array([True]),
        [1, 2.0],
        [[1], [2, 3]],
    ],
)
def test_inexact_values_are_refused_before_anything_is_drawn(values):
    with pytest.raises((ParameterError, ValueError)):
        IntegerLaplace(2, ONE).release(values, source=Refusing())


@pytest.mark.parametrize(
    "values",
    [
        5,
        [1, 2, 3],
        [[1, 2], [3, 4]],
        np.zeros((2, 0), np.int32),
        np.array(7),
        [-1, 2**63],
        [2**70],
        [],
    ],
)
@pytest.mark.parametrize("scale", [2, 2**53])
def test_a_release_has_the_shape_of_its_values_and_exact_sums(values, scale):
    released = IntegerLaplace(scale, ONE).release(values)
    shape = (1,) if isinstance(values, int) else np.array(values, object).shape
    assert isinstance(released, np.ndarray) and released.shape == shape
    for noisy, value in zip(
        released.ravel().tolist(), np.array(values, object).ravel().tolist(), strict=True
    ):
        assert (
            type(noisy) is int and abs(noisy - value) < 60 * scale
        )  # fails with probability e**-60


TOP = 2**63 - 1


@pytest.mark.parametrize(
    ("value", "noise", "fits"),
    [
        (TOP, 0, True),
        (TOP, 1, False),
        (TOP - 5, 5, True),
        (-TOP - 1, -1, False),
        (-TOP, -1, True),
        (0, 2**63, False),
        (2**70, -(2**70), True),
        (2**63, -1, True),
        (-5, TOP, True),
    ],
)
def test_the_type_of_a_sum_depends_on_the_sum_alone(value, noise, fits):
    total = add(
        exact_integers([value, 0]), np.array([noise, 0], np.int64 if abs(noise) <= TOP else object)
    )
    assert total.tolist() == [value + noise, 0]
    assert (total.dtype == np.int64) == fits


@settings(max_examples=60, deadline=None)
@given(
    st.fractions(Fraction(1, 1000), 60),
    st.fractions(Fraction(1, 1000), 1 - Fraction(1, 10**12)).filter(lambda c: c < 1),
)
def test_the_interval_covers_its_level_and_one_less_would_not(scale, level):
    with mp.workdps(40):
        law = LaplaceErrorLaw(scale)
        a = mp.exp(-mpf(scale.denominator) / scale.numerator)

        def covered(w: int) -> mpf:
            return 1 - 2 * a ** (w + 1) / (1 + a) if w >= 0 else mpf(0)

        goal = mpf(level.numerator) / level.denominator
        half = law.interval(level)
        assert covered(half) >= goal
        assert covered(half - 1) < goal + (1 - goal) * mpf("1e-11")


@pytest.mark.parametrize("scale", ["1/1000", "1/3", "2", "40"])
def test_the_error_law_agrees_with_brute_force(scale):
    law = LaplaceErrorLaw(Fraction(scale))
    with mp.workdps(40):
        s = mpf(law.scale.numerator) / law.scale.denominator
        reach = int(100 * s) + 5
        mass = {k: mp.tanh(1 / (2 * s)) * mp.exp(-abs(k) / s) for k in range(-reach, reach + 1)}
        assert law.variance == pytest.approx(
            float(sum(k * k * p for k, p in mass.items())), rel=1e-12
        )
        for t in (0, 1, 2, 10):
            exact = sum(p for k, p in mass.items() if abs(k) >= t)
            assert law.tail(t) == pytest.approx(float(exact), rel=1e-12)
        for p in (0.001, 0.3, 0.5, 0.77, 0.999):
            z = law.quantile(p)
            assert sum(q for k, q in mass.items() if k <= z) >= p * (1 - 1e-11)
            assert sum(q for k, q in mass.items() if k < z) < p * (1 + 1e-11)


@pytest.mark.parametrize("level", [0, 1, -0.1, 1.5, float("nan"), "0"])
def test_a_confidence_outside_zero_and_one_is_refused(level):
    with pytest.raises(ParameterError, match="confidence"):
        LaplaceErrorLaw(Fraction(1)).interval(level)
    with pytest.raises(ParameterError, match="confidence"):
        calibrations.fit_laplace_interval(10, level, ONE)


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 10**6), st.sampled_from(["0.01", "0.5", "0.95", "0.999999"]))
def test_a_wanted_interval_is_met_with_the_most_noise(half_width, level):
    mechanism = calibrations.fit_laplace_interval(half_width, level, ONE)
    assert find_error_law(mechanism).interval(level) <= half_width
    assert LaplaceErrorLaw(mechanism.scale * (1 + Fraction(1, 2**17))).interval(level) > half_width
