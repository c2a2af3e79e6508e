"""Which clamp errs least: the chosen one against every other, on people whose values are known."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest

from dither.answer.choose_limits import (
    BoughtHistogram,
    choose_limits,
    list_group_edges,
    list_magnitude_edges,
)
from tests.case_lists import mark_rest

PEOPLE = 5000
LARGEST = 10**7


def draw_values(law: str) -> np.ndarray:
    """Values of people, always the same: quantiles of a law at equal distances."""
    shares = (np.arange(PEOPLE) + 0.5) / PEOPLE
    if law == "exponential":
        return -30_000 * np.log(shares)
    if law == "uniform":
        return 50_000 * shares
    if law == "lognormal":
        normal = np.sqrt(2) * np.array([_inverse_erf(2 * share - 1) for share in shares])
        return 8_000 * np.exp(0.8 * normal)
    return np.full(PEOPLE, 20_000.0)


def _inverse_erf(value: float) -> float:
    """By bisection on math.erf."""
    low, high = -6.0, 6.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if math.erf(middle) < value else (low, middle)
    return (low + high) / 2


def make_histogram(values: np.ndarray, scale: float, seed: int) -> BoughtHistogram:
    """Counts by bin with Laplace noise of a scale, drawn from a seed."""
    edges = list_magnitude_edges(LARGEST)
    exceeded = np.sum(values[:, None] > np.array(edges), axis=1)
    bins = np.bincount(exceeded, minlength=len(edges) + 1)
    noise = (
        np.random.default_rng(seed).laplace(0, scale, len(bins)) if scale else np.zeros(len(bins))
    )
    noisy = tuple(round(float(count)) for count in bins + noise)
    return BoughtHistogram(edges, noisy, max(scale * math.sqrt(2), 0.5))


def measure_error(values: np.ndarray, clamp: float, epsilon: float) -> float:
    """What is cut off, and the mean of the noise."""
    return float(np.maximum(values - clamp, 0).sum()) + clamp / epsilon


def find_least_error(values: np.ndarray, epsilon: float) -> float:
    """Brute force over a thousand clamps."""
    return min(
        measure_error(values, clamp, epsilon)
        for clamp in np.geomspace(values.min() / 2, values.max() * 2, 1000)
    )


@pytest.mark.parametrize("law", mark_rest(["exponential", "uniform", "equal"], quick=1))
@pytest.mark.parametrize("epsilon", [0.1, 0.9])
def test_the_clamp_errs_at_most_three_times_the_least(law, epsilon):
    """Bins are twice as wide as those before: a clamp is known up to that factor, and noise hides
    how a tail ends."""
    values = draw_values(law)
    for scale in (0.0, 10.0):
        for seed in range(5):
            (chosen,), groups = choose_limits(
                [make_histogram(values, scale, seed)], None, epsilon, 1
            )
            assert groups is None and chosen.clamp is not None
            ratio = measure_error(values, chosen.clamp, epsilon) / find_least_error(values, epsilon)
            assert ratio <= 3, (scale, seed, chosen.clamp, ratio)


def test_a_heavy_tail_that_noise_hides_is_cut_at_some_cost():
    """Of a lognormal law the tail falls slower than exponentially: 20 people of noise hide it."""
    values = draw_values("lognormal")
    for seed in range(5):
        (chosen,), _ = choose_limits([make_histogram(values, 20.0, seed)], None, 0.9, 1)
        assert chosen.clamp is not None
        ratio = measure_error(values, chosen.clamp, 0.9) / find_least_error(values, 0.9)
        assert ratio <= 6


def test_the_total_is_about_right():
    values = draw_values("exponential")
    (chosen,), _ = choose_limits([make_histogram(values, 10.0, 3)], None, 0.9, 1)
    assert 0.7 <= chosen.total / values.sum() <= 1.4


def test_people_who_cannot_be_told_from_none_give_no_clamp():
    few = np.full(12, 30_000.0)
    for seed in range(20):
        (chosen,), _ = choose_limits([make_histogram(few, 20.0, seed)], None, 0.9, 1)
        assert chosen.clamp is None and chosen.total == 0


def test_noise_alone_seldom_looks_like_people():
    """24 empty bins: one reaches 6 deviations with exp(-6 sqrt 2) / 2 each, two side by side 3 with
    the square of exp(-3 sqrt 2) / 2: together below 1 in 150. Of 2,000 histograms 40 and more have
    probability below 1e-9 (Chernoff at a mean of 13.4)."""
    nobody = np.zeros(0)
    empty = make_histogram(nobody, 0.0, 0)
    draws = np.random.default_rng(5).laplace(0, 20, (2000, len(empty.counts)))
    seen = sum(
        bool(
            BoughtHistogram(empty.edges, tuple(map(int, noise)), 20 * math.sqrt(2))
            .read_tail()
            .points
        )
        for noise in draws
    )
    assert seen < 40


def test_few_groups_are_kept_where_most_people_have_few():
    """3,000 people in one group and 300 in two: leaving 300 of 3,600 groups out costs 8%, a second
    group doubles the noise. With much noise one group errs less, with little noise two."""
    edges = list_group_edges(20)
    counts = [0, 2700, 300, *([0] * (len(edges) - 2))]
    groups = BoughtHistogram(edges, tuple(counts), 0.5)
    values = make_histogram(draw_values("exponential"), 0.0, 0)
    _, loud = choose_limits([values], groups, 0.005, 1)
    _, quiet = choose_limits([values], groups, 10.0, 1)
    assert (loud, quiet) == (1, 2)


def test_more_cells_cut_off_more():
    """The noise of every cell counts: with 100 cells more people lie above the clamp."""
    histogram = make_histogram(draw_values("exponential"), 0.0, 0)
    clamps = [choose_limits([histogram], None, 0.9, cells)[0][0].clamp for cells in (1, 10, 100)]
    assert clamps[0] > clamps[1] > clamps[2]


def test_counts_add_up_to_what_people_have():
    """3,850 people have one order, 140 have two and 10 three: 4,160, and not the area under a line
    from 4,000 people at 0 to 150 at 1, which is 1,170."""
    edges = list_magnitude_edges(50)
    counts = (0, 3850, 140, 10, *([0] * (len(edges) - 3)))
    (chosen,), _ = choose_limits([BoughtHistogram(edges, counts, 0.5)], None, 0.9, 5)
    assert abs(chosen.total - 4160) < 0.02 * 4160
    assert chosen.clamp in (2, 3)


def test_noise_in_empty_bins_does_not_raise_the_clamp_of_a_count():
    """1,000 people have one, 150 two, 20 three, and the noise of a bin has the deviation 42: in 95
    of 100 histograms the clamp is at most 4, of a limit of 200."""
    edges = list_magnitude_edges(200)
    people = [0, 1000, 150, 20, *([0] * (len(edges) - 3))]
    draws = random.Random(5)
    clamps = []
    for _ in range(100):
        counts = [
            count + round(draws.choice([-1, 1]) * draws.expovariate(1 / 30)) for count in people
        ]
        histogram = BoughtHistogram(edges, tuple(counts), 42.0)
        clamps.append(choose_limits([histogram], None, 0.9, 4)[0][0].clamp)
    assert sum(clamp <= 4 for clamp in clamps) >= 95
    assert min(clamps) >= 1


def test_where_few_people_are_counted_the_wider_question_decides():
    """40 people of a law that 5,000 others follow too, beside noise of 50 for each bin."""
    values = draw_values("exponential")
    wide = make_histogram(values, 50.0, 3).read_tail().scale_people(40 / PEOPLE)
    few = make_histogram(values[::125], 50.0, 4)
    (alone,), _ = choose_limits([few], None, 0.5, 1)
    assert alone.clamp is None
    (chosen,), _ = choose_limits([few], None, 0.5, 1, [wide])
    knowing = make_histogram(values, 0.0, 0).read_tail().scale_people(40 / PEOPLE)
    (best,), _ = choose_limits([few], None, 0.5, 1, [knowing])
    assert chosen.clamp == pytest.approx(best.clamp, rel=0.3)
    many = make_histogram(values, 50.0, 5)
    assert choose_limits([many], None, 0.5, 1, [wide]) == choose_limits([many], None, 0.5, 1)


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0, 3.0])
def test_the_median_error_of_laplace_noise_around_a_loss(share):
    """s log(2 cosh(b / s)) with s = 1, against the law's own distribution function."""
    median = share + math.log1p(math.exp(-2 * share))

    def rise(value: float) -> float:
        return math.exp(value) / 2 if value < 0 else 1 - math.exp(-value) / 2

    assert rise(share + median) - rise(share - median) == pytest.approx(0.5)
