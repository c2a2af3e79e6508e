"""Rounded Gaussian noise: at most the loss of the continuous one, with a law of its own.

The oracle of every figure is the law itself, summed with mpmath: P(k) = Phi((k + 1/2) / sigma) -
Phi((k - 1/2) / sigma).
"""

from __future__ import annotations

from fractions import Fraction as F

import numpy as np
import pytest
from mpmath import mp, mpf

from dither import accounting as acc
from dither.accounting import workload
from dither.audit.exact import hockey_stick
from dither.errors import ParameterError, RefusedError
from dither.laws import RoundedGaussianErrorLaw, find_error_law, law_from_json, law_to_json
from dither.plan.norms import Sensitivity
from dither.privacy.charges.rules import Rule, charge
from dither.privacy.losses import Gaussian, PoissonSampled, Pure, RoundedGaussian
from dither.privacy.mechanisms import IntegerRoundedGaussian, rounded_gaussian
from tests.case_lists import mark_between
from tests.mechanisms.planted import Bug

ONE = Sensitivity.of(largest=1)
ZCDP = Rule("zcdp", delta_conversion=F(1, 10**6))


def list_law(sigma: float | str, centre: int = 0, reach: int = 60) -> dict[int, float]:
    """P(noise + centre = k), by mpmath at fifty digits."""
    with mp.workdps(50):
        scale = mpf(str(sigma)) * mp.sqrt(2)

        def beyond(value: mpf) -> mpf:
            return mp.erfc(value / scale) / 2

        return {
            k + centre: float(beyond(abs(k) - mpf("0.5")) - beyond(abs(k) + mpf("0.5")))
            for k in range(-reach, reach + 1)
        }


def test_rounded_gaussian_is_at_most_the_continuous_one() -> None:
    """delta(1) at sigma 3.73063 is 9.96e-6 against 1.00001e-5, delta(5) at sigma 1/2 0.0013
    against 0.0323: the upper end holds, the continuous curve is no lower end."""
    for sigma, epsilon, exact, continuous in (
        ("3.73063", 1, 9.96e-6, 1.00001e-5),
        ("0.5", 5, 0.0013, 0.0323),
        ("1", 1, None, None),
    ):
        mechanism = IntegerRoundedGaussian(F(sigma), ONE)
        true = hockey_stick(list_law(sigma), list_law(sigma, 1), epsilon)
        claimed = acc.delta(mechanism.loss(), epsilon)
        assert claimed.lower <= true.lower <= claimed.upper
        if exact is not None:
            assert true.upper == pytest.approx(exact, rel=0.05)
            assert claimed.upper == pytest.approx(continuous, rel=1e-3)
            assert acc.delta(Gaussian(sigma), epsilon).lower > true.upper


def test_the_upper_end_is_that_of_the_gaussian_and_the_lower_end_never_above_the_truth() -> None:
    losses = [
        (RoundedGaussian(2, 9), Gaussian(2, 3)),
        (RoundedGaussian(2, 1) * 7, Gaussian(2) * 7),
        (RoundedGaussian(2, 4) + Pure("0.1"), Gaussian(2, 2) + Pure("0.1")),
        (PoissonSampled("0.01", RoundedGaussian("1.1", 1)) * 50,
         PoissonSampled("0.01", Gaussian("1.1")) * 50),
        (acc.group(RoundedGaussian(3, 1), 2), acc.group(Gaussian(3), 2)),
    ]  # fmt: skip
    for rounded, continuous in losses:
        for bounds, known in (
            (acc.epsilon(rounded, 1e-6), acc.epsilon(continuous, 1e-6)),
            (acc.delta(rounded, 1.0), acc.delta(continuous, 1.0)),
        ):
            assert bounds.upper == pytest.approx(known.upper, rel=1e-9)
            assert bounds.lower < known.lower
        assert acc.zcdp(rounded).rho.upper == pytest.approx(acc.zcdp(continuous).rho.upper)
    assert acc.zcdp(RoundedGaussian(2, 9)).rho.lower == 0


def test_samples_under_replace_are_refused() -> None:
    """Nothing relates a sample with the unit to one without it: only GaussianSum has that curve."""
    loss = PoissonSampled("0.01", RoundedGaussian(1, 1, neighbours="replace"))
    with pytest.raises(RefusedError, match="no proved pair"):
        acc.epsilon(loss, 1e-6)


def test_pots_charge_it_as_the_gaussian() -> None:
    assert charge(RoundedGaussian(10, 6) * 5, ZCDP).amounts == (F(30, 200), 0)
    with pytest.raises(RefusedError, match="no finite epsilon"):
        charge(RoundedGaussian(10, 6), Rule("pure"))


@pytest.mark.parametrize("rho", ["0.5", "0.001", "3"])
@pytest.mark.parametrize("sensitivity", [ONE, Sensitivity.of(cells=3, largest=7)])
def test_the_charged_rho_never_exceeds_the_rho_asked(rho: str, sensitivity: Sensitivity) -> None:
    mechanism = IntegerRoundedGaussian.for_rho(F(rho), sensitivity)
    taken = charge(mechanism.loss(), ZCDP).amount
    assert F(rho) * (1 - F(1, 2**18)) <= taken <= F(rho)


@pytest.mark.parametrize("sigma", mark_between(["0.1", "0.5", "1", "3.73063", "10"], step=2))
def test_the_law_is_that_of_rounded_normal_numbers(sigma: str) -> None:
    """Variance 6e-7 at sigma 0.1, where 'sigma^2 + 1/12' says 0.093."""
    law = RoundedGaussianErrorLaw(F(sigma))
    exact = list_law(sigma, reach=500)
    variance = sum(k * k * chance for k, chance in exact.items())
    mean = sum(max(0, k) * chance for k, chance in exact.items())
    assert law.variance == pytest.approx(variance, rel=1e-9)
    assert law.positive_mean * float(F(sigma)) == pytest.approx(mean, rel=1e-9)
    if sigma == "0.1":
        assert law.variance == pytest.approx(6e-7, rel=0.1)
    for t in range(-5, 12):
        chance = sum(probability for k, probability in exact.items() if k > t)
        assert chance <= law.above(np.array([float(t)]))[0] + 1e-15
        assert law.above(np.array([float(t)]))[0] == pytest.approx(chance, rel=1e-9, abs=1e-15)
    for level in (0.5, 0.9, 0.95, 0.99):
        half = law.interval(level)
        inside = sum(chance for k, chance in exact.items() if abs(k) <= half)
        narrower = sum(chance for k, chance in exact.items() if abs(k) < half)
        assert inside >= level > narrower
    assert law_from_json(law_to_json(law)) == law


def test_wide_laws_meet_the_sums_where_they_take_over() -> None:
    for value in ("variance", "positive_mean"):
        below = getattr(RoundedGaussianErrorLaw(F(1000)), value)
        above = getattr(RoundedGaussianErrorLaw(F(1000) + F(1, 10**6)), value)
        assert above == pytest.approx(below, rel=1e-8)
    shares = np.array([0.001, 0.3, 0.5, 0.9, 0.9999])
    law = RoundedGaussianErrorLaw(F(3))
    running = np.cumsum(list(list_law(3).values()))
    assert law.inverse(shares).tolist() == [
        float(np.searchsorted(running, share) - 60) for share in shares
    ]


def test_rounded_gaussian_draws_have_the_deviation_that_is_priced() -> None:
    """Var of the sample variance is about 2 sigma^4 / n: six deviations are a chance of 2e-9."""
    mechanism = IntegerRoundedGaussian.for_rho(F(1, 200), Sensitivity.of(cells=4, largest=1))
    drawn = mechanism.release(np.zeros(200_000, np.int64))
    law = find_error_law(mechanism)
    assert abs(drawn.var() / law.variance - 1) < 6 * (2 / 200_000) ** 0.5


def test_what_cannot_be_drawn_is_refused() -> None:
    for sigma in (F(1, 1001), F(2**38 + 1), F(-1)):
        with pytest.raises(ParameterError):
            IntegerRoundedGaussian(sigma, ONE)
    with pytest.raises(ParameterError):
        IntegerRoundedGaussian(F(1), 1)  # type: ignore[arg-type]


true_draws = rounded_gaussian.rounded_gaussian
BUGS = {
    "rounded-noise-of-one-cell": Bug(
        "a vector of four moving cells gets the noise of one",
        test_rounded_gaussian_draws_have_the_deviation_that_is_priced,
        (
            (
                rounded_gaussian,
                "rounded_gaussian",
                lambda sigma, size, source: true_draws(sigma / 2, size, source=source),
            ),
        ),
    ),
    "rounded-priced-as-discrete": Bug(
        "the continuous loss as if it were exact: its lower end is false",
        test_the_upper_end_is_that_of_the_gaussian_and_the_lower_end_never_above_the_truth,
        ((workload, "has_rounding", lambda loss: False),),
    ),
}
