"""Bad input is refused before a word is drawn; a word at the threshold is decided by further
words."""

from fractions import Fraction

import numpy as np
import pytest

from dither.errors import ParameterError
from dither.laws import find_error_law
from dither.mechanisms import (
    ClippedMoments,
    ExponentialMechanism,
    GaussianKeys,
    IntegerGaussian,
    IntegerLaplace,
    JointQuantiles,
    PermuteAndFlip,
    Quantile,
    RandomisedResponse,
    ReportNoisyMax,
    SparseVector,
    Staircase,
    TopK,
    TreeCounter,
    TruncatedGeometric,
    TruncatedGeometricKeys,
    randomised_response,
)
from dither.plan.norms import Sensitivity
from dither.privacy.mechanisms import key_selection
from tests.sources import Refusing, TestSource

ONE = Sensitivity.of(largest=1)
ALL = [
    ClippedMoments.for_epsilon(1, low=0, high=1),
    ExponentialMechanism(1, 1),
    GaussianKeys.for_rho(1, 1e-6, groups=1),
    IntegerGaussian.for_rho(1, ONE),
    IntegerLaplace.for_epsilon(1, ONE),
    JointQuantiles(["1/2"], 1),
    PermuteAndFlip(1, 1),
    Quantile(Fraction(1, 2), 1),
    RandomisedResponse(Fraction(1)),
    ReportNoisyMax(1, 1),
    Staircase.for_epsilon(1, ONE),
    TopK.for_epsilon(1, k=2, sensitivity=1),
    TreeCounter.for_epsilon(1, steps=2),
    TruncatedGeometric.for_epsilon(1, low=0, high=9),
    TruncatedGeometricKeys(1, 1e-6, 1),
]


@pytest.mark.parametrize("mechanism", ALL, ids=lambda m: type(m).__name__)
@pytest.mark.parametrize(
    "values", [[0.5, 1.0], np.array([0.0, 1.0]), [True, False], ["a", "b"], [None, 1]]
)
def test_floats_booleans_and_text_are_refused_before_a_word_is_drawn(mechanism, values):
    with pytest.raises(ParameterError):
        mechanism.release(values, source=Refusing())


def test_sparse_vector_refuses_before_it_asks():
    """Its one draw before the first query is the noise of the threshold."""
    with pytest.raises(ParameterError):
        SparseVector.for_epsilon(1, hits=1).release([0.5])


@pytest.mark.parametrize("mechanism", ALL, ids=lambda m: type(m).__name__)
def test_every_mechanism_declares_neighbours_unit_loss_and_error(mechanism):
    loss = mechanism.loss()
    assert loss.neighbours in ("add_remove", "replace") and loss.unit
    if hasattr(mechanism, "error_terms"):  # the kernel can release it
        assert find_error_law(mechanism) and mechanism.describe()
        return
    assert mechanism.error(1) if isinstance(mechanism, TreeCounter) else mechanism.error()


def test_a_word_at_the_bar_of_randomised_response_is_decided_by_the_next():
    epsilon = Fraction(1)
    bar = randomised_response._bar(epsilon, 2)
    for following, answer in ((0, 1), (2**64 - 1, 0)):
        found = RandomisedResponse(epsilon).release(
            [0], source=TestSource([bar, following], after=0)
        )
        assert found.tolist() == [answer]


def test_a_word_at_the_bar_of_a_key_is_decided_by_the_next():
    keys = TruncatedGeometricKeys(1, Fraction(1, 1000), 1)
    bars = key_selection._words(Fraction(1), Fraction(1, 1000))
    for following, shown in ((0, True), (2**64 - 1, False)):
        assert keys.release([5], source=TestSource([bars[5], following])).tolist() == [shown]
    assert keys.release([0], source=TestSource([0])).tolist() == [
        False
    ]  # nobody's key, on the smallest word
    assert keys.release([len(bars)], source=TestSource([2**64 - 1])).tolist() == [True]
