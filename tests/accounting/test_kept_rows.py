"""What is kept from earlier workloads changes nothing but the time; long panels agree with short ones."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from dither import accounting as acc
from dither.privacy.accounting import trapezoid
from dither.privacy.accounting.growth import forget
from dither.privacy.accounting.trapezoid import Row, rows

SCHEDULE = acc.compose(*(acc.PoissonSampled("0.01", acc.Gaussian(Fraction(10 + i, 10))) * 100 for i in range(6)))
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
        trapezoid, "_evaluate", lambda kind, wanted, *rest: asked.extend(wanted) or evaluate(kind, wanted, *rest)
    )
    acc.epsilon(SCHEDULE + acc.Gaussian(300), 1e-6)
    assert asked == []
    acc.epsilon(SCHEDULE + acc.PoissonSampled("0.01", acc.Gaussian(50)), 1e-6)
    assert {row.sigma for row in asked} == {50.0}


@pytest.mark.parametrize("kind", ["remove", "add", "swap"])
@pytest.mark.parametrize(
    ("q", "sigma", "c", "pitch"), [(0.01, 1.1, 4.0, 0.4), (0.2, 0.7, 2.0, 0.05), (1e-4, 5.0, 9.0, 3.0)]
)
def test_long_panels_agree_with_short_ones(kind, q, sigma, c, pitch):
    row = Row(q, sigma, sigma * sigma, c, -48, 8)
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
