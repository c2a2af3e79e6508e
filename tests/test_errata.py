"""Errors of the source texts, each shown by numbers (docs/errata.md)."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from dither.accounting.lattice import delta_discrete_laplace
from dither.laws import find_error_law
from dither.plan.norms import Sensitivity
from dither.privacy.losses import Pure
from dither.privacy.mechanisms import IntegerLaplace


def phi(z: float) -> float:
    return 0.5 * math.erfc(-z / math.sqrt(2))


def continuous_delta(sigma: float, epsilon: float) -> float:
    return phi(0.5 / sigma - epsilon * sigma) - math.exp(epsilon) * phi(
        -0.5 / sigma - epsilon * sigma
    )


def test_epsilon_delta_does_not_bound_the_privacy_loss_with_probability_one_minus_delta():
    delta = continuous_delta(1, 1)
    tail = 1 - phi(
        (1 - 0.5) / 1
    )  # the loss of Gaussian noise is N(1/2, 1) at sensitivity / sigma = 1
    assert delta == pytest.approx(0.12694, abs=5e-6) and tail == pytest.approx(0.30854, abs=5e-6)
    assert tail > delta


def test_the_classic_gaussian_formula_breaks_for_large_epsilon():
    def classic(epsilon: float) -> float:
        return math.sqrt(2 * math.log(1.25 / 1e-5)) / epsilon

    assert continuous_delta(classic(1), 1) < 1e-5
    assert continuous_delta(classic(10), 10) == pytest.approx(2.27e-5, rel=5e-3)


def test_the_l2_sensitivity_of_a_mean_of_bits_is_root_d_over_n():
    n, d = 1000, 100
    sums = Sensitivity.of(cells=d, largest=1)  # of n times the mean
    assert math.sqrt(sums.l2_squared) / n == math.sqrt(d) / n
    assert math.sqrt(d / n) / (math.sqrt(sums.l2_squared) / n) == pytest.approx(31.6, abs=0.03)


def test_randomised_response_has_e_to_the_epsilon_plus_one_in_its_denominators():
    e = math.e
    truth, lie = e / (1 + e), 1 / (1 + e)
    assert truth + lie == pytest.approx(1) and truth / lie == pytest.approx(e)
    assert e / (e - 1) + 1 / (e - 1) > 1  # as printed it is no distribution
    assert delta_discrete_laplace(Fraction(1), 1, 0).upper == pytest.approx(truth - lie)


def test_no_loss_means_an_output_independent_of_the_input_not_a_constant_one():
    mechanism = IntegerLaplace(100, Sensitivity.of(largest=0))
    assert mechanism.loss() == Pure(0)
    assert (
        len(np.unique(mechanism.release(np.zeros(1000, np.int64)))) > 10
    )  # fails with probability below 1e-100


def test_an_average_of_estimates_has_variance_over_n_not_times_n():
    variance = find_error_law(IntegerLaplace.for_epsilon(1, Sensitivity.of())).variance
    many = IntegerLaplace.for_epsilon(1, Sensitivity.of()).release(np.zeros((20_000, 50), np.int64))
    assert many.mean(axis=1).var() == pytest.approx(variance / 50, rel=0.1)  # 10 standard errors
