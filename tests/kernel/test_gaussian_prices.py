"""What an epsilon buys in rho, in a bounded number of steps; the conversion of every answer is
within its epsilon."""

from __future__ import annotations

from fractions import Fraction

import pytest

from dither import ParameterError
from dither.privacy.charges.conversions import rho_for
from dither.privacy.charges.logarithms import epsilon_up
from dither.privacy.kernel import rho_within as conversion
from tests.case_lists import mark_between, mark_rest
from tests.time_guard import time_guard

MOST_CONVERSIONS = 100
"""10 doublings and 9 halvings of the steps, 7 and 6 of the halvings, 21 and 20 of the last
refinement, and 3 starts."""
EXTREMES = ["1e-100", "1e-7", "3e-7", "1", "1e70"]


@pytest.fixture
def conversions(monkeypatch):
    """Conversions made so far; a solver that makes too many is stopped."""
    made: list[Fraction] = []

    def counted(rho: Fraction, delta: Fraction) -> Fraction:
        made.append(rho)
        assert len(made) <= MOST_CONVERSIONS, "the solver has no bound"
        return epsilon_up(rho, delta)

    monkeypatch.setattr(conversion, "epsilon_up", counted)
    conversion.rho_within.cache_clear()
    yield made
    conversion.rho_within.cache_clear()


@pytest.mark.parametrize("delta", ["1e-8", "1e-300"])
@pytest.mark.parametrize("epsilon", mark_between(EXTREMES, step=2))
def test_a_price_in_epsilon_is_converted_or_refused_in_a_bounded_number_of_steps(
    epsilon, delta, conversions
):
    price, share = Fraction(epsilon), Fraction(delta)
    try:
        rho = conversion.rho_within(price, share)
    except ParameterError as error:
        assert "choose" in str(error)
        assert price < 1
        return
    assert rho > 0 and epsilon_up(rho, share) <= price


@pytest.mark.parametrize(
    ("epsilon", "delta"), mark_rest([("1", "1e-6"), ("0.1", "1e-8"), ("1e9", "1e-8")], quick=1)
)
def test_the_rho_is_the_first_that_fits_in_steps_of_a_millionth(epsilon, delta):
    """What was charged for a question stays what it was: the same number as by stepping down one by
    one."""
    price, share = Fraction(epsilon), Fraction(delta)
    rho = Fraction(rho_for(price, share))
    while epsilon_up(rho, share) > price:
        rho *= 1 - Fraction(1, 2**20)
    assert conversion.rho_within(price, share) == rho


def test_below_the_floor_of_the_conversion_the_refusal_says_what_to_do():
    with (
        time_guard(),
        pytest.raises(
            ParameterError,
            match="too small for Gaussian noise at delta 1e-08: ask with Laplace noise",
        ),
    ):
        conversion.rho_within(Fraction(1, 10**9), Fraction(1, 10**8))


@pytest.mark.parametrize("first", [0, 1, 2, 3, 299, 511, 512])
def test_the_first_step_is_found_wherever_it_is(first):
    assert conversion.first_step(lambda step: step >= first, 512) == first
    assert conversion.first_step(lambda step: step >= 513, 512) is None
