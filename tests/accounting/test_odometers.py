"""Readings that may be taken at any time: above the filter's, exact, and true for an adversary who
stops at will."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

from dither import accounting as acc
from dither.accounting.odometers import _lines
from dither.errors import BudgetError, ParameterError

F = Fraction
DELTA = F(1, 10**6)


@pytest.mark.parametrize("steps", [1, 10, 1000, 50_000])
def test_a_reading_is_above_the_cap_of_a_filter_and_not_far(steps):
    meter = acc.ZcdpOdometer(delta=DELTA).add(acc.DiscreteGaussian(10, 1) * steps)
    filtered, _ = acc.guarantee(acc.ZcdpRule(meter.rho, F(0)), DELTA)
    reading = meter.reading()
    assert filtered < reading.epsilon < 1.6 * filtered + 0.1
    assert reading.delta == DELTA


def test_readings_grow_and_sums_are_exact():
    meter, before = acc.ZcdpOdometer(delta=DELTA), F(0)
    for _ in range(50):
        meter = meter.add(acc.ZCDP("0.001"))
        assert meter.reading().epsilon > before
        before = meter.reading().epsilon
    assert meter.rho == F(50, 1000)
    once = acc.ZcdpOdometer(delta=DELTA).add(acc.ZCDP("0.05"))
    assert once.reading() == meter.reading()


def test_the_shares_of_delta_sum_to_less_than_delta():
    shares = sum(DELTA / ((k + 1) * (k + 2)) for k in range(len(_lines(DELTA, F(1, 1024)))))
    assert shares < DELTA
    for k, (t, log) in enumerate(_lines(DELTA, F(1, 1024))):
        assert t > 0 and float(log) >= math.log((k + 1) * (k + 2) / DELTA) * (1 - 1e-15)


def test_one_order_reads_at_all_times():
    meter = acc.RenyiOdometer(F(8), DELTA)
    for _ in range(100):
        meter = meter.add(acc.PoissonSampled(0.01, acc.Gaussian(1.1)))
    assert float(meter.reading().epsilon) == pytest.approx(
        100 * 5.84070335520251e-4 + 6 * math.log(10) / 7, rel=1e-9
    )
    with pytest.raises(ParameterError, match="order"):
        acc.RenyiOdometer(F(1), DELTA)


def test_selection_deltas_stay_below_their_cap():
    meter = acc.ZcdpOdometer(delta=DELTA, delta_selection=F(1, 10**7)).add(acc.Approx(0.1, 1e-7))
    assert meter.reading().delta == DELTA + F(1, 10**7)
    with pytest.raises(BudgetError, match="sum of deltas"):
        meter.add(acc.Approx(0.1, 1e-12))


def hitting(steps, rho, boundary):
    """P(the loss of a Gaussian walk, N(rho, 2 rho) each step, ever lies above the boundary), on a
    fine grid."""
    import numpy as np

    pitch = math.sqrt(2 * rho) / 12
    cells = np.arange(-2_000, 2_001) * pitch
    kernel = np.exp(-((np.arange(-100, 101) * pitch - rho) ** 2) / (4 * rho))
    kernel /= kernel.sum()
    mass, dead = np.zeros(len(cells)), 0.0
    mass[2_000] = 1.0
    for n in range(1, steps + 1):
        mass = np.convolve(mass, kernel, mode="same")
        over = cells > boundary(n)
        dead += float(mass[over].sum())
        mass[over] = 0.0
    return dead


def test_an_adversary_who_stops_at_the_worst_moment():
    """Planted bug: reading the *filter's* conversion of the running rho at a moment chosen from the
    answers."""
    delta, rho, steps = F(1, 20), F(1, 200), 120
    one = acc.ZCDP(rho)

    def honest(n):
        return float(acc.ZcdpOdometer(delta=delta, first=F(1, 200)).add(one * n).reading().epsilon)

    def running(n):
        return float(n * rho) + math.sqrt(4 * float(n * rho) * math.log(1 / float(delta)))

    def tempting(
        n,
    ):  # exact for a time fixed in advance: P(Z > eps) = delta there, hence more over all times
        return float(n * rho) + 1.6448536269514722 * math.sqrt(2 * float(n * rho))

    assert hitting(steps, float(rho), honest) <= float(delta)
    assert hitting(steps, float(rho), tempting) > 2 * float(delta)
    assert hitting(steps, float(rho), running) < hitting(steps, float(rho), tempting)
