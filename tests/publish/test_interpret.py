"""The interpreter, against formulas computed another way and against the testing view by brute
force."""

from __future__ import annotations

import math
from fractions import Fraction as F

import numpy as np
import pytest
from mpmath import mp, mpf
from scipy.stats import norm

from dither import ParameterError
from dither.privacy.ledger import Rule
from dither.privacy.ledger.pots import opened
from dither.privacy.losses import DiscreteLaplace, Gaussian, RandomizedResponse
from dither.publish.interpret import Meaning, interpret, interpret_loss, interpret_pot

PERSON = {"unit": "person", "neighbours": "add_remove"}
PURPOSE = {"question": "How many visits are urgent, " "by age?",
    "population": "residents of the " "county in 2026",
           "recipient": "the county health board"}  # fmt: skip


def test_at_nothing_the_posterior_is_the_prior_and_the_power_is_the_rate():
    nothing = interpret(0, 0, **PERSON)
    for share in (0.01, 0.3, 0.9):
        assert nothing.posterior(share) == pytest.approx((share, share), rel=1e-9)
        assert nothing.power(share) == pytest.approx(share, rel=1e-9)


@pytest.mark.parametrize("prior", [0.001, 0.1, 0.5, 0.97])
def test_posterior_is_the_worst_of_randomised_response_by_bayes(prior):
    """Randomised response at epsilon has both extreme likelihood ratios: Bayes' rule on its table,
    in fractions."""
    with mp.workdps(40):
        e = mp.e ** mpf("1.3")
        p = mpf(prior)
        after_yes = p * e / (p * e + (1 - p))
        after_no = p / (p + (1 - p) * e)
    low, high = interpret("1.3", 0, **PERSON).posterior(prior)
    assert float(after_yes) <= high <= float(after_yes) * (1 + 1e-9)
    assert float(after_no) * (1 - 1e-9) <= low <= float(after_no)


def test_power_bounds_every_test_on_a_grid_of_laws():
    """The extreme (eps, delta) law on four outcomes (Kairouz, Oh, Viswanath 2015): its best test
    meets the bound."""
    eps, delta = 0.8, 0.01
    e = math.exp(eps)
    present = np.array([delta, (1 - delta) * e / (1 + e), (1 - delta) / (1 + e), 0])
    absent = present[::-1]
    meaning = interpret(str(eps), str(delta), **PERSON)
    best = {}
    for chosen in range(16):
        pick = np.array([chosen >> i & 1 for i in range(4)], bool)
        a, power = float(absent[pick].sum()), float(present[pick].sum())
        best[round(a, 12)] = max(best.get(round(a, 12), 0), power)
    for a, power in best.items():
        assert power <= meaning.power(min(a, 1.0)) + 1e-12
    corner = float(absent[1])  # name outcome 0 and 1: the corner of the trade-off curve
    assert meaning.power(corner) == pytest.approx(float(present[:2].sum()), rel=1e-9)


def test_power_of_a_gaussian_comes_from_its_own_curve():
    told = interpret_loss(Gaussian(1, **PERSON), "1e-6")
    exact = 1 - norm.cdf(norm.ppf(0.95) - 1)  # 0.2595
    crude = Meaning(told.epsilon, told.delta, "person", "add_remove").power(0.05)
    assert exact <= told.power(0.05) < exact + 0.03 < crude


def test_posterior_with_delta_fails_no_more_often_than_it_says():
    """The same extreme law: outcomes whose likelihood ratio leaves [1/2e^eps, 2e^eps] have at most
    `exception`."""
    for eps, delta in ((0.1, 0.05), (1.0, 1e-3), (0.01, 0.2)):
        e = math.exp(eps)
        present = np.array([delta, (1 - delta) * e / (1 + e), (1 - delta) / (1 + e), 0])
        absent = present[::-1]
        factor = 2 * e
        out = (present > factor * absent) | (absent > factor * present)
        told = interpret(str(eps), str(delta), **PERSON)
        assert present[out].sum() <= told.exception and absent[out].sum() <= told.exception


def test_a_household_of_four():
    # sum of e^(i eps), i < 4, at eps = 1/2: 1 + 1.6487212707 + 2.7182818285 + 4.4816890703
    four = interpret("0.5", "1e-6", **PERSON).together(4)
    assert four.epsilon == 2
    assert float(four.delta) == pytest.approx(1e-6 * 9.8486921695, rel=1e-9)
    assert (
        float(four.delta) <= 4 * math.exp(1.5) * 1e-6
    )  # the cruder k e^((k-1) eps) delta of Dwork and Roth
    assert interpret(1, 0, **PERSON).together(4).epsilon == 4
    empty = interpret(5, "0.01", **PERSON).together(4)
    assert empty.delta == 1 and "no guarantee" in empty.phrase("at once")


def test_a_group_under_a_loss_is_stated_at_the_same_delta():
    told = interpret_loss(Gaussian(3, **PERSON), "1e-6")
    four = told.together(4)
    assert four.delta == told.delta
    with mp.workdps(30):  # Balle and Wang 2018: delta(eps) of a Gaussian with sensitivity 4
        eps, s = mpf(four.epsilon.numerator) / four.epsilon.denominator, mpf(4) / 3
        phi = lambda x: mp.erfc(-x / mp.sqrt(2)) / 2
        delta = phi(s / 2 - eps / s) - mp.e**eps * phi(-s / 2 - eps / s)
    assert float(delta) == pytest.approx(1e-6, rel=1e-6)


def test_rows_and_windows():
    row = interpret("0.1", 0, unit="row", neighbours="add_remove")
    assert any(
        "A person with 7 rows has epsilon 0.7 at delta 0" in line for line in row.lines(rows=7)
    )
    month = interpret("0.25", "1e-7", unit="person_month", neighbours="add_remove")
    (said,) = [line for line in month.lines(windows=12) if "12 months" in line]
    # for W = 12 windows: delta (e^(W eps) - 1) / (e^eps - 1) = 1e-7 * 19.0855 / 0.284025
    assert "epsilon 3 at delta 6.7" in said
    with pytest.raises(ParameterError, match="all rows of one"):
        interpret(1, 0, **PERSON).lines(rows=3)
    with pytest.raises(ParameterError, match="no windows"):
        interpret(1, 0, **PERSON).lines(windows=3)


@pytest.mark.parametrize("unit", ["person", "row", "person_week"])
@pytest.mark.parametrize("neighbours", ["add_remove", "replace"])
@pytest.mark.parametrize("delta", ["0", "1e-6"])
def test_epsilon_is_never_printed_without_delta_and_a_unit(unit, neighbours, delta):
    for line in interpret(1, delta, unit=unit, neighbours=neighbours).lines():
        for phrase in line.split("epsilon")[1:]:
            assert "delta" in phrase, line
        if "epsilon" in line:
            assert unit.split("_")[0] in line or "person" in line, line
        assert not any(word in line.lower() for word in ("anonym", "compliant", "no risk"))


def test_a_pot_is_read_at_its_ceiling():
    pot = opened("total", 1, 2, **PERSON, **PURPOSE)
    assert interpret_pot(pot).epsilon == 2
    rho = opened(
        "total", "0.1", "0.2", **PERSON, **PURPOSE, rule=Rule("zcdp", delta_conversion=F(1, 10**6))
    )
    told = interpret_pot(rho)
    assert told.delta == F(1, 10**6)
    assert 3 < told.epsilon < 0.2 + 2 * math.sqrt(0.2 * math.log(1e6))
    four = told.together(4)  # rho grows with the square: 3.2, at the same delta
    assert four.delta == told.delta and float(four.epsilon) < 3.2 + 2 * math.sqrt(
        3.2 * math.log(1e6)
    )


def test_numbers_in_words_are_rounded_against_us():
    lines = " ".join(interpret(1, 0, **PERSON).lines())
    assert "at most 23.2%" in lines  # 0.231969...
    assert "at least 3.92%" in lines  # 0.039272...
    assert "finds at most 13.6% of the present" in lines  # 0.135914...
    assert (
        "99.9996" in interpret(13, 0, **PERSON).lines()[3]
        or "100%" not in interpret(13, 0, **PERSON).lines()[3]
    )


def test_laplace_and_response_agree_with_the_closed_form():
    """At the corner both attain the pure bound: the curve may not be below what the mechanism
    really leaks."""
    told = interpret_loss(DiscreteLaplace(1, 1, **PERSON), "1e-9")
    a = float(1 / (1 + math.e))  # P(noise >= 1) = e^-1 / (1 + e^-1)
    assert told.power(a) >= 1 - a - 1e-9
    assert (
        interpret_loss(
            RandomizedResponse(1, neighbours="replace", unit="person"), "1e-9"
        ).neighbours
        == "replace"
    )


@pytest.mark.parametrize("bad", [{"epsilon": -1}, {"delta": 2}, {"unit": ""}])
def test_what_means_nothing_is_refused(bad):
    with pytest.raises(ParameterError):
        interpret(**({"epsilon": 1, "delta": 0} | PERSON | bad))


class TestPlantedBugs:
    def test_four_times_delta_would_be_too_small(self):
        """The obvious k * delta is below the extreme law's: two members of a chain already exceed
        it."""
        eps, delta = 1.0, 0.01
        honest = float(interpret(1, "0.01", **PERSON).together(2).delta)
        assert honest == pytest.approx(delta * (1 + math.exp(eps)), rel=1e-9) and honest > 2 * delta

    def test_pure_posterior_with_a_delta_would_be_wrong(self):
        told = interpret("0.1", "0.05", **PERSON)
        assert (
            told.posterior(0.5)[1]
            > Meaning(told.epsilon, F(0), "person", "add_remove").posterior(0.5)[1]
        )
