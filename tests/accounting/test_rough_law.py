"""Rough laws of sampled steps: what they choose before anything is proved."""

from __future__ import annotations

import itertools
import math

import pytest

from dither.accounting.few_steps import is_certainly_zero
from dither.accounting.rough_law import RoughLaw, SampledSteps, are_nearly_gaussian

STEPS = [
    SampledSteps(direction, q, sigma, count)
    for direction, q, sigma, count in itertools.product(
        ("add", "remove"), (1e-3, 0.01, 0.2), (0.9, 1.1, 4.0), (1_000, 10_000, 100_000)
    )
]


@pytest.mark.parametrize("log_delta", [math.log(1e-2), math.log(1e-5), math.log(2e-7)])
def test_steps_that_are_nearly_gaussian_are_those_the_rough_law_leaves_to_the_contour(log_delta):
    """The quick test never sends another way than the slow one: answers stay the same."""
    quick = [steps for steps in STEPS if are_nearly_gaussian(steps, log_delta)]
    assert len(quick) >= len(STEPS) // 4
    for steps in quick:
        assert not is_certainly_zero(steps, log_delta)
        rough = RoughLaw(steps, log_delta)
        assert rough.suits_contour(rough.guess_epsilon()), steps


@pytest.mark.parametrize(
    "steps",
    [
        SampledSteps("remove", 0.01, 1.1, 100),
        SampledSteps("remove", 0.01, 0.5, 10_000),
        SampledSteps("add", 5e-324, 1.1, 10_000),
    ],
)
def test_few_steps_little_noise_and_tiny_samples_are_not_taken_for_gaussian(steps):
    assert not are_nearly_gaussian(steps, math.log(1e-5))
