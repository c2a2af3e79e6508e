"""Charges of samples at one Renyi order: exact, above the truth, near it; the theorems' conditions
are kept."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import pytest

from dither import accounting as acc
from dither.errors import RefusedError
from dither.privacy.charges import measures as charges
from dither.privacy.charges.sampled import amplified, poisson_renyi

F = Fraction
SGD = acc.PoissonSampled(0.01, acc.Gaussian(1.1))


# computed with mpmath, apart from dither
@pytest.mark.parametrize(
    ("order", "reference"),
    [
        (2, 1.28510081605162e-4),
        (4, 2.66718314627061e-4),
        (8, 5.84070335520251e-4),
        (16, 1.69982672775318),
        (32, 8.46941643367593),
        (64, 21.7680128662873),
    ],
)
def test_integer_orders_of_the_sampled_gaussian(order, reference):
    amount, delta = charges.rdp(SGD, F(order))
    assert delta == 0
    assert float(amount) == pytest.approx(reference, rel=1e-12)
    assert amount >= acc.rdp(SGD, order).lower


@pytest.mark.parametrize("order", [F(5, 4), F(5, 2), F(11, 2), F(63, 2)])
def test_between_integer_orders_the_chord_lies_above(order):
    amount, _ = charges.rdp(SGD, order)
    exact = acc.rdp(SGD, order)
    assert exact.lower <= amount <= exact.upper * 2
    assert amount <= charges.rdp(SGD, F(math.ceil(order)))[0]


@pytest.mark.parametrize("rate", [F(1, 10**6), F(1, 100), F(1, 3), F(99, 100), F(1)])
@pytest.mark.parametrize("sigma", [F(1, 5), F(11, 10), F(20)])
@pytest.mark.parametrize("order", [F(2), F(7, 2), F(40)])
def test_never_below_either_direction_nor_above_the_whole(rate, sigma, order):
    loss = acc.PoissonSampled(rate, acc.Gaussian(sigma))
    amount, _ = charges.rdp(loss, order)
    assert amount <= order / (2 * sigma**2)
    assert amount >= F(acc.rdp(loss, order).lower) * (1 - F(1, 10**11))
    assert charges.rdp(loss * 1000, order)[0] == 1000 * amount


def test_the_exponents_may_be_huge():
    """A sum near one beside a term e^(4096 * 4095 / 2): no digit of the small sum is lost."""
    small = poisson_renyi(F(1, 10**9), lambda order: order * F(1, 100), F(64), F(1))
    with mpmath.workdps(80):
        total = mpmath.fsum(
            mpmath.binomial(64, k)
            * (1 - mpmath.mpf(10) ** -9) ** (64 - k)
            * mpmath.mpf(10) ** (-9 * k)
            * mpmath.exp(mpmath.mpf(k * (k - 1)) / 100)
            for k in range(65)
        )
        truth = mpmath.log(total) / 63
    assert float(small) == pytest.approx(float(truth), rel=1e-10)
    assert (
        float(charges.rdp(acc.PoissonSampled(F(1, 2), acc.Gaussian(F(1, 90))), F(64))[0])
        < 64 * 4050
    )


def test_fixed_size_samples_against_dp_accounting():
    rdp = pytest.importorskip("dp_accounting.rdp.rdp_privacy_accountant")
    for sigma, rate, order in ((2.0, 0.01, 4), (5.0, 0.05, 8), (1.5, 0.001, 16)):
        theirs = rdp._compute_rdp_sample_wor_gaussian_scalar(rate, sigma, order)
        gaussian = acc.Gaussian(sigma, neighbours="replace")
        loss = acc.SampledWithoutReplacement(round(rate * 1000), 1000, gaussian)
        ours, _ = charges.rdp(loss, F(order))
        # theirs is theorem 27 of the same paper, a little tighter than the theorem 9 used here
        assert theirs * (1 - 1e-12) <= float(ours) <= theirs * 3
        grown = [
            math.comb(order, k) * rate**k * 2 * math.exp(k * (k - 1) / (2 * sigma**2))
            for k in range(3, order + 1)
        ]
        second = (
            rate**2
            * math.comb(order, 2)
            * min(4 * math.expm1(1 / sigma**2), 2 * math.exp(1 / sigma**2))
        )
        assert float(ours) == pytest.approx(
            math.log1p(second + math.fsum(grown)) / (order - 1), rel=1e-9
        )


def test_replace_goes_out_and_in():
    clipped = acc.GaussianSum(1.1, 1, neighbours="replace")
    loss = acc.PoissonSampled(0.01, clipped)
    amount, _ = charges.rdp(loss, F(4))
    assert acc.rdp(loss, 4).lower <= amount < charges.rdp(clipped, F(4))[0] / 100
    other = acc.PoissonSampled(0.01, acc.Gaussian(1.1, neighbours="replace"))
    assert charges.rdp(other, F(4)) == charges.rdp(acc.Gaussian(1.1), F(4))


def test_pure_samples_pay_the_amplified_epsilon():
    assert float(amplified(F(1, 2), F(1, 10))) == pytest.approx(0.0628547234737304, rel=1e-14)
    assert float(amplified(F(4), F(1, 1000))) == pytest.approx(0.0522111155922646, rel=1e-14)
    assert float(amplified(F(900), F(1, 1000))) == pytest.approx(900 - math.log(1000), rel=1e-14)
    rule = acc.PureRule(F(1))
    assert acc.charge(acc.PoissonSampled(0.1, acc.Pure(0.5)), rule).amounts == (
        amplified(F(1, 2), F(1, 10)),
    )
    assert acc.charge(
        acc.PoissonSampled(0.1, acc.Pure(0.5, neighbours="replace")), rule
    ).amounts == (F(1, 2),)
    approximate = charges.approx(acc.PoissonSampled(0.1, acc.Approx(0.5, 1e-6)), F(1, 10**6))
    assert approximate == (amplified(F(1, 2), F(1, 10)), F(1, 10**7))


def test_a_training_run_in_an_approximate_pot():
    epsilon, delta = charges.approx(SGD * 10_000, F(1, 10**5))
    assert delta == F(1, 10**5)
    assert 5.632 <= float(epsilon) < 5.75  # 5.63201 with real orders (composition.md, R9)
    mixed, _ = charges.approx(
        SGD * 10_000 + acc.Pure(0.1) + acc.DiscreteGaussian(100, 1), F(1, 10**5)
    )
    assert epsilon + F(1, 10) < mixed < epsilon + F(2, 10)


def test_wrong_schemes_are_refused():
    loss = acc.SampledWithoutReplacement(1, 10, acc.Gaussian(1))
    for price in (charges.zcdp, lambda loss: charges.rdp(loss, F(4))):
        with pytest.raises(RefusedError, match="'replace'"):
            price(loss)


def test_planted_bugs_fall_below_the_truth():
    """Mistakes made with this formula, each below a proved lower bound."""
    truth = acc.rdp(SGD, 16).lower
    assert truth > 0.01**2 * 16 / 2.42, "q^2 alpha rho, past the phase change"
    assert charges.rdp(SGD, F(8))[0] < truth, "the order below"
    first = charges.rdp(acc.PoissonSampled(0.01, acc.Gaussian(1.1, neighbours="add_remove")), F(4))[
        0
    ]
    assert (
        first
        < acc.rdp(acc.PoissonSampled(0.01, acc.GaussianSum(1.1, 1, neighbours="replace")), 4).lower
    )


@pytest.mark.parametrize("epsilon", [F(1, 1000), F(1, 10), F(1), F(5), F(30)])
def test_laplace_noise_is_concentrated_at_its_divergence(epsilon):
    """Lemma 4 of filters.md: D_alpha <= alpha (eps + e^-eps - 1), sharp as the order tends to
    one."""
    rho = charges.rho_of_laplace(epsilon)
    loss = acc.Laplace(1 / epsilon)
    for order in ("1.0001", "1.1", "2", "7", "60", "1000"):
        assert acc.rdp(loss, order).lower <= float(F(order) * rho) * (1 + 1e-12)
    assert acc.rdp(loss, "1.0001").upper > float(rho) * 0.99
    assert rho <= charges.rho_of_pure(epsilon)
