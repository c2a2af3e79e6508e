"""Filters add exactly, refuse with a remedy, and take nothing but charges."""

import math
from fractions import Fraction

import pytest

from dither import accounting as acc
from dither.accounting.filters import Charge
from dither.errors import BudgetError, ParameterError, RefusedError

PURE = acc.PureRule(Fraction(1))
APPROX = acc.ApproxRule(Fraction(2), Fraction(1, 10**5), Fraction(1, 10**6))
ZCDP = acc.ZcdpRule(Fraction(1), Fraction(1, 10**6))
RENYI = acc.RenyiRule(Fraction(8), Fraction(2), Fraction(1, 10**6))


def test_a_thousand_small_charges_do_not_drift():
    state = PURE.empty()
    for _ in range(1000):
        state = state.add(acc.charge(acc.Pure(0.001), PURE))
    assert state.left == (0,)
    with pytest.raises(BudgetError, match="left 0"):
        state.add(acc.charge(acc.Pure("1e-30"), PURE))


def test_a_refused_charge_spends_nothing():
    state = PURE.empty().add(acc.charge(acc.Pure(0.75), PURE))
    with pytest.raises(BudgetError, match=r"asked 0\.5, left 0\.25"):
        state.add(acc.charge(acc.Pure(0.5), PURE))
    assert state.spent == (Fraction(3, 4),)


@pytest.mark.parametrize(
    ("loss", "rho"),
    [
        (acc.Gaussian(10, 2), Fraction(1, 50)),
        (acc.DiscreteGaussian(10, 2), Fraction(1, 50)),
        (acc.DiscreteGaussianVector(10, 3), Fraction(3, 200)),
        (acc.BoundedRange(1), Fraction(1, 8)),
        (acc.ZCDP(0.1), Fraction(1, 10)),
        (acc.PoissonSampled(0.1, acc.Gaussian(1)), Fraction(1, 2)),
    ],
)
def test_exact_concentrated_charges(loss, rho):
    assert acc.charge(loss, ZCDP).amounts == (rho, 0)


def test_pure_events_pay_at_most_half_a_square_and_at_least_the_truth():
    for eps in (Fraction(1, 100), Fraction(1, 2), Fraction(3)):
        rho, delta = acc.charge(acc.Pure(eps), ZCDP).amounts
        assert delta == 0
        assert float(eps) * math.tanh(float(eps) / 2) * (1 - 1e-15) <= rho <= eps**2 / 2


def test_charges_bound_the_curves():
    """What the filter promises at its caps is at least what the charged plan truly costs."""
    loss = acc.compose(
        acc.Gaussian(4), acc.Pure(0.3), acc.DiscreteLaplace(5, 2), acc.BoundedRange(0.5)
    )
    rho, _ = acc.charge(loss, ZCDP).amounts
    promised, delta = acc.guarantee(acc.ZcdpRule(rho, Fraction(0)), Fraction(1, 10**6))
    assert promised >= acc.epsilon(loss, delta).lower
    renyi, _ = acc.charge(loss, RENYI).amounts
    promised, delta = acc.guarantee(
        acc.RenyiRule(Fraction(8), renyi, Fraction(0)), Fraction(1, 10**6)
    )
    assert promised >= acc.epsilon(loss, delta).lower


def test_deltas_of_selection_have_their_own_cap():
    state = ZCDP.empty().add(acc.charge(acc.ZCDP(0.1, 1e-6), ZCDP))
    assert state.left == (Fraction(9, 10), 0)
    with pytest.raises(BudgetError, match="delta"):
        state.add(acc.charge(acc.Approx(0.1, 1e-9), ZCDP))


def test_approximate_budgets_charge_noise_at_the_stated_share():
    epsilon, delta = acc.charge(acc.Gaussian(10), APPROX).amounts
    assert delta == Fraction(1, 10**6)
    assert epsilon >= acc.epsilon(acc.Gaussian(10), 1e-6).lower
    assert acc.charge(acc.Pure(0.1), APPROX).amounts == (Fraction(1, 10), 0)
    together = acc.Gaussian(10) + acc.Approx(
        0.1, 1e-7
    )  # a question takes the stated share, selections included
    more, delta = acc.charge(together, APPROX).amounts
    assert delta == Fraction(1, 10**6)
    assert acc.epsilon(together, delta).lower <= more <= epsilon + Fraction(11, 100)


@pytest.mark.parametrize(
    ("loss", "rule", "remedy"),
    [
        (acc.Gaussian(1), PURE, "Laplace noise"),
        (acc.Approx(0.1, 1e-9), PURE, "delta is above 0"),
        (acc.RDP(8, 0.1), ZCDP, "ZCDP"),
        (acc.RDP(4, 0.1), RENYI, "order"),
    ],
)
def test_refusals_say_what_would_do(loss, rule, remedy):
    with pytest.raises(RefusedError, match=remedy):
        acc.charge(loss, rule)


def test_a_number_read_off_a_curve_cannot_be_charged():
    reading = acc.epsilon(acc.Gaussian(1), 1e-6)
    with pytest.raises(TypeError, match="plan fixed in"):
        acc.charge(reading, PURE)
    with pytest.raises(TypeError, match="charge"):
        PURE.empty().add(reading)
    with pytest.raises(TypeError, match="curve"):
        Charge(PURE, (Fraction(1, 10),))


def test_a_charge_belongs_to_its_rule():
    other = acc.RenyiRule(Fraction(16), Fraction(2), Fraction(1, 10**6))
    with pytest.raises(ParameterError, match="another rule"):
        RENYI.empty().add(acc.charge(acc.Gaussian(10), other))


def test_parts_of_a_partition():
    rule = acc.ZcdpRule(Fraction(1), Fraction(1))
    first = rule.empty().add(acc.charge(acc.ZCDP(0.5, 0.001), rule))
    second = rule.empty().add(acc.charge(acc.ZCDP(0.25, 0.01), rule))
    third = rule.empty().add(acc.charge(acc.ZCDP(0.125), rule))
    assert acc.parallel_spent([first, second, third], "add_remove") == (
        Fraction(1, 2),
        Fraction(1, 100),
    )
    assert acc.parallel_spent([first, second, third], "replace") == (
        Fraction(3, 4),
        Fraction(11, 1000),
    )
    with pytest.raises(ParameterError, match="one rule"):
        acc.parallel_spent([first, PURE.empty()], "add_remove")


def test_parallel_losses_pay_their_largest_part():
    loss = acc.Parallel((acc.Pure(0.3), acc.Pure(0.1) + acc.Pure(0.1)))
    assert acc.charge(loss, PURE).amounts == (Fraction(3, 10),)
    swapped = acc.Parallel(tuple(acc.Pure(e, neighbours="replace") for e in (0.3, 0.2, 0.1)))
    assert acc.charge(swapped, PURE).amounts == (Fraction(1, 2),)
