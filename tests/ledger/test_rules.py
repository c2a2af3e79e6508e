"""The total function from a loss to its charge, under each rule; numbers from proofs and
independent oracles."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import mpmath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dither import accounting
from dither.errors import ParameterError, RefusedError
from dither.privacy import losses
from dither.privacy.charges.logarithms import epsilon_of_order, epsilon_up, log_down, log_up
from dither.privacy.charges.measures import rho_of_pure
from dither.privacy.charges.rules import PURE, Charge, Rule, charge, charge_from_amounts
from dither.privacy.losses import Loss, Pure
from tests.kernel_losses import list_kernel_losses

F = Fraction
APPROX = Rule("approx", delta=F(1, 10**5), delta_per_question=F(1, 10**6))
ZCDP = Rule("zcdp", delta_conversion=F(1, 10**6), delta_selection=F(1, 10**7))
RDP = Rule("rdp", delta_conversion=F(1, 10**6), delta_selection=F(1, 10**7), alpha=F(8))
RULES = [PURE, APPROX, ZCDP, RDP]
SAMPLES: list[Loss] = [
    Pure("0.3"),
    losses.Approx(1, "1e-9"),
    losses.Laplace(4, 2),
    losses.Gaussian(2),
    losses.DiscreteLaplace("2.5", 3),
    losses.DiscreteGaussian(10, 2),
    losses.DiscreteGaussianVector(10, 6),
    losses.RoundedGaussian(10, 6),
    losses.GaussianSum(4, 2),
    losses.RandomizedResponse(1, neighbours="add_remove"),
    losses.BoundedRange(1),
    losses.ZCDP("0.1", "1e-9"),
    losses.RDP(16, "0.2"),
    losses.PoissonSampled("0.01", losses.Gaussian(1)),
    losses.Shuffled(1, 100, theorem="FMT21"),
    losses.SampledWithoutReplacement(1, 10, Pure(1)),
    losses.Repeated(Pure("0.1"), 3),
    Pure(1) + losses.DiscreteGaussian(10, 1),
    losses.Parallel((Pure(1), Pure(2))),
    losses.FixedPlan((losses.PoissonSampled("0.1", losses.RoundedGaussian(2, 1)) * 5,)),
    losses.FixedNoise((losses.RoundedGaussian(2, 1),)),
]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_every_loss_has_a_charge_or_a_reason(rule: Rule) -> None:
    assert {type(loss) for loss in SAMPLES} == list_kernel_losses()
    for loss in SAMPLES:
        try:
            taken = charge(loss, rule)
        except RefusedError:
            with pytest.raises(
                RefusedError, match=r"What fits: .*a budget pays only for what its rule can count"
            ):
                charge(loss, rule)
            continue
        assert isinstance(taken, Charge) and all(
            type(value) is Fraction and value >= 0 for value in taken
        )
    for number in (0.5, F(1, 2), "0.5", None):
        with pytest.raises(ParameterError, match="charges a Loss"):
            charge(number, rule)  # type: ignore[arg-type]


# rho to epsilon at delta 1e-6, tight: computed with mpmath, apart from dither
@pytest.mark.parametrize(
    ("rho", "epsilon"),
    [("0.01", 0.6216927), ("0.1", 2.141939), ("0.5", 5.221534), ("1", 7.766217), ("5", 20.55195)],
)
def test_conversion_from_zcdp(rho: str, epsilon: float) -> None:
    found = epsilon_up(F(rho), F(1, 10**6))
    assert float(found) == pytest.approx(epsilon, rel=1e-6) and found.denominator <= 10**18


@settings(max_examples=15, deadline=None)
@given(
    st.fractions(F(1, 10**4), 20, max_denominator=10**4),
    st.sampled_from([F(1, 10**k) for k in (2, 5, 9, 15)]),
)
def test_the_conversion_is_valid_and_nearly_the_best(rho: Fraction, delta: Fraction) -> None:
    # an independent route: minimise in arbitrary precision over alpha
    found = float(epsilon_up(rho, delta))
    with mpmath.workdps(30):
        r, log = (
            mpmath.mpf(rho.numerator) / rho.denominator,
            -mpmath.log(mpmath.mpf(delta.numerator) / delta.denominator),
        )

        def at(u: Any) -> Any:
            t = mpmath.e**u
            return (t + 1) * r + (log - mpmath.log(1 + t)) / t - mpmath.log(1 + 1 / t)

        near = min(range(-400, 800, 2), key=lambda k: at(mpmath.mpf(k) / 50))
        best = min(at((near + mpmath.mpf(k) / 50) / 50) for k in range(-100, 101))
    assert (
        found >= 0
        and float(best) * (1 - 1e-6) - 1e-9 <= found <= max(0.0, float(best)) * (1 + 1e-6) + 1e-6
    )


@settings(max_examples=100, deadline=None)
@given(st.fractions(1, 10**9, max_denominator=10**6))
def test_logarithms_enclose(x: Fraction) -> None:
    with mpmath.workdps(60):
        true = mpmath.log(mpmath.mpf(x.numerator) / x.denominator)
        low, high = (mpmath.mpf(v.numerator) / v.denominator for v in (log_down(x), log_up(x)))
        assert low <= true <= high and high - low < mpmath.mpf(2) ** -100


@settings(max_examples=100, deadline=None)
@given(st.fractions(F(1, 1000), 30, max_denominator=1000))
def test_the_rho_of_a_pure_loss(epsilon: Fraction) -> None:
    # never below sup over alpha of D_alpha / alpha of randomised response, never above eps^2/2 or
    # eps
    rho = rho_of_pure(epsilon)
    assert rho <= min(epsilon**2 / 2, epsilon)
    with mpmath.workdps(40):
        e = mpmath.mpf(epsilon.numerator) / epsilon.denominator
        r = mpmath.mpf(rho.numerator) / rho.denominator
        assert r >= e * mpmath.tanh(e / 2)
        for alpha in ("1.0001", "1.5", "2", "5", "50"):
            a = mpmath.mpf(alpha)
            renyi = mpmath.log(mpmath.cosh((2 * a - 1) * e / 2) / mpmath.cosh(e / 2)) / (a - 1)
            assert renyi <= a * r


def test_charges_under_zcdp() -> None:
    assert charge(losses.DiscreteGaussian(10, 2), ZCDP).amounts == (F(4, 200), 0)
    assert charge(losses.DiscreteGaussianVector(10, 6) * 5, ZCDP).amounts == (F(30, 200), 0)
    assert charge(losses.BoundedRange(1), ZCDP).amounts == (F(1, 8), 0)
    assert charge(losses.ZCDP("0.1", "1e-9"), ZCDP).amounts == (F(1, 10), F(1, 10**9))
    assert charge(losses.Approx(1, "1e-9"), ZCDP).amounts == (rho_of_pure(F(1)), F(1, 10**9))
    # rule integer-noise-price: integer Laplace is never the smaller continuous curve, 0.3679 at
    # epsilon 1
    assert F("0.46211") < charge(losses.DiscreteLaplace(1, 1), ZCDP).amount < F("0.46213")
    # rule parts-follow-the-unit, per component
    parts = (losses.ZCDP("0.1", "1e-9"), losses.ZCDP("0.2", "1e-10"), losses.ZCDP("0.3", 0))
    assert charge(losses.Parallel(parts), ZCDP).amounts == (F(3, 10), F(1, 10**9))
    replaced = tuple(losses.ZCDP(part.rho, part.delta, neighbours="replace") for part in parts)
    assert charge(losses.Parallel(replaced), ZCDP).amounts == (F(1, 2), F(11, 10**10))


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_never_below_the_accountant(rule: Rule) -> None:
    """The engines of the accountant share no code with charges: what they prove to be spent is
    never more."""
    compared = 0
    for loss in SAMPLES:
        try:
            ours = charge(loss, rule)
        except RefusedError:
            continue
        compared += 1
        if rule.name in ("pure", "approx"):
            truth = accounting.epsilon(loss, ours.delta).lower
        elif rule.name == "zcdp":
            truth = accounting.zcdp(loss).rho.lower
        else:
            truth = 0.0 if ours.delta else accounting.rdp(loss, rule.alpha).lower
        assert ours.amount >= truth * (1 - 1e-12), loss
    assert compared >= 7
    replaced = losses.GaussianSum(4, 2, neighbours="replace")
    assert (
        charge(replaced, ZCDP).amount
        == 4 * charge(losses.GaussianSum(4, 2), ZCDP).amount
        == F(1, 2)
    )


def test_charges_under_epsilon_delta() -> None:
    share = APPROX.delta_per_question
    assert charge(losses.DiscreteLaplace(10, 2), APPROX).amounts == (F(1, 5), 0)
    assert charge(losses.Approx(1, "1e-9"), APPROX).amounts == (1, F(1, 10**9))
    one = charge(losses.DiscreteGaussian(10, 1), APPROX)
    assert one.amounts == (epsilon_up(F(1, 200), share), share)
    # a question with several Gaussian steps takes its delta once, and their rhos add up first
    several = charge(losses.DiscreteGaussian(10, 1) * 4 + Pure("0.1"), APPROX)
    assert several.amounts == (epsilon_up(F(4, 200), share) + F(1, 10), share)
    assert several.amount < 4 * one.amount


def test_charges_at_one_renyi_order() -> None:
    assert charge(losses.DiscreteGaussian(10, 1), RDP).amounts == (F(8, 200), 0)
    assert charge(losses.RDP(16, "0.2"), RDP).amounts == (F(1, 5), 0)
    assert charge(Pure("0.1"), RDP).amount == 8 * rho_of_pure(F(1, 10))
    assert charge(Pure(3), RDP).amount == 3  # D_alpha never exceeds epsilon
    with pytest.raises(
        RefusedError, match=r"order 4, and the budget counts at 8 \(orders are never mixed\)"
    ):
        charge(losses.RDP(4, "0.2"), RDP)


def test_a_zcdp_pot_refuses_what_only_holds_at_one_order() -> None:
    # rule pot-counts-its-losses
    for rule in (PURE, APPROX, ZCDP):
        with pytest.raises(RefusedError, match="rdp budgets of that order"):
            charge(Pure(1) + losses.RDP(8, "0.2"), rule)


@pytest.mark.parametrize(
    ("name", "terms"),
    [
        ("advanced", {}),
        ("pure", {"delta": F(1, 10)}),
        ("approx", {}),
        ("approx", {"delta": F(1, 10)}),
        ("approx", {"delta": F(1, 10**6), "delta_per_question": F(1, 10)}),
        ("zcdp", {}),
        ("zcdp", {"delta_conversion": F(1)}),
        ("zcdp", {"delta_conversion": F(1, 10), "alpha": F(2)}),
        ("rdp", {"delta_conversion": F(1, 10)}),
        ("rdp", {"delta_conversion": F(1, 10), "alpha": F(1)}),
    ],
)
def test_impossible_rules_are_refused(name: str, terms: dict[str, Any]) -> None:
    with pytest.raises(ParameterError):
        Rule(name, **terms)  # type: ignore[arg-type]


def test_guarantees_are_stated_for_the_ceiling() -> None:
    assert PURE.guarantee(F(2)) == (2, 0)
    assert APPROX.guarantee(F(2)) == (2, F(1, 10**5))
    epsilon, delta = ZCDP.guarantee(F(1, 2))
    assert float(epsilon) == pytest.approx(5.221534, rel=1e-6) and delta == F(1, 10**6) + F(
        1, 10**7
    )
    assert RDP.guarantee(F(1))[0] == epsilon_of_order(F(1), F(8), F(1, 10**6))
    # the conversion of theorem 4 in docs/proofs/filters.md at alpha = 8: 1 + log(7/8) - (log 1e-6 +
    # log 8)/7
    assert float(RDP.guarantee(F(1))[0]) == pytest.approx(2.5430498954, rel=1e-9)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_rules_survive_the_ledger(rule: Rule) -> None:
    body = {key: str(value) for key, value in rule.to_body().items()}
    assert Rule.from_body(body) == rule
    with pytest.raises(ParameterError):
        Rule.from_body(body | {"extra": "1/2"})


def test_a_charge_on_record_cannot_be_spent_by_a_filter() -> None:
    """It belongs to no rule: what was written down for one budget is no charge of another."""
    recorded = charge_from_amounts(F(1, 10), F(0))
    assert recorded == charge(Pure("0.1"), PURE) and tuple(recorded) == (F(1, 10), 0)
    with pytest.raises(ParameterError, match="another rule"):
        accounting.ZcdpRule(F(1), F(0)).empty().add(recorded)
    with pytest.raises(TypeError, match="curve"):
        charge_from_amounts(0.1, F(0))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "capped", [accounting.PureRule(F(1)), accounting.ZcdpRule(F(1), F(1, 10**7))], ids=str
)
def test_a_filter_and_a_pot_take_the_same_charge(capped: accounting.CappedRule) -> None:
    pot_rule = {"pure": PURE, "zcdp": ZCDP}[capped.name]
    for loss in (Pure("0.3"), losses.DiscreteLaplace("2.5", 3), losses.BoundedRange(1)):
        assert charge(loss, capped) == charge(loss, pot_rule)
