"""Sensitivities: exact, and in agreement with each other."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dither import ParameterError
from dither.plan.norms import Sensitivity


def norms(change):
    sizes = [abs(x) for x in change]
    return sum(x > 0 for x in sizes), sum(sizes), sum(x * x for x in sizes), max(sizes)


CHANGES = [norms(change) for change in product(range(4), repeat=4)]


@settings(max_examples=200)
@given(st.integers(0, 5), st.integers(0, 9), st.integers(0, 20), st.integers(0, 4))
def test_bounds_that_are_drawn_from_others_still_hold_for_every_change(l0, l1, l2_squared, linf):
    given_bounds = (l0, l1, l2_squared, linf)
    s = Sensitivity(*given_bounds)
    drawn = (s.l0, s.l1, s.l2_squared, s.linf)
    assert all(new <= old for new, old in zip(drawn, given_bounds, strict=True))
    for change in CHANGES:
        if all(x <= bound for x, bound in zip(change, given_bounds, strict=True)):
            assert all(x <= bound for x, bound in zip(change, drawn, strict=True))


@given(st.integers(0, 50), st.integers(0, 50), st.integers(0, 3000), st.integers(0, 50))
def test_all_four_bounds_agree(l0, l1, l2_squared, linf):
    s = Sensitivity(l0, l1, l2_squared, linf)
    assert (
        s.l1 <= s.l0 * s.linf and s.l2_squared <= s.l1 * s.linf and s.linf <= s.l1 and s.l0 <= s.l1
    )
    if (
        s.l0 == 1
    ):  # a single cell: every norm says the same, so no calibration can charge more than was asked
        assert s.l1 == s.linf and s.l2_squared == s.linf**2


def test_rational_bounds_on_integers_are_floored():
    assert Sensitivity.of(cells=2, largest=Fraction(7, 2)) == Sensitivity.of(cells=2, largest=3)
    assert Sensitivity(2, Fraction(9, 2), 9, 3).l1 == 4


@pytest.mark.parametrize(
    "build",
    [
        lambda: Sensitivity.of(largest=1.0),
        lambda: Sensitivity.of(cells=2.0),
        lambda: Sensitivity.of(largest=True),
        lambda: Sensitivity.of(largest=-1),
        lambda: Sensitivity.of(cells=-1),
        lambda: Sensitivity.of(l1=0.5),
        lambda: Sensitivity.of(largest="1"),
        lambda: Sensitivity(1, 1, 1, 1.0),
        lambda: Sensitivity(1, 1, 1, float("nan")),
        lambda: Sensitivity(-1, 1, 1, 1),
    ],
)
def test_inexact_and_negative_sensitivities_are_refused(build):
    with pytest.raises(ParameterError, match="sensitivity"):
        build()
