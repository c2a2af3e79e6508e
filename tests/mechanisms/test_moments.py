"""Clipped moments and bounded histograms: sensitivity by brute force, the worked example of the
average age."""

import itertools

import numpy as np
import pytest

from dither.errors import ParameterError
from dither.laws import find_error_law
from dither.mechanisms import clipped_moments
from dither.mechanisms import histogram as histograms
from dither.mechanisms.clipped_moments import ClippedMoments
from dither.mechanisms.histogram import histogram_sensitivity
from dither.privacy.losses import Composed, DiscreteLaplace
from dither.privacy.mechanisms.laplace import IntegerLaplace
from tests.mechanisms.closeness import assert_close, pure_epsilon
from tests.mechanisms.planted import Bug
from tests.mechanisms.seeded import Seeded


def test_moment_sensitivity_by_brute_force():
    """A unit of two rows joins or is replaced, with values outside the bounds: each sum moves as
    stated."""
    low, high, values = -1, 2, range(-3, 5)
    moments = ClippedMoments.for_epsilon(1, low=low, high=high)
    joins, swaps = np.zeros(3, int), np.zeros(3, int)
    measure = {
        rows: np.array(moments.measure(rows))
        for r in range(4)
        for rows in itertools.product(values, repeat=r)
    }
    for own in [rows for rows in measure if len(rows) == 2]:
        for rest in [rows for rows in measure if len(rows) <= 1]:
            joins = np.maximum(joins, abs(measure[rest + own] - measure[rest]))
    for rest in [rows for rows in measure if len(rows) <= 1]:
        for old, new in itertools.product(
            [(), (low,), (high,), (0,), (4,), (low, low), (high, high)], repeat=2
        ):
            swaps = np.maximum(swaps, abs(measure[rest + old] - measure[rest + new]))
    assert (joins <= clipped_moments.moment_moves(low, high, 2, 2, "add_remove")).all()
    assert (swaps <= clipped_moments.moment_moves(low, high, 2, 2, "replace")).all()
    assert joins.tolist() == clipped_moments.moment_moves(low, high, 2, 2, "add_remove")


def test_average_age():
    """n = 10,000, ages 0-100, eps 0.5: scale .02 with public n, else .0284 centred."""
    public = ClippedMoments.for_epsilon(
        0.5, low=0, high=100, degree=1, public_size=10_000, neighbours="replace"
    )
    assert float(public.noises[0].scale) / 2 / 10_000 == 0.02
    assert abs(find_error_law(public.noises[0]).interval(0.95) / 2 / 10_000 - 0.0599) < 1e-4
    centred = ClippedMoments.for_epsilon(0.5, low=0, high=100, degree=1)
    assert abs(centred.error().mean_spread(10_000) - 0.0283) < 1e-4
    ages, source = np.arange(10_000) % 101, Seeded(3)
    means = [centred.mean(centred.release(ages, source=source)) for _ in range(200)]
    assert abs(np.mean(means) - ages.mean()) < 0.02 and abs(np.std(means) / 0.0284 - 1) < 0.3


def test_moments_closeness():
    """Kifer et al. 2020, section 6: {} / {0} / {100, 0} for count, sum and squares, told apart by
    all three signs."""
    moments = ClippedMoments.for_epsilon(3, low=0, high=100)

    def codes(values, seed):
        source, sums = Seeded(seed), moments.measure(values)
        drawn = [
            noise.release(np.full(20_000, s), source=source) > m
            for noise, s, m in zip(moments.noises, sums, (0, -50, 5000), strict=True)
        ]
        return drawn[0] + 2 * drawn[1] + 4 * drawn[2]

    data = [[], [0], [0, 1000]]
    for one, two in itertools.pairwise(data):
        assert_close(
            codes(np.array(one, int), 1), codes(np.array(two, int), 2), pure_epsilon(moments.loss())
        )


def test_mean_and_variance_are_right():
    moments = ClippedMoments.for_epsilon(1000, low=0, high=100)
    values = np.array([0, 50, 100, 20] * 1_000)
    found = moments.release(values)
    assert (
        abs(moments.mean(found) - values.mean()) < 0.05
        and abs(moments.variance(found) - values.var()) < 5
    )
    exact = moments.measure(values)
    assert abs(moments.variance(exact) - values.var()) < 1e-9
    assert (
        moments.mean(moments.measure(np.array([], int))) == 50
    )  # empty data: the middle, no failure
    assert isinstance(moments.loss(), Composed) and pure_epsilon(moments.loss()) <= 1000
    one = ClippedMoments.for_epsilon(
        1, low=0, high=1, degree=1, public_size=10, neighbours="replace"
    )
    assert one.loss() == DiscreteLaplace(2, 2, neighbours="replace") and one.mean([10]) == 1


def test_bounded_histogram_sensitivity_by_brute_force():
    """Every unit of up to four rows over three cells against any other: the counts move as stated,
    and some as far."""
    rows = [r for size in range(5) for r in itertools.combinations_with_replacement(range(3), size)]
    for most_cells, most_each in ((1, 1), (1, 2), (2, 1), (2, 2)):
        joins, swaps = (
            histogram_sensitivity(most_cells, most_each),
            histogram_sensitivity(most_cells, most_each, "replace"),
        )
        count = lambda units, c=most_cells, e=most_each: np.array(
            histograms.bounded_histogram(units, cells=3, most_cells=c, most_each=e)
        )
        reached = 0
        for own, other in itertools.product(rows, repeat=2):
            move = abs(count([own, other]) - count([other]))
            swap = abs(count([own, other]) - count([other, other]))
            for moved, claim in ((move, joins), (swap, swaps)):
                assert (moved > 0).sum() <= claim.l0 and moved.sum() <= claim.l1
                assert moved.max() <= claim.linf and (moved**2).sum() <= claim.l2_squared
            reached = max(reached, move.sum())
        assert reached == joins.l1


def test_bounded_histogram_closeness():
    """A unit of many rows in all cells joins: limited, then released as a vector; told apart by
    signs."""
    limits = {"most_cells": 2, "most_each": 1}
    mechanism = IntegerLaplace.for_epsilon(1, histogram_sensitivity(**limits))

    def codes(units, seed):
        cells = histograms.bounded_histogram(units, cells=4, **limits)
        noisy = mechanism.release(np.tile(cells, (20_000, 1)), source=Seeded(seed))
        return (noisy > 0) @ [1, 2, 4, 8]

    assert_close(codes([[0, 0, 1, 2, 3, 3]], 1), codes([], 2), 1)


def test_refusals():
    for change in (
        {"low": 1},
        {"low": 0.5},
        {"degree": 3},
        {"rows_per_unit": 0},
        {"public_size": 5},
        {"epsilon": 0},
    ):
        arguments = {"epsilon": 1, "low": 0, "high": 1} | change
        with pytest.raises(ParameterError):
            ClippedMoments.for_epsilon(arguments.pop("epsilon"), **arguments)
    with pytest.raises(ParameterError):
        ClippedMoments(0, 1, 2, ())
    narrow = IntegerLaplace.for_epsilon(1, histogram_sensitivity(1, 1))
    with pytest.raises(ParameterError, match="moves by 100"):
        ClippedMoments(0, 100, 1, (narrow, narrow))
    with pytest.raises(ParameterError):
        ClippedMoments.for_epsilon(1, low=0, high=1).release([0.5])
    with pytest.raises(ParameterError):
        ClippedMoments.for_epsilon(1, low=0, high=1, degree=1).variance([1, 1])
    for limits in ((0, 1), (1, 0), (1.5, 1)):
        with pytest.raises(ParameterError):
            histogram_sensitivity(*limits)


def unclipped(self, values):
    """Trusts the declared bounds instead of enforcing them."""
    centred = 2 * np.asarray(values).astype(object) - (self.low + self.high)
    return [len(centred), int(sum(centred)), int(sum(2 * centred**2 - (self.high - self.low) ** 2))]


def unlimited(units, *, cells, most_cells, most_each):
    counts = [0] * cells
    for rows in units:
        for cell in rows:
            counts[cell] += 1
    return counts


BUGS = {
    "moments-unclipped": Bug(
        "declared bounds that are not enforced",
        test_moments_closeness,
        ((ClippedMoments, "measure", unclipped),),
    ),
    "moments-sensitivity-one-less": Bug(
        "every sensitivity one too small",
        test_moment_sensitivity_by_brute_force,
        (
            (
                clipped_moments,
                "moment_moves",
                lambda *given, f=clipped_moments.moment_moves: [m - 1 for m in f(*given)],
            ),
        ),
    ),
    "histogram-unlimited": Bug(
        "rows per unit declared but not limited",
        test_bounded_histogram_closeness,
        ((histograms, "bounded_histogram", unlimited),),
    ),
}
