"""What is kept from earlier workloads changes nothing but the time; long panels agree with short
ones."""

from __future__ import annotations

from fractions import Fraction
from random import Random

import mpmath
import numpy as np
import pytest

from dither import accounting as acc
from dither.accounting import growth, trapezoid
from dither.accounting.contour import Contour
from dither.accounting.growth import forget
from dither.accounting.sampled import SampledGaussianFactor
from dither.accounting.transforms import GaussianFactor
from dither.accounting.trapezoid import QuadratureRow, rows
from tests.case_lists import mark_rest

SCHEDULE = acc.compose(
    *(acc.PoissonSampled("0.01", acc.Gaussian(Fraction(10 + i, 10))) * 100 for i in range(6))
)
MORE = [
    acc.Gaussian(30),
    acc.PoissonSampled("0.01", acc.Gaussian(3)) * 100,
    acc.PoissonSampled("0.02", acc.Gaussian("1.05")) * 50,
    acc.Laplace(20) + acc.Pure("0.01"),
]


@pytest.mark.parametrize("event", MORE, ids=lambda event: type(event).__name__)
def test_an_appended_event_costs_the_same_warm_or_cold(event):
    forget()
    cold = acc.epsilon(SCHEDULE + event, 1e-6)
    forget()
    acc.epsilon(SCHEDULE, 1e-6)
    acc.epsilon(SCHEDULE, 1e-9)
    warm = acc.epsilon(SCHEDULE + event, 1e-6)
    assert max(cold.lower, warm.lower) <= min(cold.upper, warm.upper)
    assert warm.upper - warm.lower <= 1e-9 * warm.upper
    assert warm.upper == pytest.approx(cold.upper, rel=1e-9)


def test_appending_evaluates_the_new_event_alone(monkeypatch):
    forget()
    acc.epsilon(SCHEDULE, 1e-6)
    asked = []
    evaluate = trapezoid._evaluate
    monkeypatch.setattr(
        trapezoid,
        "_evaluate",
        lambda kind, wanted, *rest: asked.extend(wanted) or evaluate(kind, wanted, *rest),
    )
    acc.epsilon(SCHEDULE + acc.Gaussian(300), 1e-6)
    assert asked == []
    acc.epsilon(SCHEDULE + acc.PoissonSampled("0.01", acc.Gaussian(50)), 1e-6)
    assert {row.sigma for row in asked} == {50.0}


def events(random):
    """One event of a growing plan; some repeat what is there."""
    q, sigma = random.choice(["0.01", "0.002", "0.05"]), Fraction(random.randrange(8, 40), 10)
    return random.choice(
        [
            acc.PoissonSampled(q, acc.Gaussian(sigma)) * random.choice([1, 20, 200]),
            acc.PoissonSampled("0.01", acc.Gaussian(1)) * random.choice([1, 50]),
            acc.Gaussian(sigma * 5),
            acc.Laplace(sigma * 20) * random.choice([1, 3]),
            acc.Pure("0.01"),
        ]
    )


@pytest.mark.parametrize("seed", mark_rest(range(12), quick=2))
def test_plans_that_grow_agree_with_the_same_plans_from_cold(seed):
    random = Random(seed)
    plan, delta = SCHEDULE, random.choice([1e-5, 1e-9])
    for _ in range(8):
        plan = plan + events(random)
        warm, warm_delta = acc.epsilon(plan, delta), acc.delta(plan, 1)
        if random.random() < 0.4:
            acc.epsilon(plan, 1e-4)  # another goal in between
        kept = dict(growth._kept)
        forget()
        cold, cold_delta = acc.epsilon(plan, delta), acc.delta(plan, 1)
        ways = [acc.epsilon(plan, delta, direction=way) for way in ("remove", "add")]
        growth._kept.clear()
        growth._kept.update(kept)
        for one, other in ((warm, cold), (warm_delta, cold_delta)):
            assert max(one.lower, other.lower) <= min(one.upper, other.upper)
            assert one.upper - one.lower <= 3 * (other.upper - other.lower) + 2e-12 * one.upper
        # a direction that was dismissed is not the larger one
        assert max(way.lower for way in ways) <= warm.upper and warm.lower <= max(
            way.upper for way in ways
        )


def test_a_contour_that_misses_an_event_is_caught(monkeypatch):
    # planted bug: the kept contour answers for a plan with more events than it holds
    forget()
    acc.epsilon(SCHEDULE, 1e-6)
    more = SCHEDULE + acc.PoissonSampled("0.01", acc.Gaussian(1)) * 100
    monkeypatch.setattr(growth, "_more", lambda new, old, most=0: [])
    wrong = acc.epsilon(more, 1e-6)
    monkeypatch.undo()
    forget()
    assert wrong.upper < acc.epsilon(more, 1e-6).lower


@pytest.mark.parametrize(
    ("q", "sigma"), [(0.01, 1.0), (0.1, 0.5), (0.001, 4.0), (0.05, 0.9), (1e-5, 0.3)]
)
@pytest.mark.parametrize("c", mark_rest([16.0, 0.5, 4.0, 90.0, 700.0], quick=1))
def test_the_closed_bound_of_the_transform_lies_above_it(q, sigma, c):
    factor = SampledGaussianFactor("add", Fraction(q), Fraction(sigma), 7)
    with mpmath.workdps(30):
        r = lambda y: 1 - mpmath.mpf(q) + q * mpmath.exp((2 * y - 1) / (2 * mpmath.mpf(sigma) ** 2))
        places = [x * sigma for x in range(-12, 13, 2)]
        density = lambda y: mpmath.npdf(y, 0, sigma)
        places = sorted({*places, *(-c + x * sigma for x in (-8, -4, 0, 4, 8))})
        true = 7 * mpmath.log(mpmath.quad(lambda y: density(y) * r(y) ** -c, places))
    assert factor.level_bound(c) >= true * (1 - mpmath.mpf(10) ** -11)
    assert SampledGaussianFactor("remove", Fraction(q), Fraction(sigma), 7).level_bound(c) == float(
        "inf"
    )


@pytest.mark.parametrize("kind", ["remove", "add", "swap"])
@pytest.mark.parametrize(
    ("q", "sigma", "c", "pitch"),
    [(0.01, 1.1, 4.0, 0.4), (0.2, 0.7, 2.0, 0.05), (1e-4, 5.0, 9.0, 3.0)],
)
def test_long_panels_agree_with_short_ones(kind, q, sigma, c, pitch):
    row = QuadratureRow(q, sigma, sigma * sigma, c, -48, 8)
    nodes = np.arange(200) * pitch
    forget()
    long, long_error = rows(kind, [row], nodes)
    for start in (0, 63, 150):
        some = nodes[start : start + 20] if start else nodes[:20]
        forget()
        short, short_error = rows(kind, [row], some)
        gap = np.abs(np.exp(long[0, start : start + 20] - short[0]) - 1)
        assert np.all(gap <= long_error[0, start : start + 20] + short_error[0] + 1e-15)
    assert float(np.max(long_error)) < 1e-9


@pytest.mark.parametrize("far", [0.0, 0.3, 0.6, 1.5, 3.0])
def test_a_contour_is_sound_far_from_where_it_was_built(far):
    # its aliases may be larger than one there: a lower end once gave back one at most, and stood
    # above the truth
    laws = [
        SampledGaussianFactor("add", Fraction(1, 100), Fraction(1), 2000),
        GaussianFactor(Fraction(1, 32)),
    ]
    built = Contour.build(laws, log_delta=-30.0)
    extended = built.extended([GaussianFactor(Fraction(1, 4))], built.near_epsilon)
    truth = Contour.build([*laws, GaussianFactor(Fraction(1, 4))], epsilon=far).delta(far)
    found = extended.delta(far)
    assert truth.upper - truth.lower <= 1e-6 * truth.upper
    assert found.lower <= truth.upper and truth.lower <= found.upper
