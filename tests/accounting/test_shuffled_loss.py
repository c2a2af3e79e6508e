"""Shuffling with a named theorem: above brute force, beside the other implementation, and never
without its name."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import pytest

from dither import accounting as acc
from dither.accounting import shuffled
from dither.errors import ParameterError
from dither.local import shuffle
from tests.case_lists import mark_rest


def shuffled_loss(epsilon, users, **more):
    return acc.Shuffled(epsilon, users, theorem="FMT21", **more)


def clones_by_hand(eps0, users, eps):
    """The hockey stick of the theorem's pair, summed over every outcome in plain words."""
    blanket, truth = math.exp(-eps0), math.exp(eps0) / (1 + math.exp(eps0))
    p, q = {}, {}
    for c in range(users):
        weight = math.comb(users - 1, c) * blanket**c * (1 - blanket) ** (users - 1 - c)
        for a, d in product(range(c + 1), (0, 1)):
            mass = weight * math.comb(c, a) / 2**c * (truth if d else 1 - truth)
            p[c, a + d] = p.get((c, a + d), 0.0) + mass
            q[c, a + 1 - d] = q.get((c, a + 1 - d), 0.0) + mass
    return math.fsum(max(0.0, mass - math.exp(eps) * q.get(key, 0.0)) for key, mass in p.items())


def responses_by_hand(eps0, users, eps):
    truth = math.exp(eps0) / (1 + math.exp(eps0))

    def law(own):
        found = [0.0] * (users + 1)
        for y in range(users):
            mass = math.comb(users - 1, y) * (1 - truth) ** y * truth ** (users - 1 - y)
            found[y] += mass * (1 - own)
            found[y + 1] += mass * own
        return found

    pairs = list(zip(law(truth), law(1 - truth), strict=True))
    return math.fsum(max(0.0, a - math.exp(eps) * b) for a, b in pairs)


@pytest.mark.parametrize(("eps0", "users"), [(0.5, 2), (1.0, 5), (2.0, 20), (3.0, 60), (1.0, 1)])
@pytest.mark.parametrize("eps", [0.0, 0.1, 0.4])
def test_small_crowds_by_hand(eps0, users, eps):
    bounds = acc.delta(shuffled_loss(eps0, users), eps)
    assert bounds.upper == pytest.approx(clones_by_hand(eps0, users, eps), rel=1e-10, abs=1e-15)
    assert bounds.lower <= responses_by_hand(eps0, users, eps) * (1 + 1e-10) + 1e-15
    assert bounds.lower >= responses_by_hand(eps0, users, eps) * (1 - 1e-9) - 1e-15


@pytest.mark.parametrize(("eps0", "users"), [(1, 1000), (2, 10_000), (4, 100_000)])
def test_beside_the_numerical_bound_of_the_local_layer(eps0, users):
    ours = acc.epsilon(shuffled_loss(eps0, users), 1e-6)
    theirs = shuffle.numerical(eps0, users, 1e-6)
    assert theirs * (1 - 1e-5) <= ours.upper <= theirs * 1.01
    assert ours.lower > 0.3 * theirs


def test_rounds_compose_far_below_their_sum():
    one, ten = (acc.epsilon(shuffled_loss(1, 1000) * k, 1e-6) for k in (1, 10))
    assert one.upper * math.sqrt(10) * 0.9 < ten.upper < 0.5 * 10 * one.upper
    assert one.lower < ten.lower <= ten.upper
    assert acc.epsilon(shuffled_loss(1, 1000) * 10, 0).upper == 10
    assert acc.epsilon(shuffled_loss(30, 1000), 1e-6).upper <= 30


def test_divergences_are_brackets_too():
    loss = shuffled_loss(1, 1000)
    assert acc.zcdp(loss).rho.lower <= acc.rdp(loss, 4).upper / 4 <= acc.zcdp(loss).rho.upper
    assert 0 < acc.rdp(loss, 4).lower <= acc.rdp(loss, 4).upper < 0.01


def test_charges_pay_the_local_epsilon():
    rule = acc.PureRule(Fraction(10))
    assert acc.charge(shuffled_loss(2, 1000), rule).amounts == (2,)


def test_no_theorem_no_number():
    with pytest.raises(TypeError):
        acc.Shuffled(1, 100)
    with pytest.raises(ParameterError, match="named theorem"):
        acc.Shuffled(1, 100, theorem="subsampling")
    with pytest.raises(ParameterError, match="replace"):
        shuffled_loss(1, 100, neighbours="add_remove")
    assert acc.parse("3 * shuffled_fmt21(1, 100)") == shuffled_loss(1, 100) * 3


def test_planted_bug_more_coins_than_there_were(monkeypatch):
    """Rounding the number of random reports up instead of down claims more privacy than the
    theorem's pair has."""
    honest = acc.delta(shuffled_loss(1, 3000), "0.05").upper
    binomial = shuffled._binomial

    def wrong(count, p, relative):
        values, masses, errors = binomial(count, p, relative)
        return (values + 40, masses, errors) if p != 0.5 else (values, masses, errors)

    monkeypatch.setattr(shuffled, "_binomial", wrong)
    shuffled.clones.cache_clear()
    assert acc.delta(shuffled_loss(1, 3000), "0.05").upper < clones_tail(1.0, 3000, 0.05) <= honest
    shuffled.clones.cache_clear()


def clones_tail(eps0, users, eps):
    return shuffle.delta_at(eps, eps0, users, 1e-12) / (1 + 1e-6) - 2e-12


APPROX = acc.ApproxRule(Fraction(10), Fraction(1, 1000), Fraction(1, 10**6))


SHUFFLES = [(1, 10**4), (4, 10**6), (1, 10**6), (2, 10**5)]


@pytest.mark.parametrize(("eps0", "users"), mark_rest(SHUFFLES, quick=1))
def test_an_epsilon_delta_pot_takes_the_theorem(eps0, users):
    loss = shuffled_loss(eps0, users)
    epsilon, delta = acc.charge(loss, APPROX).amounts
    assert delta == APPROX.delta_per_question
    assert float(epsilon) == pytest.approx(shuffle.closed_form(eps0, users, 1e-6), rel=1e-12)
    assert acc.epsilon(loss, 1e-6).upper < epsilon < eps0
    # three rounds: a third of the delta each
    thrice, spent = acc.charge(loss * 3, APPROX).amounts
    assert spent == APPROX.delta_per_question
    assert float(thrice) == pytest.approx(3 * shuffle.closed_form(eps0, users, 1e-6 / 3), rel=1e-12)
    assert acc.epsilon(loss * 3, 1e-6).upper < thrice


def test_where_the_theorem_does_not_reach_the_local_epsilon_is_paid():
    assert acc.charge(shuffled_loss(1, 100), APPROX).amounts == (1, 0)
    assert acc.charge(shuffled_loss(100, 10**6), APPROX).amounts == (100, 0)
    beside = shuffled_loss(1, 10**6) + acc.RandomizedResponse("0.5")
    assert acc.charge(beside, APPROX).amounts[0] == acc.charge(
        shuffled_loss(1, 10**6), APPROX
    ).amounts[0] + Fraction(1, 2)


@pytest.mark.parametrize(
    "rule",
    [
        acc.PureRule(Fraction(10)),
        acc.ZcdpRule(Fraction(10), Fraction(1, 1000)),
        acc.RenyiRule(Fraction(8), Fraction(10), Fraction(1, 1000)),
    ],
    ids=lambda rule: type(rule).__name__,
)
def test_pots_without_a_delta_for_the_question_take_the_local_epsilon(rule):
    paid, local = (
        acc.charge(loss, rule).amounts
        for loss in (shuffled_loss(1, 10**6), acc.RandomizedResponse(1))
    )
    assert paid == local
