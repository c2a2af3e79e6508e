"""Time must not follow the size of the noise (rule fresh-noise)."""

from __future__ import annotations

from fractions import Fraction
from time import perf_counter_ns

import numpy as np
import pytest

from dither.privacy import noise
from dither.privacy.noise.box import box_noise
from dither.privacy.noise.samplers import plan_for
from dither.privacy.noise.table import RESIDUAL
from tests.case_lists import mark_rest
from tests.evidence import assert_unrelated
from tests.sources import TestSource


def timed(draw, runs: int) -> tuple[np.ndarray, np.ndarray]:
    """(mean |noise|, nanoseconds) of each run."""
    magnitudes, times = np.empty(runs), np.empty(runs)
    for i in range(runs):
        start = perf_counter_ns()
        drawn = draw()
        times[i] = perf_counter_ns() - start
        magnitudes[i] = np.mean(np.abs(drawn))
    return magnitudes, times


@pytest.mark.parametrize(
    "draw",
    [
        lambda: noise.discrete_laplace(10, 1000),
        lambda: noise.discrete_gaussian(10, 1000),
        lambda: noise.discrete_laplace(2**30, 1000),
        lambda: box_noise((1, 500), Fraction(10), 500, noise.SystemSource()),
    ],
)
def test_time_is_unrelated_to_the_noise_at_a_million_draws(draw):
    assert_unrelated(*timed(draw, 1000))


SINGLE_DRAWS = [
    lambda: noise.discrete_laplace(1000),
    lambda: noise.discrete_gaussian(40),
    lambda: box_noise((1, 1, 1, 1), Fraction(40), 1, noise.SystemSource()),
]


@pytest.mark.parametrize("draw", mark_rest(SINGLE_DRAWS, quick=2))
def test_time_of_single_draws_is_unrelated_to_the_noise(draw):
    draw()
    assert_unrelated(*timed(draw, 6000))


def naive_geometric(scale: int) -> int:
    """Counts failures one by one, as textbook samplers do: its time *is* the noise."""
    count = 0
    while noise.bernoulli_exp(Fraction(1, scale)):
        count += 1
    return count


def test_a_sampler_that_counts_failures_is_caught():
    with pytest.raises(AssertionError):
        assert_unrelated(*timed(lambda: naive_geometric(10), 600))


def test_a_look_up_takes_the_same_words_whatever_comes_out():
    plan = plan_for("laplace", Fraction(10), True)
    size = 1 << (64 - plan.table.columns)
    words = np.array([column * size for column in range(1 << plan.table.columns)], np.uint64)
    for word in words[plan.table.look_up(words) != RESIDUAL].tolist():
        source = TestSource([word])
        noise.discrete_laplace(10, source=source)
        assert (source.asked, source.calls) == (1, 1)


@pytest.mark.parametrize(("scale", "per_proposal"), [(1000, 2), (2**50, 3)])
def test_a_proposal_takes_the_same_words_whatever_comes_out(scale, per_proposal):
    table = plan_for("laplace", Fraction(scale), True, is_few=True).table
    size = 1 << (64 - table.columns)
    words = np.array([column * size for column in range(1 << table.columns)], np.uint64)
    magnitudes = []
    for word in words[table.look_up(words) != RESIDUAL].tolist():
        source = TestSource(
            [word, 0, 0][:per_proposal]
        )  # a uniform of 0 is accepted wherever the value lies
        magnitudes.append(abs(noise.discrete_laplace(scale, source=source)))
        assert (source.asked, source.calls) == (per_proposal, 1)
    assert min(magnitudes) == 0 and max(magnitudes) > 30 * scale
