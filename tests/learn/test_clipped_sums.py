"""Sums of clipped rows: exact integers, bounded row by row, whatever rows stand beside them (rules
P15 and P37 of the review)."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import isqrt
from typing import Any

import numpy as np
import pytest

from dither.data.vectors.clip import clip_vectors
from dither.data.vectors.factors import list_exponentials as kernel_exponentials
from dither.data.vectors.factors import list_sigmoids as kernel_sigmoids
from dither.learn.clip import add_rows
from dither.learn.columns import FEATURE_SCALE, declare_columns
from dither.learn.encode import FeatureRows, encode_rows
from dither.learn.residuals import (
    FACTOR_SCALE,
    LARGEST_FACTOR,
    find_residuals,
    list_exponentials,
    list_sigmoids,
)
from dither.learn.sums import STEPS, bound_vectors, count_grid_steps, quantise_weights
from dither.plan import encodings, vector_functions
from dither.privacy.losses import Adjacency
from dither.privacy.mechanisms.rounded_gaussian import IntegerRoundedGaussian

FACTS = declare_columns(["a", "b", "c"], {"a": (-3, 7), "b": (0, 5000)}, {"c": "xyz"}, "auto")
LARGEST = 64 * FEATURE_SCALE
"""A coarse grid, on which rounding matters: a factor of at most 64 steps."""


def encode(rows: int, *, seed: int = 1) -> FeatureRows:
    draws = np.random.default_rng(seed)
    a = draws.normal(2, 5, rows)
    a[::7] = np.nan
    a[1::11] = np.inf
    b = draws.exponential(300, rows)
    return encode_rows(FACTS, [a, b, draws.choice(list("xyzw"), rows).astype(object)])


def make_factors(rows: int, outputs: int = 1, *, seed: int = 2) -> Any:
    draws = np.random.default_rng(seed)
    return np.rint(draws.standard_cauchy((outputs, rows)) * FACTOR_SCALE).clip(
        -LARGEST_FACTOR, LARGEST_FACTOR
    )


PER_STEP = LARGEST / (2 * FACTOR_SCALE * FEATURE_SCALE)


def list_single_sums(rows: FeatureRows, factors: Any, largest: int = LARGEST) -> list[Any]:
    return [
        add_rows(rows.slice(i, i + 1), factors[:, i : i + 1], PER_STEP, largest)
        for i in range(rows.size)
    ]


@pytest.mark.parametrize("outputs", [1, 3])
def test_no_row_adds_more_than_the_clip_norm_and_most_long_ones_nearly_that(outputs: int) -> None:
    rows = encode(400)
    sums = list_single_sums(rows, make_factors(400, outputs))
    squares = [int((vector.astype(object) ** 2).sum()) for vector in sums]
    assert max(squares) <= LARGEST**2
    # truncation costs each factor less than a step: so much times a row of at most 6 features
    lost = isqrt(6 * outputs) + 1
    assert sum(isqrt(square) > LARGEST - lost * FEATURE_SCALE for square in squares) > 100


def test_a_row_of_exactly_the_clip_norm_is_not_lost() -> None:
    """An intercept and three listed values: every row has the norm 2. All but 2**-18 of it stay."""
    facts = declare_columns(list("abc"), None, dict.fromkeys("abc", "xy"), None)
    rows = encode_rows(facts, [np.array(["x"] * 5, object)] * 3)
    largest = 1 << 32
    added = add_rows(rows, np.ones((1, 5)), largest / (2 * FEATURE_SCALE), largest)
    assert abs(added[0, 0] / (5 * largest / 2) - 1) < 2**-18
    assert int((added.astype(object) ** 2).sum()) <= 25 * largest**2


@pytest.mark.parametrize("outputs", [1, 3])
def test_a_row_adds_the_same_whatever_rows_stand_beside_it(outputs: int) -> None:
    """Sums are those of single rows, in every order and number: integers, so exactly."""
    rows = encode(200)
    factors = make_factors(200, outputs)
    singles = sum(list_single_sums(rows, factors))
    assert (add_rows(rows, factors, PER_STEP, LARGEST) == singles).all()
    order = np.random.default_rng(3).permutation(200)
    shuffled = FeatureRows(FACTS, rows.dense[:, order], rows.codes[:, order], rows.norms[order])
    assert (add_rows(shuffled, factors[:, order], PER_STEP, LARGEST) == singles).all()
    first = add_rows(rows.slice(0, 199), factors[:, :199], PER_STEP, LARGEST)
    assert (singles - first == list_single_sums(rows, factors)[-1]).all()


def test_sums_on_the_finest_grid_are_exact() -> None:
    """Oracle: Python's integers. 3,000 rows of up to 2**32 steps, in products of matrices whose
    order a library chooses; and without one row exactly that row is missing."""
    rows = encode(3000)
    factors = make_factors(3000, 2)
    largest = 1 << 32
    per_step = PER_STEP * largest / LARGEST
    singles = [
        add_rows(rows.slice(i, i + 1), factors[:, i : i + 1], per_step, largest)
        for i in range(3000)
    ]
    exact = sum(vector.astype(object) for vector in singles)
    assert (add_rows(rows.with_floats(), factors, per_step, largest) == exact).all()
    assert max((vector.astype(object) ** 2).sum() for vector in singles) <= largest**2
    kept = np.arange(3000) != 1234
    fewer = add_rows(rows.choose(np.flatnonzero(kept)), factors[:, kept], per_step, largest)
    assert (exact - fewer == singles[1234]).all()


def test_a_clipped_row_is_the_exact_one_but_for_a_step_of_its_factor() -> None:
    """Oracle: rational arithmetic on the same integers, with the norm as an exact square root."""
    rows = encode(60)
    factors = make_factors(60)
    features = np.rint(rows.expand() * FEATURE_SCALE).astype(int)
    for i, vector in enumerate(list_single_sums(rows, factors)):
        factor = Fraction(int(factors[0, i]))
        scale = Fraction(PER_STEP)
        square = sum(int(x) ** 2 for x in features[i]) * factor**2
        if square * scale**2 > LARGEST**2:
            root = Fraction(isqrt(int(square) * 10**30), 10**15)
            scale = LARGEST / root
        whole = int(factor * scale)
        assert vector[0].tolist() in [
            [(whole + off) * int(x) for x in features[i]] for off in (0, -1, 1)
        ]


@pytest.mark.parametrize("largest", [64 * FEATURE_SCALE, 1 << 24])
def test_vectors_are_those_of_the_kernel_but_for_a_step_of_the_factor(largest: int) -> None:
    """The kernel truncates the formed vector, this package the factor of a row."""
    rows = encode(300)
    factors = make_factors(300)
    per_step = PER_STEP * largest / LARGEST
    formed = np.rint(rows.expand().T * FEATURE_SCALE) * factors
    kernel = clip_vectors(formed, per_step, largest)
    ours = np.stack(
        [
            add_rows(rows.slice(i, i + 1), factors[:, i : i + 1], per_step, largest)[0]
            for i in range(300)
        ],
        axis=1,
    )
    assert np.abs(kernel - ours).max() <= FEATURE_SCALE + 1


def test_the_grid_is_as_fine_as_noise_can_be_drawn_for() -> None:
    """A step of a factor is 2**-20 of the clip norm where noise is below 32 clip norms."""
    for neighbours in ("add_remove", "replace"):
        adjacency = Adjacency(neighbours, "row")
        for rho in (Fraction(1), Fraction(1, 10**6), Fraction(1, 10**12)):
            steps = count_grid_steps(rho, adjacency)
            noise = IntegerRoundedGaussian.for_rho(
                rho, bound_vectors(steps**2, 3, adjacency), adjacency
            )
            assert steps == 1 << 32 or (2**36 < noise.sigma <= 2**37) or steps == STEPS
    assert count_grid_steps(Fraction(1, 2000), Adjacency("add_remove", "row")) == 1 << 32


def test_links_grids_and_scales_are_those_of_the_kernel() -> None:
    assert (list_sigmoids() == kernel_sigmoids()).all()
    assert (list_exponentials() == kernel_exponentials()).all()
    assert FEATURE_SCALE == encodings.FEATURE_SCALE
    assert FACTOR_SCALE == vector_functions.FACTOR_SCALE
    assert vector_functions.MOST_FACTOR == LARGEST_FACTOR
    assert quantise_weights(np.array([0.5, -1, 3.14159])).tolist() == [32768, -65536, 205887]
    assert vector_functions.THETA_SCALE == 65536


def test_missing_labels_have_no_residual_and_residuals_are_bounded() -> None:
    margins = np.array([[2.0**40, -(2.0**40), 0, 0, 5e8]])
    labels = np.array([0, 1, -1, 2, 1])
    for loss in ("logistic", "huber"):
        residuals = find_residuals(loss, margins.copy(), labels)
        assert residuals[0, 2] == residuals[0, 3] == 0
        assert np.abs(residuals).max() <= FACTOR_SCALE
    soft = find_residuals("multinomial", np.repeat(margins, 2, axis=0), labels)
    assert (soft[:, 2:4] == 0).all() and np.abs(soft).max() <= FACTOR_SCALE
    missing = np.array([np.nan, 1, 2, 3, 1e30])
    for loss in ("squared", "poisson"):
        residuals = find_residuals(loss, margins.copy(), missing)
        assert residuals[0, 0] == 0 and np.abs(residuals).max() <= LARGEST_FACTOR


# -- planted mistakes ------------------------------------------------------------------------------


def clip_the_batch(rows: FeatureRows, factors: Any, per_step: float, largest: int) -> Any:
    """Clips the sum, not each row."""
    total = (rows.expand().T * FEATURE_SCALE) @ (factors[0] * per_step)
    return np.trunc(total * min(1, largest / np.linalg.norm(total)))[None, :].astype(int)


def round_without_a_check(rows: FeatureRows, factors: Any, per_step: float, largest: int) -> Any:
    """Rounds factors to the nearest after shrinking, and never looks at the norm again."""
    lengths = np.abs(factors[0]) * per_step * rows.norms
    shrink = np.minimum(1, largest / np.maximum(lengths, 1e-300))
    whole = np.rint(factors[0] * per_step * shrink)
    return (rows.expand().T * FEATURE_SCALE @ whole)[None, :].astype(int)


def clip_at_a_quantile(rows: FeatureRows, factors: Any, per_step: float, largest: int) -> Any:
    """Takes the clip norm from the rows."""
    norm = np.quantile(np.abs(factors[0]) * rows.norms, 0.9)
    scaled = factors * np.minimum(1, norm / np.maximum(np.abs(factors) * rows.norms, 1e-300))
    unit = scaled * (largest / norm)
    return np.trunc(rows.expand().T * FEATURE_SCALE @ unit[0])[None, :].astype(int)


def divide_by_the_rows(rows: FeatureRows, factors: Any, per_step: float, largest: int) -> Any:
    """Scales the sum by the number of rows that are there."""
    return add_rows(rows, factors, per_step, largest) * 100 // rows.size


def find_largest_change(add: Callable[..., Any]) -> float:
    """How far the sum moves when one row of some small tables leaves, at worst over those tried."""
    largest = 0.0
    for seed in range(20):
        rows = encode(30, seed=seed)
        factors = make_factors(30, seed=seed + 100)
        total = add(rows, factors, PER_STEP, LARGEST)
        for i in (0, 14, 29):
            kept = np.arange(30) != i
            fewer = FeatureRows(FACTS, rows.dense[:, kept], rows.codes[:, kept], rows.norms[kept])
            change = total - add(fewer, factors[:, kept], PER_STEP, LARGEST)
            largest = max(largest, float(np.linalg.norm(change)))
    return largest


def test_one_row_moves_the_sum_by_at_most_the_clip_norm() -> None:
    assert 0.5 * LARGEST < find_largest_change(add_rows) <= LARGEST


@pytest.mark.parametrize(
    "mistake", [clip_the_batch, round_without_a_check, clip_at_a_quantile, divide_by_the_rows]
)
def test_planted_mistakes_move_the_sum_by_more(mistake: Callable[..., Any]) -> None:
    assert find_largest_change(mistake) > LARGEST
