"""Randomised response: exact channel, known numbers, closeness, the printed estimator."""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from dither.errors import ParameterError
from dither.mechanisms import randomised_response
from dither.mechanisms.randomised_response import RandomisedResponse, lie_chance
from dither.privacy.losses import Pure, RandomizedResponse
from tests.mechanisms.closeness import assert_close, assert_law, pure_epsilon
from tests.mechanisms.planted import Bug
from tests.mechanisms.seeded import Seeded

LN3 = Fraction(mpmath.nstr(mpmath.log(3), 20))


@pytest.mark.parametrize("categories", [2, 3, 16])
def test_exact_channel_keeps_every_ratio(categories):
    """Enumeration of the channel as the code draws it: floor(2^64 p) words lie, the rest by
    enclosure."""
    for epsilon in (Fraction(1, 10), Fraction(1), LN3, Fraction(8)):
        low, high = lie_chance(epsilon, categories, 256)
        assert high - low <= 4
        e = mpmath.exp(mpmath.mpf(epsilon.numerator) / epsilon.denominator)
        true = (categories - 1) / (e + categories - 1)
        assert abs(mpmath.mpf(low) / mpmath.mpf(2) ** 256 - true) < mpmath.mpf(10) ** -14
        lie, truth = true / (categories - 1), 1 - true
        assert abs(truth / lie / e - 1) < mpmath.mpf(10) ** -12


def test_answers_follow_the_law():
    for categories, epsilon in ((2, Fraction(1)), (5, Fraction(2))):
        channel = RandomisedResponse(epsilon, categories)
        law = channel.error()
        for value in (0, categories - 1):
            answers = channel.release(np.full(20_000, value), source=Seeded(value + 1))
            expected = [law.truth if answer == value else law.lie for answer in range(categories)]
            assert_law(answers, expected)


def test_randomised_response_closeness():
    for categories in (2, 4):
        channel = RandomisedResponse(Fraction(1), categories)
        first = channel.release(np.zeros(40_000, int), source=Seeded(1))
        second = channel.release(np.full(40_000, categories - 1), source=Seeded(2))
        assert_close(first, second, pure_epsilon(channel.loss()))


def test_numbers_of_the_spec():
    """Variances, lie rates, bound."""
    for epsilon, categories, printed in (
        (LN3, 2, 0.75), (Fraction(1), 2, 0.92067), (Fraction(1, 10), 2, 99.917),
        (LN3, 11, 3.0), (Fraction(1), 16, 5.66243), (Fraction(1), 1024, 347.07),
    ):  # fmt: skip
        assert abs(RandomisedResponse(epsilon, categories).error().variance / printed - 1) < 1e-5
    assert abs(RandomisedResponse(LN3, 2).error().truth - 0.75) < 1e-12
    assert abs(RandomisedResponse(Fraction(1), 2).error().bound(10_000, 0.95) - 0.04839) < 1e-5
    assert abs(1 - RandomisedResponse(Fraction(1), 2).error().truth - 0.2689) < 1e-4
    for yes, share in ((0.5, 0.5), (0.4, 0.3)):  # coin form: p = 2 yes - 1/2
        estimate = (
            RandomisedResponse(LN3, 2)
            .error()
            .estimate([round(1000 * (1 - yes)), round(1000 * yes)])
        )
        assert abs(estimate[1] / 1000 - share) < 1e-12


def test_estimates_are_unbiased():
    channel = RandomisedResponse(Fraction(1), 3)
    answers = channel.release(np.repeat([0, 1, 2], [10_000, 5_000, 1_000]), source=Seeded(5))
    estimate = channel.error().estimate(np.bincount(answers, minlength=3))
    spread = math.sqrt(16_000 * channel.error().variance + 10_000)
    assert all(
        abs(e - t) < 6 * spread for e, t in zip(estimate, (10_000, 5_000, 1_000), strict=True)
    )
    assert abs(sum(estimate) - 16_000) < 1e-6


def test_losses_refusals_and_sensitivity():
    """The unit is one value: any two values are neighbours, so there is no sensitivity to multiply
    (brute force)."""
    assert RandomisedResponse(1, 2).loss() == RandomizedResponse(1)
    assert RandomisedResponse(1, 3).loss() == Pure(1, neighbours="replace")
    for arguments in ((0, 2), (1, 1), (1, 2.5), (1, 2, "add_remove")):
        with pytest.raises(ParameterError):
            RandomisedResponse(*arguments)
    for values in ([2], [-1], [0.5], ["a"]):
        with pytest.raises(ParameterError):
            RandomisedResponse(1, 2).release(values)
    assert RandomisedResponse(1, 2).release(np.zeros((3, 2), int)).shape == (3, 2)
    assert RandomisedResponse(1, 2).release(np.array([], int)).tolist() == []


BUGS = {
    "rr-fixed-lie-rate": Bug(
        "k-ary answers that lie as often as binary ones: each lie is k - 1 times too rare",
        test_randomised_response_closeness,
        (
            (
                randomised_response,
                "_bar",
                lambda epsilon, k: int(2**64 / (1 + math.exp(float(epsilon)))),
            ),
        ),
    ),
}
