"""Every loss, either direction, extreme arguments: lower <= truth <= upper, the truth from mpmath.

Nowhere is an upper end zero where the truth is positive, and no mass is lost in a float.
"""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from mpmath import mpf

from dither import accounting as acc
from dither.accounting.sampled import SampledGaussianFactor
from tests.accounting.loss_oracles import DIGITS, Truth, describe_truth, mp

TINY = Fraction(1, 10**400)
EPSILONS = (0, "1e-300", 1, 60, 120, 2000)
DELTAS = (0, TINY, "1e-6")
MORE_EPSILONS = ("1e-9", "0.3", 5, 700, 10**5)
MORE_DELTAS = ("1e-310", "1e-301", "1e-50", "0.3", "0.999")
REPLACE = {"neighbours": "replace"}

KNOWN = [
    acc.Pure("1e-9"), acc.Pure(1), acc.Pure(300),
    acc.Approx(1, TINY), acc.Approx(1, "1e-5"), acc.Approx(1, TINY) * 3,
    acc.Approx("0.1", "0.4") * 5,
    acc.RandomizedResponse(2), acc.Shuffled(1, 1, theorem="FMT21"),
    acc.Laplace(1), acc.Laplace("1e-2"), acc.Laplace("1e6"),
    acc.Gaussian(1), acc.Gaussian("1e-5"), acc.Gaussian("1e7"), acc.Gaussian(1) * 10**9,
    acc.DiscreteLaplace(3, 2), acc.DiscreteLaplace("1/50", 1),
    acc.DiscreteGaussian(1, 1), acc.DiscreteGaussianVector(1, 1),
    acc.BoundedRange(1), acc.BoundedRange(40), acc.Pure(1) * 30,
    acc.ZCDP(1), acc.ZCDP("1e-9"), acc.ZCDP(1, TINY), acc.RDP(2, 1), acc.RDP("1.01", 3),
    acc.PoissonSampled("0.1", acc.Laplace(1, **REPLACE)),
]  # fmt: skip
INNER = [
    acc.Laplace(1),
    acc.Pure(2),
    acc.Approx(1, TINY),
    acc.DiscreteGaussian(1, 1),
    acc.DiscreteLaplace(2, 1),
    acc.ZCDP(1),
    acc.Gaussian(1),
]
SAMPLED = [acc.PoissonSampled("0.5", inner) for inner in INNER]
MORE = [
    acc.PoissonSampled(q, inner)
    for q in ("1e-9", "0.999999999")
    for inner in (*INNER, acc.Gaussian("0.2"))
] + [
    acc.SampledWithoutReplacement(1, 100, acc.Gaussian(2, **REPLACE)),
    acc.DiscreteGaussian(3, 2),
    acc.PoissonSampled("0.1", acc.GaussianSum(1, 1, **REPLACE)),
    acc.PoissonSampled("0.5", acc.PoissonSampled("0.5", acc.Gaussian(1))),
]


def show_loss(loss: acc.Loss) -> str:
    return repr(loss).split(", neighbours")[0][:60]


def read_truths(loss: acc.Loss) -> list[tuple[str | None, Truth]]:
    """Both directions, and the worse of the two, which is what the accountant gives by default."""
    removal = describe_truth(loss, "remove")
    if not isinstance(loss, acc.PoissonSampled) or loss.neighbours == "replace":
        return [(None, removal)]
    addition = describe_truth(loss, "add")
    worse = Truth(
        lambda epsilon: max(removal.lower(epsilon), addition.lower(epsilon)),
        lambda epsilon: max(removal.upper(epsilon), addition.upper(epsilon)),
    )
    return [("remove", removal), ("add", addition), (None, worse)]


def check_deltas(loss: acc.Loss, epsilons: tuple[int | str, ...]) -> None:
    with mpmath.workdps(DIGITS):
        for direction, truth in read_truths(loss):
            for epsilon in epsilons:
                bounds = acc.delta(loss, epsilon, direction=direction)
                point = mp(Fraction(epsilon))
                assert mpf(bounds.lower) <= truth.upper(point), (direction, epsilon, bounds)
                assert truth.lower(point) <= mpf(bounds.upper), (direction, epsilon, bounds)


def check_epsilons(loss: acc.Loss, deltas: tuple[int | str | Fraction, ...]) -> None:
    with mpmath.workdps(DIGITS):
        for direction, truth in read_truths(loss):
            for delta in deltas:
                bounds = acc.epsilon(loss, delta, direction=direction)
                check_epsilon(truth, mp(Fraction(delta)), bounds, (direction, delta, bounds))


@pytest.mark.parametrize("loss", KNOWN + SAMPLED, ids=show_loss)
def test_brackets_hold_the_truth_at_extreme_arguments(loss):
    check_deltas(loss, EPSILONS)
    check_epsilons(loss, DELTAS)


@pytest.mark.all
@pytest.mark.parametrize("loss", KNOWN + SAMPLED + MORE, ids=show_loss)
def test_brackets_hold_the_truth_at_more_arguments(loss):
    check_deltas(loss, EPSILONS + MORE_EPSILONS)
    check_epsilons(loss, DELTAS + MORE_DELTAS)


def check_epsilon(truth: Truth, delta: mpf, bounds: acc.Bounds, case: object) -> None:
    """delta falls below its target between the two ends."""
    if bounds.upper < math.inf:
        assert truth.lower(mpf(bounds.upper)) <= delta, case
    if bounds.lower > 0:
        before = (
            mpf(10) ** 6 if bounds.lower == math.inf else mpf(bounds.lower) * (1 - mpf(10) ** -30)
        )
        assert truth.upper(before) > delta, case


@pytest.mark.parametrize(
    ("loss", "delta", "truth"),
    [
        (acc.Approx(1, TINY), 0, math.inf),
        (acc.Approx(1, "1e-5"), "1e-5", 1.0),
        (acc.Approx(1, "1e-5") * 2, "0.0000199999", 2.0),
        (acc.Approx("1/4", "1e-5") + acc.Approx("1/2", "1e-6"), "0.00001099999", 0.75),
    ],
)
def test_a_delta_that_the_mass_takes_whole_leaves_the_sum_of_epsilons(loss, delta, truth):
    """1 - (1 - 1e-5)^2 = 1.99999e-5 and 1 - (1 - 1e-5)(1 - 1e-6) = 1.099999e-5, exactly."""
    assert acc.epsilon(loss, delta) == (truth, truth)


def test_the_added_unit_of_a_sample_has_a_loss_of_its_own():
    """Largest losses: log 2 whatever runs on half the units, -log((1 + e^-1)/2) for Laplace(1)."""
    half = acc.epsilon(acc.PoissonSampled("0.5", acc.Gaussian(1)), 0, direction="add")
    assert half.lower <= math.log(2) <= half.upper <= half.lower * (1 + 1e-15)
    for direction, grown in (("remove", math.e), ("add", 1 / math.e)):
        bounds = acc.epsilon(acc.PoissonSampled("0.5", acc.Laplace(1)), 0, direction=direction)
        assert bounds.upper == pytest.approx(abs(math.log((1 + grown) / 2)), rel=1e-15)
        assert bounds.lower == pytest.approx(bounds.upper, rel=1e-15)


def test_the_largest_loss_of_a_rate_near_one_keeps_its_digits():
    """-log(1e-9 / 3): a float of the rate alone knows 1 - q to eight digits."""
    q = 1 - Fraction(1, 3 * 10**9)
    truth = math.log(3e9)
    factor = SampledGaussianFactor("add", q, Fraction(1), 1)
    assert truth <= factor.largest() <= truth * (1 + 1e-13)


def test_a_delta_below_the_floats_is_answered():
    """The bracket at 1e-310 meets that at 1e-301, and is a few per cent wide."""
    loss = acc.PoissonSampled("0.01", acc.Gaussian(1)) * 1000
    near = acc.epsilon(loss, "1e-301")
    bounds = acc.epsilon(loss, "1e-310")
    assert near.lower <= bounds.upper <= 1.05 * near.upper
    assert bounds.lower >= near.lower


def _sum_along_a_line(epsilon: float, c: float) -> float:
    """log delta of 1,000 samples (rate 0.01, noise 1.1, unit removed): plain sums, no bound.

    Both integrals of the identity in docs/proofs/contour-accounting.md by the trapezoid rule.
    """
    noise = np.linspace(-10.0, 26.0, 1_500)
    heights = np.exp(-(noise**2) / 2.42) * (noise[1] - noise[0]) / (1.1 * math.sqrt(2 * math.pi))
    logs = np.log(0.99 + 0.01 * np.exp((2 * noise - 1) / 2.42))
    s = c + 1j * np.linspace(0.0, 24.0, 1_201)
    moments = np.exp(np.outer(s + 1, logs)) @ heights
    powers = 1000 * np.log(moments) - s * epsilon
    terms = np.exp(powers - powers[0].real) / (s * (s + 1))
    terms[0] /= 2
    return float(powers[0].real + math.log(terms.real.sum() * 0.02 / math.pi))


@pytest.mark.parametrize("digits", [100, 200, 301])
def test_many_steps_are_sharp_at_the_smallest_deltas(digits):
    """The saddle is finer than the grid of real parts there: 22% wide before, in eleven seconds."""
    loss = acc.PoissonSampled("0.01", acc.Gaussian("1.1")) * 1000
    bounds = acc.epsilon(loss, Fraction(1, 10**digits))
    assert bounds.upper - bounds.lower < 1e-10 * bounds.upper
    near = _sum_along_a_line(bounds.upper, 10.1)
    assert near == pytest.approx(-digits * math.log(10), abs=1e-7)


def test_nested_samples_multiply_their_rates():
    nested = acc.PoissonSampled("0.5", acc.PoissonSampled("0.02", acc.Gaussian(1))) * 100
    flat = acc.PoissonSampled("0.01", acc.Gaussian(1)) * 100
    assert acc.epsilon(nested, 1e-6) == pytest.approx(acc.epsilon(flat, 1e-6), rel=1e-14)
