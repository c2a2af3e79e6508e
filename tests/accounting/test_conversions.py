"""zCDP to (epsilon, delta): numbers computed with mpmath, and rounding on our side."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp, mpf

from dither import ParameterError
from dither.accounting.rho_conversion import delta_from_rho
from dither.privacy.charges.conversions import epsilon_from_rho, rho_for
from tests.evidence import to_real

SPEC = [("0.01", 0.6216927), ("0.1", 2.141939), ("0.5", 5.221534), ("1", 7.766217), ("5", 20.55195)]


@pytest.mark.parametrize(("rho", "tight"), SPEC)
def test_tight_conversion_gives_the_numbers_of_the_source(rho, tight):
    assert epsilon_from_rho(rho, 1e-6) == pytest.approx(tight, rel=2e-7)
    assert delta_from_rho(rho, epsilon_from_rho(rho, 1e-6)) == pytest.approx(1e-6, rel=1e-6)


def test_the_largest_rho_for_one_and_a_millionth_is_that_of_the_source():
    assert float(rho_for(1, 1e-6)) == pytest.approx(0.0243559704, rel=1e-8)


def least(bound) -> mpf:
    """Minimum over log t of a unimodal bound, by golden section at 50 digits."""
    low, high = min(((u, u + 2) for u in range(-16, 19)), key=lambda ends: bound(mpf(ends[0] + 1)))
    low, high = mpf(low), mpf(high)
    for _ in range(90):
        a, b = low + (high - low) * mpf("0.382"), low + (high - low) * mpf("0.618")
        low, high = (low, b) if bound(a) < bound(b) else (a, high)
    return bound(low)


@settings(max_examples=12, deadline=None)
@given(st.fractions(Fraction(1, 10**6), 40), st.fractions(Fraction(1, 10**12), Fraction(9, 10)))
def test_epsilon_is_never_below_the_infimum_and_barely_above(rho, delta):
    with mp.workdps(50):
        r, d = to_real(rho), to_real(delta)

        def bound(u: mpf) -> mpf:
            t = mp.exp(u)
            return (t + 1) * r - (mp.log(d) + mp.log1p(t)) / t - mp.log1p(1 / t)

        exact = max(mpf(0), least(bound))
        found = epsilon_from_rho(rho, delta)
        assert exact <= found <= exact * (1 + mpf("1e-9")) + mpf("1e-9")


@settings(max_examples=12, deadline=None)
@given(st.fractions(Fraction(1, 10**4), 20), st.fractions(Fraction(1, 100), 50))
def test_delta_is_never_below_the_infimum(rho, epsilon):
    with mp.workdps(50):
        r, e = to_real(rho), to_real(epsilon)

        def bound(u: mpf) -> mpf:
            t = mp.exp(u)
            return t * (t + 1) * r - e * t - mp.log1p(t) - t * mp.log1p(1 / t)

        exact = mp.exp(least(bound))
        found = mpf(delta_from_rho(rho, epsilon))
        assert min(mpf(1), exact) <= found
        assert found <= exact * (1 + mpf("1e-6")) + mpf("1e-300") or found == 1


@settings(max_examples=20, deadline=None)
@given(st.fractions(Fraction(1, 1000), 30), st.fractions(Fraction(1, 10**15), Fraction(1, 2)))
def test_rho_for_meets_its_target_and_a_little_more_would_not(epsilon, delta):
    rho = rho_for(epsilon, delta)
    assert epsilon_from_rho(rho, delta) <= epsilon
    assert epsilon_from_rho(rho * (1 + Fraction(1, 1000)), delta) > epsilon


def test_extremes_are_bounded_and_never_claimed_to_be_zero():
    assert delta_from_rho(0, 0) == 0.0 == epsilon_from_rho(0, 0.5)
    assert 0 < delta_from_rho("1/1000", 10**6) < 1e-300
    assert delta_from_rho(100, 0) == 1.0
    assert epsilon_from_rho("1e-400", "1e-9") > 0
    assert epsilon_from_rho(1, "1e-400") == pytest.approx(1 + 2 * (921.034) ** 0.5, rel=0.02)


@pytest.mark.parametrize(
    ("epsilon", "delta"),
    [(0, 0.1), (-1, 0.1), (1, 0), (1, 1), (1, -1), (1, 2), (float("nan"), 0.1)],
)
def test_targets_that_mean_nothing_are_refused(epsilon, delta):
    with pytest.raises(ParameterError, match=r"epsilon|delta"):
        rho_for(epsilon, delta)
