"""Noisy averages of groups, drawn towards that of all: who is drawn, how far, and that it helps."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from dither.postprocess.stabilised_averages import NoisyGroups, predict_distances

HALF = 10


def make_groups(counts, sums, count_variance=100, sum_variance=10_000) -> NoisyGroups:
    return NoisyGroups(
        tuple(map(Fraction, counts)),
        tuple(map(Fraction, sums)),
        Fraction(count_variance),
        Fraction(sum_variance),
        Fraction(HALF),
    )


def predict(*numbers, **variances) -> list[float]:
    return [float(distance) for distance in predict_distances(make_groups(*numbers, **variances))]


def test_large_groups_keep_their_own_averages():
    released = predict([10**6, 2 * 10**6], [9 * 10**6, -6 * 10**6])
    assert released == pytest.approx([9, -3], abs=1e-3)


def test_small_groups_that_differ_no_more_than_noise_are_drawn_to_the_average_of_all():
    """Sums of 30 rows with noise of 100: averages of 4 and 2 say as good as nothing."""
    drawn = predict([30] * 20, [120, 60] * 10)
    assert max(drawn) - min(drawn) < 0.5 < 2
    assert np.mean(drawn) == pytest.approx(2.9, abs=0.2)


def test_groups_that_differ_by_more_than_noise_keep_their_differences():
    """The same noise, and averages of 9 and -9: the weight goes to each group's own value."""
    drawn = predict([30] * 20, [270, -270] * 10)
    assert drawn == pytest.approx([9, -9] * 10, rel=0.2)


def test_without_noise_nothing_is_drawn():
    exact = predict([30, 40, 1], [-90, 20, 10], count_variance=0, sum_variance=0)
    assert exact == pytest.approx([-3, 0.5, 10])


@pytest.mark.parametrize(
    ("counts", "sums"),
    [
        ([], []),
        ([-5, -7], [900, -900]),
        ([0, 0], [0, 0]),
        ([1], [10**9]),
        ([-3], [5]),
        ([30, -400], [1, 1]),
    ],
)
def test_whatever_was_released_predictions_lie_within_the_bounds(counts, sums):
    assert all(-HALF <= distance <= HALF for distance in predict(counts, sums))


def test_the_same_release_gives_the_same_fractions():
    groups = make_groups([31, 28, 40], [17, -300, 120])
    assert predict_distances(groups) == predict_distances(groups)
    assert all(isinstance(distance, Fraction) for distance in predict_distances(groups))


@pytest.mark.parametrize(
    ("deviation", "rows", "most"), [(1.0, 30, 0.35), (8.0, 30, 1.0), (5.0, 3000, 1.01)]
)
def test_predictions_err_less_than_what_was_released(deviation, rows, most):
    """Squared errors of 100 draws of 20 groups, from a seed: alike groups gain most, groups that
    differ hardly less than before lose nothing, and large ones stay as they are."""
    source = np.random.default_rng(7)
    errors = np.zeros(2)
    for _ in range(100):
        averages = np.clip(2 + deviation * source.standard_normal(20), -HALF, HALF)
        counts = rows + np.rint(source.laplace(0, 10 / np.sqrt(2), 20))
        sums = rows * averages + source.laplace(0, 100 / np.sqrt(2), 20)
        released = np.clip(sums / np.maximum(counts, 1), -HALF, HALF)
        drawn = predict(counts.astype(int).tolist(), np.rint(sums).astype(int).tolist())
        errors += [np.sum((released - averages) ** 2), np.sum((np.array(drawn) - averages) ** 2)]
    assert errors[1] < most * errors[0]
