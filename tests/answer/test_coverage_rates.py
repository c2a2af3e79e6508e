"""Intervals hold the exact answer as often as they say: closed forms where there are some,
repetitions everywhere."""

from __future__ import annotations

import math
from fractions import Fraction as F

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import binom, norm

from dither.answer import draws
from dither.answer.draws import make_noise_law
from dither.answer.evaluate import FormulaInputs, evaluate
from dither.answer.intervals import compute_interval, find_affine_half, read_level
from dither.answer.noises import Noises
from dither.answer.sums import find_sum_bound
from dither.errors import ParameterError
from dither.laws import GaussianErrorLaw, LaplaceErrorLaw
from dither.privacy import noise
from dither.question.expressions import Apply, Constant, Noisy
from dither.question.recipe import Atom
from dither.question.shapes import affine, ratio
from tests.case_lists import mark_rest


def apply(name, *arguments):
    return Apply(name, arguments)


def number(value):
    return Constant(F(value))


N, X, XX, Y, XY, YY = map(Noisy, range(6))
SPREAD_X = apply("subtract", XX, apply("divide", apply("multiply", X, X), N))
SPREAD_Y = apply("subtract", YY, apply("divide", apply("multiply", Y, Y), N))
BOTH = apply("subtract", XY, apply("divide", apply("multiply", X, Y), N))
VARIANCE = apply("divide", SPREAD_X, apply("subtract", N, number(1)))
FORMULAS = {
    "count": N,
    "sum": X,
    "difference": apply("subtract", X, Y),
    "average": apply("divide", X, N),
    "percent": apply("multiply", number(100), apply("divide", X, apply("nullif", Y, number(0)))),
    "centred": apply(
        "add",
        number(50),
        apply("divide", apply("subtract", X, apply("multiply", number(50), N)), N),
    ),
    "rounded": apply("round", apply("divide", X, N), number(1)),
    "variance": VARIANCE,
    "deviation": apply("sqrt", VARIANCE),
    "slope": apply("divide", BOTH, SPREAD_X),
    "correlation": apply("divide", BOTH, apply("sqrt", apply("multiply", SPREAD_X, SPREAD_Y))),
    "case": apply("case", apply("gt", N, number(10)), apply("divide", X, N), Constant(None)),
}
DRAWN = {"variance", "deviation", "slope", "correlation"}
LARGEST = (1, 100, 10_000, 100, 10_000, 10_000)


def cell(size: int) -> tuple[int, ...]:
    """The six sums of a group: x in 0..99, y related to it."""
    x = [(37 * i + i * i) % 100 for i in range(size)]
    y = [min(100, each // 2 + (13 * i) % 50) for i, each in enumerate(x)]
    pairs = list(zip(x, y, strict=True))
    return (
        size,
        sum(x),
        sum(a * a for a in x),
        sum(y),
        sum(a * b for a, b in pairs),
        sum(b * b for b in y),
    )


def laws(family: str):
    if family == "laplace":
        return [LaplaceErrorLaw(F(6 * largest)) for largest in LARGEST]
    return [GaussianErrorLaw(F(5 * largest)) for largest in LARGEST]


def noises_for(errors):
    return Noises(
        tuple(Atom("x") for _ in errors),
        tuple(map(make_noise_law, errors)),
        tuple((i, 0) for i in range(len(errors))),
    )


def released(exact, errors, repetitions):
    """Real noise from the real samplers."""
    columns = []
    for value, error in zip(exact, errors, strict=True):
        draw = (
            noise.discrete_laplace
            if isinstance(error, LaplaceErrorLaw)
            else noise.discrete_gaussian
        )
        scale = error.scale if isinstance(error, LaplaceErrorLaw) else error.sigma
        columns.append((value + draw(scale, repetitions)).astype(np.float64))
    return FormulaInputs(tuple(columns), {}, {})


def covered(formula, exact, at, noises, level) -> int:
    truth = np.ravel(
        evaluate(formula, FormulaInputs(tuple(np.array([float(v)]) for v in exact), {}, {}))
    )[0]
    low, high = compute_interval(formula, at, noises, level)
    misses = (truth < low - 1e-9 * abs(truth)) | (
        truth > high + 1e-9 * abs(truth)
    )  # NaN is no bound
    return int((~misses).sum())


@pytest.mark.parametrize("family", mark_rest(["laplace", "gaussian"], quick=1))
@pytest.mark.parametrize("name", FORMULAS)
def test_coverage_at_small_and_realistic_sizes(name, family):
    """At 90 %; false alarm below 1e-9 for each size (exact binomial), 600 repetitions or 3,000."""
    repetitions = 600 if name in DRAWN else 3000
    for size in (6, 40, 2000) if name not in DRAWN or family == "laplace" else (40,):
        exact, errors = cell(size), laws(family)
        at = released(exact, errors, repetitions)
        found = covered(FORMULAS[name], exact, at, noises_for(errors), F(9, 10))
        assert found >= binom.ppf(1e-9, repetitions, 0.9), (name, family, size, found / repetitions)


@pytest.mark.parametrize("family", mark_rest(["laplace", "gaussian"], quick=1))
def test_ends_are_not_just_far_away(family):
    """In a large group intervals of every formula are finite, and miss nearly as often as they
    may."""
    exact, errors = cell(20_000), laws(family)
    for name, formula in FORMULAS.items():
        repetitions = 600 if name in DRAWN else 3000
        at = released(exact, errors, repetitions)
        low, high = compute_interval(formula, at, noises_for(errors), F(9, 10))
        assert np.isfinite(low).all() and np.isfinite(high).all()
        if name not in ("count", "rounded"):  # whole numbers cover more than they must
            found = covered(formula, exact, at, noises_for(errors), F(9, 10))
            assert found <= binom.isf(1e-9, repetitions, 0.92), (name, found / repetitions)


def test_planted_half_the_noise_is_caught():
    """The test above fails for intervals that think the noise is half as large."""
    exact, errors = cell(2000), laws("laplace")
    too_small = noises_for([LaplaceErrorLaw(error.scale / 2) for error in errors])
    for name in ("count", "average", "variance"):
        at = released(exact, errors, 3000 if name != "variance" else 600)
        found = covered(FORMULAS[name], exact, at, too_small, F(9, 10))
        assert found < binom.ppf(1e-9, len(at.atoms[0]), 0.9)


def test_planted_an_average_whose_count_is_taken_as_exact_is_caught():
    """(sum ± half-width) / count forgets the noise of the count: far too narrow where the mean is
    near its bound."""
    exact, errors = (2000, 196_000), laws("laplace")[:2]
    at = released(exact, errors, 3000)
    half = make_noise_law(errors[1]).half_width(F(9, 10)) / at.atoms[0]
    forgetful = (np.abs(at.atoms[1] / at.atoms[0] - 98) <= half).sum()
    ours = covered(FORMULAS["average"], exact, at, noises_for(errors), F(9, 10))
    assert forgetful < binom.ppf(1e-9, 3000, 0.9) <= ours


def test_sums_of_laplace_noise_against_the_closed_form():
    """P(|b1 L + b2 L'| > x) = (b1^2 e^(-x/b1) - b2^2 e^(-x/b2)) / (b1^2 - b2^2) for continuous
    Laplace noise."""
    b1, b2 = 5000.0, 2000.0
    tail = lambda x: (b1**2 * math.exp(-x / b1) - b2**2 * math.exp(-x / b2)) / (b1**2 - b2**2)
    noises = noises_for([LaplaceErrorLaw(F(5000)), LaplaceErrorLaw(F(2000))])
    for level in (F(1, 2), F(9, 10), F(99, 100), F(999, 1000)):
        exact = brentq(lambda x, level=level: tail(x) - float(1 - level), 0, 200_000)
        half = find_affine_half(affine(apply("subtract", Noisy(0), Noisy(1))), noises, level)
        assert exact * 0.99 <= half <= exact * 1.04


def test_ratios_of_gaussian_noise_against_fiellers_closed_form():
    """With normal noise the ends are the roots of (N - r D)^2 = z^2 (s^2 + r^2 t^2)."""
    s, t, n, d = 3000.0, 500.0, 41_000.0, 9_000.0
    z = norm.ppf(0.975)
    roots = np.roots([d**2 - z**2 * t**2, -2 * n * d, n**2 - z**2 * s**2])
    noises = noises_for([GaussianErrorLaw(F(3000)), GaussianErrorLaw(F(500))])
    at = FormulaInputs((np.array([n]), np.array([d])), {}, {})
    low, high = compute_interval(apply("divide", Noisy(0), Noisy(1)), at, noises, F(95, 100))
    assert low[0] == pytest.approx(min(roots), rel=0.01) and high[0] == pytest.approx(
        max(roots), rel=0.01
    )


def test_a_denominator_that_may_be_zero_gives_no_bound():
    noises = noises_for([LaplaceErrorLaw(F(100)), LaplaceErrorLaw(F(10))])
    at = FormulaInputs((np.array([500.0, 500.0]), np.array([12.0, 400.0])), {}, {})
    low, high = compute_interval(apply("divide", Noisy(0), Noisy(1)), at, noises, F(95, 100))
    assert np.isnan([low[0], high[0]]).all() and np.isfinite([low[1], high[1]]).all()


@pytest.mark.all
def test_intervals_are_the_same_every_time_and_nest():
    noises = noises_for(laws("laplace"))
    at = FormulaInputs(tuple(np.array([float(v)]) for v in cell(500)), {}, {})
    for formula in FORMULAS.values():
        ends = [
            compute_interval(formula, at, noises, F(level, 1000))
            for level in (500, 800, 900, 950, 990)
        ]
        again = [
            compute_interval(formula, at, noises, F(level, 1000))
            for level in (500, 800, 900, 950, 990)
        ]
        assert all(np.array_equal(a, b, equal_nan=True) for a, b in zip(ends, again, strict=True))
        lows = [-np.inf if np.isnan(low[0]) else low[0] for low, _ in ends]
        assert lows == sorted(lows, reverse=True)


def test_the_same_released_number_twice_is_one_noise():
    """Two atoms at one place: their difference has no noise at all."""
    error = make_noise_law(LaplaceErrorLaw(F(10)))
    noises = Noises((Atom("a"), Atom("a")), (error, error), ((0, 0), (0, 0)))
    assert find_affine_half(affine(apply("subtract", Noisy(0), Noisy(1))), noises, F(95, 100)) == 0


ERRORS = [
    LaplaceErrorLaw(F(1, 2)),
    LaplaceErrorLaw(F(20)),
    GaussianErrorLaw(F(3)),
    GaussianErrorLaw(F(500)),
]


@pytest.mark.parametrize("error", ERRORS)
def test_points_follow_the_law(error):
    """Shares of the points against the exact distribution function, to 2 / sqrt(points) and far
    better in practice."""
    found = draws.draw_noise((make_noise_law(error), make_noise_law(error)), 8192)
    for column in (0, 1):
        for z in (-3, -1, 0, 1, 5, 30):
            below = sum(error.pmf(k) for k in range(z - 4000, z + 1))
            assert abs((found[:, column] <= z).mean() - below) < 2e-3
    assert (
        draws.count_points(1 - 1e-9, 1)
        == draws.count_points(1.0, 1)
        == draws.count_block_points(1 - 1e-9, 1)
        == draws.count_block_points(1 - 1e-6, 100)
        == 0
    )


def test_sums_of_many_noises_against_direct_convolution():
    """Laws by their mass functions, convolved term by term in float64 without FFT; never below,
    seldom above."""
    for errors in (
        [LaplaceErrorLaw(F(1, 2))] * 9,
        [GaussianErrorLaw(F(3)), LaplaceErrorLaw(F(4)), GaussianErrorLaw(F(90))] * 3,
    ):
        law, places = np.ones(1), 0
        for error in errors:
            reach = error.interval(1 - F(1, 10**14))
            law = np.convolve(law, [error.pmf(z) for z in range(-reach, reach + 1)])
            places += reach
        for miss in (F(1, 10), F(1, 1000), F(1, 10**6), F(1, 10**7)):
            inside = np.cumsum(np.append(law[places], law[places + 1 :] + law[places - 1 :: -1]))
            exact = int(np.argmax(inside >= 1 - float(miss)))
            found = find_sum_bound(tuple(map(make_noise_law, errors)), (1.0,) * 9, 1 - miss)
            assert exact <= found <= exact * 1.01 + 1


@pytest.mark.parametrize("level", [1 - F(1, 10**6), 1 - F(1, 10**7)])
def test_levels_beyond_the_points_against_the_closed_form(level):
    b1, b2 = 5000.0, 2000.0
    tail = lambda x: (b1**2 * math.exp(-x / b1) - b2**2 * math.exp(-x / b2)) / (b1**2 - b2**2)
    exact = brentq(lambda x: tail(x) - float(1 - level), 0, 400_000)
    noises = noises_for([LaplaceErrorLaw(F(5000)), LaplaceErrorLaw(F(2000))])
    half = find_affine_half(affine(apply("subtract", Noisy(0), Noisy(1))), noises, level)
    assert (
        exact <= half * (1 + 1e-3) and half <= exact * 1.01
    )  # the continuous law, to a step of the integers


def test_ratios_beyond_the_points_against_fiellers_closed_form():
    s, t, n, d = 3000.0, 500.0, 41_000.0, 9_000.0
    z = norm.isf(5e-7)
    roots = np.roots([d**2 - z**2 * t**2, -2 * n * d, n**2 - z**2 * s**2])
    noises = noises_for([GaussianErrorLaw(F(3000)), GaussianErrorLaw(F(500))])
    at = FormulaInputs((np.array([n]), np.array([d])), {}, {})
    low, high = compute_interval(apply("divide", Noisy(0), Noisy(1)), at, noises, 1 - F(1, 10**6))
    assert low[0] <= min(roots) + 1e-3 and high[0] >= max(roots) - 1e-3
    assert low[0] == pytest.approx(min(roots), rel=0.02) and high[0] == pytest.approx(
        max(roots), rel=0.02
    )


def test_blocks_are_the_same_points():
    """A block after the first holds the points that follow, and tails kept over blocks are those of
    all at once."""
    law = (make_noise_law(LaplaceErrorLaw(F(6))), make_noise_law(GaussianErrorLaw(F(40))))
    whole = draws.draw_noise(law, 4096)
    parts = [draws.draw_noise(law, 1024, start) for start in range(0, 4096, 1024)]
    assert sorted(map(tuple, whole)) == sorted(map(tuple, np.concatenate(parts)))


def test_any_formula_beyond_a_million_points():
    """A variance at 1 - 2e-5: two million points in blocks. It holds what a normal approximation
    says, and has ends."""
    errors = laws("gaussian")
    noises, exact = noises_for(errors), cell(20_000)
    at = FormulaInputs(tuple(np.array([float(v)]) for v in exact), {}, {})
    half = {}
    for level in (F(95, 100), 1 - F(2, 10**5)):
        low, high = compute_interval(FORMULAS["variance"], at, noises, level)
        half[level] = (high[0] - low[0]) / 2
    expected = norm.isf(1e-5) / norm.isf(0.025)
    assert half[1 - F(2, 10**5)] / half[F(95, 100)] == pytest.approx(expected, rel=0.05)


@pytest.mark.parametrize("family", ["laplace", "gaussian"])
def test_a_sum_of_forty_noises_covers(family):
    """Repetitions at 90 %, 3,000 of each; false alarm below 1e-9, and not just wide."""
    errors = [laws(family)[i % 6] for i in range(40)]
    at = released((7,) * 40, errors, 3000)
    formula = apply(
        "add", *(apply("multiply", number(F(1, LARGEST[i % 6])), Noisy(i)) for i in range(40))
    )
    found = covered(formula, (7,) * 40, at, noises_for(errors), F(9, 10))
    assert binom.ppf(1e-9, 3000, 0.9) <= found <= binom.isf(1e-9, 3000, 0.92)


def test_shapes():
    assert ratio(FORMULAS["percent"]) is not None and ratio(FORMULAS["variance"]) is None
    assert affine(apply("multiply", N, X)) is None
    assert affine(apply("divide", apply("add", N, X), number(4))).weights == (
        (0, F(1, 4)),
        (1, F(1, 4)),
    )


@pytest.mark.parametrize("level", [0, 1, "x", 2, -1, True])
def test_levels(level):
    with pytest.raises(ParameterError):
        read_level(level)
