"""Intervals of functions that turn round: squares, remainders, equality of conditions, REGR_R2.

The noise is fixed, as in `test_chosen_values.py`, so every count is exact and no run differs from
another. Points around the released numbers missed every exact value at an extremum: none of 1,468
squares of an exact 0 had an interval with 0.
"""

from __future__ import annotations

from fractions import Fraction as F

import numpy as np
import pytest

from dither.answer import interval_arithmetic as arithmetic
from dither.answer.draws import make_noise_law
from dither.answer.evaluate import FormulaInputs, evaluate
from dither.answer.intervals import compute_interval
from dither.answer.noises import Noises
from dither.answer.result import make_result
from dither.laws import LaplaceErrorLaw
from dither.question.expressions import Constant
from dither.question.recipe import Atom, Output
from tests.answer import handmade
from tests.answer import test_coverage_rates as rates
from tests.answer.handmade import COUNT, TOTAL, VALUES, apply, number
from tests.answer.test_chosen_values import CELLS, INFO, LEVEL, held, release

DIFFERENCE = apply("subtract", COUNT, VALUES)


def truncate(value):
    return apply("multiply", apply("sign", value), apply("floor", apply("abs", value)))


def remainder(left, right):
    """As the SQL binder writes `left % right`."""
    return apply("subtract", left, apply("multiply", right, truncate(apply("divide", left, right))))


def count_held(formula, exact_cell: int, exact_value: float) -> tuple[int, int]:
    recipe = handmade.by_ward(Output("x", formula, "value"), keys=("day", "ward"))
    return held(make_result(release(exact_cell), recipe, LEVEL, INFO), exact_value)


AT_EXTREMA = {
    "an even power": (apply("power", COUNT, number(2)), 0, 0),
    "an even power around a number": (
        apply("power", apply("subtract", COUNT, number(100)), number(2)),
        100,
        0,
    ),
    "a product of equal factors": (apply("multiply", COUNT, COUNT), 0, 0),
    "a remainder at a multiple": (remainder(COUNT, number(1000)), 1000, 0),
    "a remainder at a higher multiple": (remainder(COUNT, number(1000)), 3000, 0),
    "equality of conditions": (
        apply("eq", apply("gt", COUNT, number(3)), apply("gt", COUNT, number(5))),
        5,
        False,
    ),
    "a whole quotient": (truncate(apply("divide", COUNT, number(7))), 14, 2),
    "a sum of squares": (
        apply("add", apply("multiply", COUNT, COUNT), apply("multiply", VALUES, VALUES)),
        0,
        0,
    ),
}


@pytest.mark.parametrize("name", AT_EXTREMA)
def test_functions_that_turn_round_are_covered_at_their_extrema(name):
    hits, shown = count_held(*AT_EXTREMA[name])
    assert shown == CELLS and hits >= float(LEVEL) * shown, (hits, shown)


@pytest.mark.parametrize("root", [False, True])
def test_the_square_of_a_difference_is_covered_as_often_as_the_difference(root):
    square = apply("multiply", DIFFERENCE, DIFFERENCE)
    square_hits = count_held(apply("sqrt", square) if root else square, 100, 0)
    assert square_hits == count_held(DIFFERENCE, 100, 0)
    assert square_hits[0] > 0.93 * CELLS  # two fixed noises, in pairs that chance made


def test_a_square_lies_between_the_squares_of_the_ends():
    recipe = handmade.by_ward(
        Output("x", COUNT, "value"),
        Output("y", apply("power", COUNT, number(2)), "value"),
        keys=("day", "ward"),
    )
    table = make_result(release(1000), recipe, LEVEL, INFO).to_dict()
    rows = zip(*(table[name] for name in ("x_low", "x_high", "y_low", "y_high")), strict=True)
    assert all(
        (low**2, high**2) == (square_low, square_high)
        for low, high, square_low, square_high in rows
    )


def fixed_release(exact, errors, repetitions: int) -> FormulaInputs:
    """Every number with the quantiles of its own law, in an order of its own."""
    shares = (np.arange(repetitions) + 0.5) / repetitions
    columns = []
    for seed, (value, error) in enumerate(zip(exact, errors, strict=True)):
        noise = make_noise_law(error).inverse(shares)
        columns.append(value + np.random.default_rng(seed).permutation(noise))
    return FormulaInputs(tuple(columns), {}, {})


def test_the_coefficient_of_determination_is_covered_where_nothing_is_correlated():
    """Nominal 90 %; the square of the correlation's interval, which holds 0 as often as that
    does."""
    squares = apply("multiply", rates.BOTH, rates.BOTH)
    determination = apply("divide", squares, apply("multiply", rates.SPREAD_X, rates.SPREAD_Y))
    exact = (2000, 100_000, 7_000_000, 100_000, 5_000_000, 7_000_000)
    errors = rates.laws("laplace")
    given, noises = fixed_release(exact, errors, 300), rates.noises_for(errors)
    by_correlation = compute_interval(rates.FORMULAS["correlation"], given, noises, F(9, 10))
    low, high = compute_interval(determination, given, noises, F(9, 10))
    assert np.isfinite(low).all() and np.isfinite(high).all()
    np.testing.assert_array_equal(low <= 0, (by_correlation[0] <= 0) & (by_correlation[1] >= 0))
    assert (low <= 0).mean() >= 0.87


def test_a_sum_less_a_square_is_covered_where_the_square_makes_the_noise():
    """It is written as a variance is, but its first number has next to no noise: points around it
    missed."""
    formula = apply("subtract", TOTAL, apply("divide", apply("multiply", COUNT, COUNT), VALUES))
    errors = [LaplaceErrorLaw(F(40)), LaplaceErrorLaw(F(1, 10)), LaplaceErrorLaw(F(1))]
    noises = Noises((Atom("x"),) * 3, tuple(map(make_noise_law, errors)), ((0, 0), (1, 0), (2, 0)))
    low, high = compute_interval(
        formula, fixed_release((0, 50, 100), errors, 400), noises, F(9, 10)
    )
    assert ((low <= 50) & (high >= 50)).mean() >= 0.9


RANGES = [(-7.5, -2.5), (-3.0, 4.0), (0.0, 2.0), (1.5, 9.0), (998.0, 1003.0)]
MAPPED = {
    **{f"power {p}": apply("power", COUNT, number(p)) for p in (0, 1, 2, 3, -1, -2)},
    "root": apply("power", COUNT, Constant(F(1, 2))),
    "remainder": remainder(COUNT, number(5)),
    "remainder of a negative divisor": remainder(COUNT, number(-5)),
    "truncated": truncate(COUNT),
    "exponential": apply("power", number(F(1, 2)), COUNT),
    "product": apply("multiply", COUNT, apply("subtract", COUNT, number(1))),
    "quotient": apply("divide", COUNT, apply("exp", COUNT)),
}


@pytest.mark.parametrize("name", MAPPED)
def test_every_value_between_the_inner_ends_lies_between_the_outer_ones(name, monkeypatch):
    """Against the formula itself at 1,001 points of each range."""
    for low, high in RANGES:
        middle = (low + high) / 2
        monkeypatch.setattr(
            "dither.answer.intervals.find_affine_half", lambda *_, half=high - middle: half
        )
        noises = rates.noises_for([LaplaceErrorLaw(F(1))])
        outer_low, outer_high = compute_interval(
            MAPPED[name], FormulaInputs((np.array([middle]),), {}, {}), noises, LEVEL
        )
        values = evaluate(MAPPED[name], FormulaInputs((np.linspace(low, high, 1001),), {}, {}))
        values = values[np.isfinite(values)]
        room = 1e-9 * np.abs(values).max(initial=1.0)
        assert not (values < outer_low - room).any() and not (values > outer_high + room).any()


def test_what_has_no_bound_multiplied_by_nothing_is_nothing():
    low, high = arithmetic.multiply_ends((np.zeros(1), np.zeros(1)), arithmetic.no_ends())
    assert (low[0], high[0]) == (0, 0)
