"""Every loss, either direction, extreme arguments: lower <= truth <= upper, the truth from mpmath.

Nowhere is an upper end zero where the truth is positive, and no mass is lost in a float.
"""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import pytest
from mpmath import mpf

from dither import accounting as acc
from tests.accounting.loss_oracles import DIGITS, Truth, describe_truth, mp

TINY = Fraction(1, 10**400)
EPSILONS = (0, "1e-300", "1e-9", "0.3", 1, 5, 60, 120, 700, 2000, 10**5)
DELTAS = (0, TINY, "1e-310", "1e-301", "1e-50", "1e-6", "0.3", "0.999")
REPLACE = {"neighbours": "replace"}

KNOWN = [
    acc.Pure("1e-9"), acc.Pure(1), acc.Pure(300),
    acc.Approx(1, TINY), acc.Approx(1, "1e-5"), acc.Approx(1, TINY) * 3, acc.Approx("0.1", "0.4") * 5,
    acc.RandomizedResponse(2), acc.Shuffled(1, 1, theorem="FMT21"),
    acc.Laplace(1), acc.Laplace("1e-2"), acc.Laplace("1e6"),
    acc.Gaussian(1), acc.Gaussian("1e-5"), acc.Gaussian("1e7"), acc.Gaussian(1) * 10**9,
    acc.DiscreteLaplace(3, 2), acc.DiscreteLaplace("1/50", 1),
    acc.DiscreteGaussian(1, 1), acc.DiscreteGaussian(3, 2), acc.DiscreteGaussianVector(2, 1),
    acc.BoundedRange(1), acc.BoundedRange(40), acc.Pure(1) * 30,
    acc.ZCDP(1), acc.ZCDP("1e-9"), acc.ZCDP(1, TINY), acc.RDP(2, 1), acc.RDP("1.01", 3),
    acc.SampledWithoutReplacement(1, 100, acc.Gaussian(2, **REPLACE)),
]  # fmt: skip
SAMPLED = [
    acc.PoissonSampled(q, inner)
    for q in ("1e-9", "0.5", "0.999999999")
    for inner in (
        acc.Gaussian(1),
        acc.Gaussian("0.2"),
        acc.Laplace(1),
        acc.Pure(2),
        acc.Approx(1, TINY),
        acc.DiscreteGaussian(2, 1),
        acc.DiscreteLaplace(2, 1),
        acc.ZCDP(1),
    )
] + [
    acc.PoissonSampled("0.1", acc.GaussianSum(1, 1, **REPLACE)),
    acc.PoissonSampled("0.1", acc.Laplace(1, **REPLACE)),
]


def show_loss(loss: acc.Loss) -> str:
    return repr(loss).split(", neighbours")[0][:60]


def read_truths(loss: acc.Loss) -> list[tuple[str | None, Truth]]:
    """Both directions, and the worse of the two, which is what the accountant gives by default."""
    removal = describe_truth(loss, "remove")
    addition = describe_truth(loss, "add")
    worse = Truth(
        lambda epsilon: max(removal.lower(epsilon), addition.lower(epsilon)),
        lambda epsilon: max(removal.upper(epsilon), addition.upper(epsilon)),
    )
    return [("remove", removal), ("add", addition), (None, worse)]


@pytest.mark.parametrize("loss", KNOWN + SAMPLED, ids=show_loss)
def test_delta_brackets_hold_the_truth_at_extreme_epsilons(loss):
    with mpmath.workdps(DIGITS):
        for direction, truth in read_truths(loss):
            for epsilon in EPSILONS:
                bounds = acc.delta(loss, epsilon, direction=direction)
                point = mp(Fraction(epsilon))
                assert mpf(bounds.lower) <= truth.upper(point), (direction, epsilon, bounds)
                assert truth.lower(point) <= mpf(bounds.upper), (direction, epsilon, bounds)


@pytest.mark.parametrize("loss", KNOWN + SAMPLED, ids=show_loss)
def test_epsilon_brackets_hold_the_truth_at_extreme_deltas(loss):
    with mpmath.workdps(DIGITS):
        for direction, truth in read_truths(loss):
            for delta in DELTAS:
                bounds = acc.epsilon(loss, delta, direction=direction)
                check_epsilon(truth, mp(Fraction(delta)), bounds, (direction, delta, bounds))


def check_epsilon(truth: Truth, delta: mpf, bounds: acc.Bounds, case: object) -> None:
    """delta falls below its target between the two ends."""
    if bounds.upper < math.inf:
        assert truth.lower(mpf(bounds.upper)) <= delta, case
    if bounds.lower > 0:
        before = mpf(10) ** 6 if bounds.lower == math.inf else mpf(bounds.lower) * (1 - mpf(10) ** -30)
        assert truth.upper(before) > delta, case
