"""Helpers that turn the numbers of a training script into losses."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import pytest

from dither import accounting as acc
from dither.errors import ParameterError, RefusedError
from tests.accounting.loss_oracles import describe_truth


def test_dpsgd_rounds_its_steps_up():
    """R11 of the reference table: 14,062 steps give 2.38159692142440; one more gives no less."""
    loss = acc.dpsgd(n=60_000, batch=256, epochs=60, sigma="1.1")
    assert loss.count == math.ceil(Fraction(60 * 60_000, 256)) == 14_063
    assert acc.epsilon(loss, 1e-5).upper == pytest.approx(2.38159692142440, rel=1e-4)
    scaled = acc.dpsgd(n=60_000, batch=256, epochs=60, sigma="1.1", clip_norm=7)
    assert acc.epsilon(scaled, 1e-5) == acc.epsilon(loss, 1e-5)


@pytest.mark.parametrize("wrong", [{"batch": 70_000}, {"batch": 2.5}, {"n": True}, {"epochs": 0}])
def test_dpsgd_refuses_wrong_numbers(wrong):
    with pytest.raises(ParameterError):
        acc.dpsgd(**{"n": 60_000, "batch": 256, "epochs": 1, "sigma": 1, **wrong})


def test_a_banded_matrix_is_a_sample_at_a_higher_rate_seldom():
    loss = acc.banded_matrix(n=1_000, batch=10, steps=101, bands=4, sigma=3, column_norm=2)
    assert loss == acc.PoissonSampled(Fraction(1, 25), acc.GaussianSum(3, 2)) * 26
    one = acc.banded_matrix(n=1_000, batch=10, steps=100, bands=1, sigma=3)
    assert one == acc.dpsgd(n=1_000, batch=10, epochs=1, sigma=3)
    with pytest.raises(ParameterError, match="fewer bands"):
        acc.banded_matrix(n=100, batch=30, steps=10, bands=4, sigma=1)


def test_a_curve_of_epsilons_grows():
    step = acc.PoissonSampled("0.01", acc.Gaussian(1))
    curve = acc.epsilon_curve(step, [100, 200, 400], 1e-6)
    assert curve[0].upper < curve[1].lower < curve[2].lower
    assert curve[1] == pytest.approx(acc.epsilon(step * 200, 1e-6), rel=1e-12)


def test_the_gaussian_estimate_is_exact_for_gaussians():
    assert acc.estimate_gdp(acc.Gaussian(5) * 100) == pytest.approx(2, rel=1e-9)


@pytest.mark.parametrize(
    "loss",
    [
        acc.Gaussian(1),
        acc.Laplace(2),
        acc.Approx(1, "0.01"),
        acc.PoissonSampled("0.3", acc.Laplace(1)),
    ],
)
def test_negative_epsilons_follow_from_the_opposite_direction(loss):
    """delta at -x, from the oracle's own curve at negative arguments."""
    for direction in ("remove", "add"):
        truth = describe_truth(loss, direction).upper
        for epsilon in ("-0.01", "-0.4", "-3"):
            bounds = acc.delta(loss, epsilon, direction=direction)
            value = truth(mpmath.mpf(epsilon))
            assert bounds.lower <= value * (1 + mpmath.mpf(10) ** -14)
            assert value * (1 - mpmath.mpf(10) ** -14) <= bounds.upper <= value * (1 + 1e-4)


def named(name, **fields):
    return type(name, (), fields)()


def test_events_of_training_runs_are_read():
    gauss = named("GaussianDpEvent", noise_multiplier=2.0)
    mixture = named(
        "MixtureOfGaussiansDpEvent",
        standard_deviation=2.0,
        sensitivities=[0.0, 1.0],
        sampling_probs=[0.75, 0.25],
    )
    assert acc.from_dp_event(mixture) == acc.GaussianMixture(2, [(0, "0.75"), (1, "0.25")])
    cut = named(
        "TruncatedSubsampledGaussianDpEvent",
        dataset_size=100,
        sampling_probability=0.1,
        truncated_batch_size=20,
        noise_multiplier=2.0,
    )
    assert acc.from_dp_event(cut) == acc.TruncatedPoissonSampled(
        "0.1", 20, 100, acc.GaussianSum(2, 1)
    )
    drawn = named(
        "SampledWithReplacementDpEvent", source_dataset_size=50, sample_size=5, event=gauss
    )
    assert acc.from_dp_event(drawn, neighbours="replace") == acc.SampledWithReplacement(
        5, 50, acc.GaussianSum(2, "1/2", neighbours="replace")
    )
    with pytest.raises(RefusedError, match="replace"):
        acc.from_dp_event(drawn)
    trees = named("SingleEpochTreeAggregationDpEvent", noise_multiplier=2.0, step_counts=[8, 100])
    assert acc.from_dp_event(trees) == acc.Gaussian(2) * 7
    poisson = named("RepeatAndSelectDpEvent", event=gauss, mean=10.0, shape=math.inf)
    assert acc.from_dp_event(poisson) == acc.BestOfPoisson(10, acc.Gaussian(2))
    best = acc.from_dp_event(named("RepeatAndSelectDpEvent", event=gauss, mean=10.0, shape=1.0))
    assert isinstance(best, acc.BestOfNegativeBinomial)
    assert 0 < Fraction(1, 10) - best.halting < Fraction(1, 10**9)
    kary = named("RandomizedResponseDpEvent", noise_parameter=0.5, num_buckets=5)
    read = acc.from_dp_event(kary, neighbours="replace")
    assert isinstance(read, acc.KaryResponse)
    assert float(read.epsilon) == pytest.approx(math.log(6), rel=1e-13)
    assert read.buckets == 5
