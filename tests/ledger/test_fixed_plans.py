"""What plans fixed in advance pay: laws of losses on a grid against closed forms (mpmath), exact
fractions, and the accountant, which shares no code with them."""

from __future__ import annotations

import random
from fractions import Fraction as F
from itertools import product

import pytest
from mpmath import mp, mpf

from dither import accounting
from dither.plan.norms import Sensitivity
from dither.privacy import losses
from dither.privacy.charges import fixed_plans, gaussian_curve, loss_grid, measures
from dither.privacy.charges.fixed_plans import (
    KnownPair,
    SampledNormal,
    Scale,
    find_planned_epsilon,
)
from dither.privacy.charges.loss_grid import LossLaw, coarsen, convolve, find_epsilon, trim
from dither.privacy.charges.normal import normal_below
from dither.privacy.kernel.rho_within import rho_on_curve, rho_within
from dither.privacy.mechanisms.rounded_gaussian import IntegerRoundedGaussian
from tests.evidence import to_real

SCALE = Scale(25, 10**10)
DELTA = F(1, 10**5)
PLANS = [
    losses.PoissonSampled("0.01", losses.RoundedGaussian("1.1", 1)) * 64,
    losses.PoissonSampled("0.25", losses.Gaussian(2)) * 50,
    losses.RoundedGaussian(5, 3) * 20,
    losses.PoissonSampled("0.1", losses.GaussianSum(3, 2)) * 9 + losses.Pure("0.1") * 9,
    losses.Approx("0.3", "1e-7") * 10,
    losses.Gaussian(100000) * 3 + losses.PoissonSampled("0.5", losses.Gaussian("0.4")),
]


def price(plan: losses.Loss, delta: F = DELTA) -> F:
    fixed_plans._compose.cache_clear()
    epsilon = find_planned_epsilon(plan, delta, measures.pair)
    assert epsilon is not None
    return epsilon


def read_delta(law: LossLaw, epsilon: mpf, digits: int = SCALE.digits) -> mpf:
    """The delta of a law at epsilon, in real numbers."""
    points = enumerate(law.masses, law.first)
    above = [(mass, point * to_real(law.step)) for point, mass in points]
    finite = sum(mass * (1 - mp.exp(epsilon - z)) for mass, z in above if z > epsilon)
    return (law.infinite + finite) / mpf(10) ** digits


def test_the_normal_distribution_function_is_enclosed() -> None:
    draws = random.Random(1)
    points = [F(draws.randrange(-(10**6), 10**6), 10**5) for _ in range(40)]
    points += [F(0), F(13), F(-13), F(14), F(-40), F(1, 10**30)]
    with mp.workprec(600):
        for x in points:
            low, high = normal_below(x)
            exact = mp.erfc(-to_real(x) / mp.sqrt(2)) / 2 * mpf(2) ** 224
            assert low <= exact <= high and high - low < 2**130


def test_products_of_polynomials_are_exact() -> None:
    draws = random.Random(2)
    for _ in range(30):
        a, b = ([draws.randrange(10**6) for _ in range(draws.randrange(1, 9))] for _ in range(2))
        expected = [0] * (len(a) + len(b) - 1)
        for (i, first), (j, second) in product(enumerate(a), enumerate(b)):
            expected[i + j] += first * second
        assert loss_grid.multiply(a, b) == expected


def make_law(draws: random.Random, digits: int) -> LossLaw:
    masses = [draws.randrange(10**digits) for _ in range(draws.randrange(2, 9))]
    return LossLaw(1, draws.randrange(-5, 3), masses, draws.randrange(3))


def check_small_laws() -> None:
    """Every operation only raises delta, and no more than rounding does: in few digits."""
    draws = random.Random(3)
    digits = 2
    for _ in range(60):
        a, b = make_law(draws, digits), make_law(draws, digits)
        masses: dict[int, F] = {}
        for (i, first), (j, second) in product(enumerate(a.masses), enumerate(b.masses)):
            point = a.first + b.first + i + j
            masses[point] = masses.get(point, F(0)) + F(first * second, 10**digits)
        infinite = F(a.infinite * b.total + b.infinite * sum(a.masses), 10**digits)
        both = convolve(a, b, digits, 3)
        for epsilon in (mpf(-2), mpf(0), mpf("0.7"), mpf(2)):
            finite = sum(
                to_real(mass) * max(mpf(0), 1 - mp.exp(epsilon - point / mpf(2)))
                for point, mass in masses.items()
            )
            exact = (to_real(infinite) + finite) / mpf(10) ** digits
            assert exact <= read_delta(both, epsilon, digits)
            for changed in (coarsen(a), trim(a, 20)):
                before, after = (read_delta(law, epsilon, digits) for law in (a, changed))
                assert before <= after + mpf(10) ** -20


def test_operations_on_laws_only_raise_delta() -> None:
    check_small_laws()


def read_gauss(rate: F, mean: mpf, epsilon: mpf, *, leaves: bool) -> mpf:
    """delta of a sampled Gaussian, by its threshold in x."""
    q = to_real(rate)

    def above(x: mpf, centre: mpf) -> mpf:
        return mp.erfc((x - centre) / mp.sqrt(2)) / 2

    bound = mp.exp(epsilon if leaves else -epsilon)
    if bound <= 1 - q:
        return mpf(0) if not leaves else 1 - bound
    x = (mp.log((bound - 1 + q) / q) + mean**2 / 2) / mean
    mixed = (1 - q) * above(x, mpf(0)) + q * above(x, mean)
    if leaves:
        return mixed - mp.exp(epsilon) * above(x, mpf(0))
    return 1 - above(x, mpf(0)) - mp.exp(epsilon) * (1 - mixed)


def check_steps() -> None:
    """One step of noise on a sample, in both directions, and one of a known pair."""
    with mp.workprec(200):
        for rate, square in [(F(1, 100), F(100, 121)), (F(1, 2), F(1, 100)), (F(1), F(2))]:
            laws = fixed_plans._list_laws(SampledNormal(rate, square), SCALE)
            for leaves, law in zip((True, False), laws, strict=True):
                assert sum(law.masses) + law.infinite >= 10**SCALE.digits
                for epsilon in (mpf(0), mpf("0.003"), mpf("0.1"), mpf("0.5"), mpf(2)):
                    exact = read_gauss(rate, mp.sqrt(to_real(square)), epsilon, leaves=leaves)
                    stated = read_delta(law, epsilon)
                    assert exact <= stated <= exact * mpf("1.01") + mpf("2e-4")
        law, _ = fixed_plans._list_laws(KnownPair(F(1, 3), F(1, 1000)), SCALE)
        for epsilon in (mpf(0), mpf("0.2"), mpf("0.34")):
            odds = mp.exp(mpf(1) / 3)
            exact = mpf("0.001") + max(mpf(0), odds - mp.exp(epsilon)) / (1 + odds)
            assert exact <= read_delta(law, epsilon) + mpf(10) ** -20
            assert read_delta(law, epsilon) <= exact * mpf("1.001") + mpf("1e-6")


def test_one_step_lies_just_above_its_closed_form() -> None:
    check_steps()


def check_plans() -> None:
    for plan in PLANS:
        exact = accounting.epsilon(plan, DELTA)
        continuous = accounting.epsilon(_without_rounding(plan), DELTA)
        epsilon = price(plan)
        assert continuous.lower <= epsilon <= exact.upper * 1.01


def _without_rounding(plan: losses.Loss) -> losses.Loss:
    """The plan with continuous noise, whose curve is known from below too."""
    match plan:
        case losses.Composed():
            return losses.Composed(tuple(map(_without_rounding, plan.losses)))
        case losses.Repeated():
            return _without_rounding(plan.loss) * plan.count
        case losses.PoissonSampled():
            return losses.PoissonSampled(plan.q, _without_rounding(plan.loss))
        case losses.RoundedGaussian(l2_squared=square):
            return losses.Gaussian(plan.sigma / F(str(square**0.5)))
    return plan


def test_plans_cost_the_accountants_epsilon_within_one_percent() -> None:
    check_plans()


def test_published_epsilons() -> None:
    """Balle and Wang 2018: sigma 3.73063 is (1, 1e-5). Dwork, Rothblum, Vadhan's randomised
    response: delta of ten at 0.3 by the binomial law, here the epsilon at its delta of 1."""
    assert 1 <= price(losses.Gaussian("3.73063")) < F("1.01")
    with mp.workprec(100):
        odds = mp.exp(mpf("0.3"))
        delta = sum(
            mp.binomial(10, k)
            * max(mpf(0), odds ** (10 - k) - mp.exp(1) * odds**k)
            / (1 + odds) ** 10
            for k in range(11)
        )
    assert 1 <= price(losses.Pure("0.3") * 10, F(str(delta))) < F("1.001")


def drop_infinite(law: LossLaw, spare: int) -> LossLaw:
    return trim(law, spare)._replace(infinite=law.infinite)


def move_down(self: fixed_plans.Spread, low: int, high: int, mass: object, other: object) -> None:
    self.masses[low] += self.scale.up(mass.high)  # type: ignore[attr-defined]


def keep_less(masses: list[int], others: list[int]) -> list[int]:
    return [max(0, mass - 99) for mass in multiply(masses, others)]


def repeat_less(law: LossLaw, count: int, digits: int, spare: int) -> LossLaw:
    return repeat(law, max(1, count - count // 8), digits, spare)


def give_half(step: F) -> int:
    return 2**223


multiply, repeat = loss_grid.multiply, loss_grid.repeat


@pytest.mark.parametrize(
    ("module", "name", "bug", "check"),
    [
        (loss_grid, "trim", drop_infinite, check_small_laws),
        (loss_grid, "multiply", keep_less, check_small_laws),
        (loss_grid, "_lower_share", give_half, check_small_laws),
        (fixed_plans.Spread, "add", move_down, check_steps),
        (fixed_plans, "_mix", lambda rate, a, b: a, check_steps),
        (fixed_plans, "repeat", repeat_less, check_plans),
        (fixed_plans, "_count_events", lambda loss, count: [(loss.loss, 1)], check_plans),
    ],
    ids=[
        "mass at infinity dropped",
        "masses rounded down",
        "split in halves",
        "cells moved to their lower end",
        "sample left out",
        "an eighth of the steps left out",
        "repetition left out",
    ],
)
def test_a_planted_bug_is_caught(
    monkeypatch: pytest.MonkeyPatch, module: object, name: str, bug: object, check: object
) -> None:
    monkeypatch.setattr(module, name, bug)
    with pytest.raises(AssertionError):
        check()  # type: ignore[operator]
    fixed_plans._compose.cache_clear()


def test_what_has_no_law_here_pays_as_before() -> None:
    sampled = losses.PoissonSampled("0.01", losses.DiscreteGaussian(2, 1)) * 5
    replaced = losses.PoissonSampled("0.01", losses.GaussianSum(2, 1, neighbours="replace")) * 5
    wide = losses.Gaussian("0.001") * 5
    for plan in (sampled, replaced, wide, losses.Composed(tuple(_nine_kinds()))):
        assert find_planned_epsilon(plan, DELTA, measures.pair) is None
        assert measures.approx(losses.FixedPlan((plan,)), DELTA) == measures.approx(plan, DELTA)
    assert find_planned_epsilon(losses.Gaussian(2), F(1, 10**40), measures.pair) is None


def _nine_kinds() -> list[losses.Loss]:
    return [losses.Pure(F(number, 10)) for number in range(1, 10)] + [losses.Gaussian(9)]


def test_only_a_plan_that_says_so_pays_its_exact_curve() -> None:
    """Stored charges of losses without that word stay what they were; other rules see no word."""
    steps = losses.PoissonSampled("0.25", losses.RoundedGaussian(2, 1)) * 50
    plan = losses.FixedPlan((steps,))
    before, delta = measures.approx(steps, DELTA)
    assert measures.approx(plan, DELTA) == (price(steps), delta) and price(steps) < before
    assert measures.approx(plan + losses.Pure(0), DELTA) == (before, delta)
    assert measures.rdp(plan, F(8)) == measures.rdp(steps, F(8))
    assert measures.zcdp(plan) == measures.zcdp(steps)
    assert measures.pure(losses.FixedPlan((losses.Pure(1),))) == 1


def test_charges_of_plans_stay_to_the_last_digit() -> None:
    """Ledgers hold them, and every auditor computes them anew: another grid or order would be
    another charge."""
    sampled = losses.PoissonSampled("0.01", losses.RoundedGaussian("1.1", 1)) * 64
    mixed = (
        losses.PoissonSampled("0.1", losses.GaussianSum(3, 2)) * 9,
        losses.Pure("0.1") * 9,
        losses.RoundedGaussian(5, 3) * 20,
    )
    charges = [measures.approx(losses.FixedPlan(plan), DELTA)[0] for plan in ((sampled,), mixed)]
    assert charges == [F(470191869609742376, 10**18), F(7602745279880444612, 10**18)]


def test_events_of_the_same_two_numbers_are_not_taken_for_each_other() -> None:
    """Noise at rate 1/2 with (sensitivity / sigma)^2 = 10^-8 costs next to nothing; 100 events that
    are (1/2, 10^-8)-DP cost as much beside it, or after it, as alone."""
    noise = losses.PoissonSampled("0.5", losses.Gaussian(10**4))
    known = losses.Approx("0.5", "1e-8") * 100
    alone = price(known)
    assert price(losses.FixedPlan((noise, known))) >= alone > 5
    assert find_planned_epsilon(noise * 100, DELTA, measures.pair) < F(1, 10)
    assert find_planned_epsilon(known, DELTA, measures.pair) == alone


def write_gaussian_delta(mean: mpf, epsilon: mpf) -> mpf:
    """The delta of N(mean, 1) against N(0, 1) (Balle and Wang 2018, theorem 8)."""
    return mp.ncdf(mean / 2 - epsilon / mean) - mp.exp(epsilon) * mp.ncdf(
        -mean / 2 - epsilon / mean
    )


@pytest.mark.parametrize("square", [F(1, 10**6), F(1, 100), F(1), F(17, 3), F(9)])
@pytest.mark.parametrize("delta", [F(1, 10**4), F(1, 10**9)])
def test_noise_alone_pays_the_curve_of_one_gaussian(square: F, delta: F) -> None:
    epsilon = gaussian_curve.find_gaussian_epsilon(square, delta)
    with mp.workprec(300):
        mean = mp.sqrt(to_real(square))
        assert write_gaussian_delta(mean, to_real(epsilon)) <= to_real(delta)
        below = to_real(epsilon - F(2, gaussian_curve.GRAINS))
        assert epsilon == 0 or write_gaussian_delta(mean, below) > to_real(delta)


def test_only_noise_of_one_question_pays_that_curve() -> None:
    """Leases of Gaussian steps were charged by the grid, and every auditor computes it anew."""
    noises = (losses.RoundedGaussian(5, 3), losses.RoundedGaussian(7, 2))
    alone = measures.approx(losses.FixedNoise(noises), DELTA)
    planned = measures.approx(losses.FixedPlan(noises), DELTA)
    square = F(3, 25) + F(2, 49)
    assert alone == (gaussian_curve.find_gaussian_epsilon(square, DELTA), DELTA)
    assert alone[0] < planned[0] < measures.approx(losses.Composed(noises), DELTA)[0]
    assert measures.zcdp(losses.FixedNoise(noises)) == measures.zcdp(losses.FixedPlan(noises))
    nothing = losses.FixedNoise((*noises, losses.Pure(0)))  # a number that no unit moves
    assert measures.approx(nothing, DELTA) == alone
    beside = losses.FixedNoise((*noises, losses.Pure("0.1")))
    assert measures.approx(beside, DELTA) == measures.approx(losses.FixedPlan(beside.losses), DELTA)


def test_a_delta_beyond_the_enclosures_is_charged_as_before() -> None:
    """Below their last digits no epsilon would ever do: the search would not end."""
    noises = (losses.RoundedGaussian(10, 1),)
    for delta in (gaussian_curve.SMALLEST_DELTA, gaussian_curve.SMALLEST_DELTA / 2, F(1, 10**70)):
        charge = measures.approx(losses.FixedNoise(noises), delta)
        assert charge[0] <= measures.approx(losses.Composed(noises), delta)[0]


def test_rounded_noise_that_an_epsilon_buys_is_within_it() -> None:
    """The exact law, k = 0..3 cells moved by one; planted: noise of a tenth less."""
    epsilon, delta = F(1), F(1, 10**6)
    sigma = IntegerRoundedGaussian.for_rho(
        rho_on_curve(epsilon, delta), Sensitivity.of(largest=1)
    ).sigma
    assert (
        sigma
        < F(94, 100)
        * IntegerRoundedGaussian.for_rho(
            rho_within(epsilon, delta), Sensitivity.of(largest=1)
        ).sigma
    )
    for scale, is_within in ((sigma, True), (sigma * F(9, 10), False)):
        masses = [
            mp.ncdf((k + mpf(1) / 2) / to_real(scale)) - mp.ncdf((k - mpf(1) / 2) / to_real(scale))
            for k in range(-80, 82)
        ]
        spent = sum(
            max(mpf(0), here - mp.exp(1) * there)
            for here, there in zip(masses[1:], masses, strict=False)
        )
        assert (spent <= to_real(delta)) is is_within


@pytest.mark.parametrize("bits", [129, 260])
def test_a_rate_whose_least_loss_is_next_to_a_point_of_the_grid(bits: int) -> None:
    """log(1 - q) lies 2^-bits above or below -40 steps: no outcome, or hardly any, has less."""
    beside = price(losses.PoissonSampled(F(3, 308), losses.Gaussian(1)) * 3)
    for sign in (1, -1):
        with mp.workprec(500):
            power = mp.exp(mpf(40) / 2**12) + sign * mpf(2) ** -bits
            inverse = F(int(mp.floor(power * mpf(2) ** 400)), 2**400)
        plan = losses.PoissonSampled(1 - 1 / inverse, losses.Gaussian(1)) * 3
        assert abs(price(plan) - beside) < beside / 100


def test_a_law_above_zero_everywhere_costs_its_least_loss_at_most() -> None:
    law = LossLaw(0, 5, [10**25], 0)
    assert 4 <= find_epsilon(law, F(1, 10**6), 25) <= 5  # type: ignore[operator]
    assert find_epsilon(LossLaw(0, -5, [10**25], 0), F(1, 10**6), 25) == 0
    assert find_epsilon(LossLaw(0, -5, [1], 10**25), F(1, 10**6), 25) is None
