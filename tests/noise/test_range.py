"""The proved range, shapes, types, and errors before anything is drawn."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from dither import ParameterError
from dither.privacy import noise
from dither.privacy.noise import samplers
from tests.sources import Refusing, TestSource

SIGNED = [noise.discrete_laplace, noise.discrete_gaussian]
NO_NUMBERS = [True, "10", None, 1j, [10], Decimal(10), np.float32(10), np.array([10])]
SCALED = [*SIGNED, noise.geometric]


@pytest.mark.parametrize("sampler", SCALED)
@pytest.mark.parametrize(
    "scale", [1e-3, Fraction(1, 1000), 0.1, 10, 64, 65, 256, 257, 2**40, 2**52]
)
def test_up_to_two_to_the_fifty_two_draws_are_int64(sampler, scale):
    drawn = sampler(scale, 100)
    assert drawn.dtype == np.int64 and drawn.shape == (100,)
    assert type(sampler(scale)) is int
    assert np.abs(drawn).max() < 60 * float(scale) + 1  # fails with probability 100 e**-60


@pytest.mark.parametrize("sampler", SCALED)
@pytest.mark.parametrize("scale", [2**52 + 1, 2**60])
def test_above_two_to_the_fifty_two_draws_are_python_integers(sampler, scale):
    drawn = sampler(scale, 50)
    assert drawn.dtype == object and all(type(value) is int for value in drawn)
    assert type(sampler(scale)) is int
    assert max(abs(value) for value in drawn) > scale // 1000  # fails with probability below 1e-100


@pytest.mark.parametrize("sampler", SCALED)
@pytest.mark.parametrize(
    "scale",
    [
        0,
        -1,
        1e-4,
        Fraction(1, 1001),
        2**60 + 1,
        2.0**61,
        float("nan"),
        float("inf"),
        -float("inf"),
        -0.0,
        *NO_NUMBERS,
    ],
)
def test_a_scale_outside_the_proved_range_is_refused_before_anything_is_drawn(sampler, scale):
    with pytest.raises(ParameterError, match=r"scale|sigma"):
        sampler(scale, 10, source=Refusing())


@pytest.mark.parametrize("size", [-1, (2, -1), 1.0, "3", True, (1.5,), [3]])
@pytest.mark.parametrize("sampler", SCALED)
def test_a_size_that_is_no_shape_is_refused_before_anything_is_drawn(sampler, size):
    with pytest.raises(ParameterError, match="size"):
        sampler(10, size, source=Refusing())


@pytest.mark.parametrize("scale", [10, 1000, 2**53])
@pytest.mark.parametrize(
    "size", [0, 1, 7, (), (0,), (0, 3), (2, 3), (2, 1, 4), np.int64(5), (np.int64(2), 2)]
)
def test_any_shape_is_served(scale, size):
    for sampler in SCALED:
        assert sampler(scale, size).shape == (size if isinstance(size, tuple) else (int(size),))
    assert (
        noise.bernoulli_exp(1, size).shape
        == noise.uniform_below(9, size).shape
        == noise.geometric(3, size).shape
    )


@pytest.mark.parametrize(
    "scale", [np.int64(10), np.int32(10), np.uint8(10), np.float64(10), 10.0, Fraction(10), 10]
)
def test_a_scale_means_its_exact_value_whatever_its_type(scale):
    words = [0, 1 << 63, 2**64 - 1, 123456789 << 30] * 5
    for sampler in SCALED:
        expected = sampler(10, 20, source=TestSource(words, after=1))
        assert (sampler(scale, 20, source=TestSource(words, after=1)) == expected).all()
    # a cached plan of an equal number would hide what this type does
    samplers.plan_for.cache_clear()
    noise.discrete_laplace(scale, 20)


def test_a_float_means_its_binary_value_and_a_fraction_means_itself():
    assert samplers.read_scale(0.1, "scale") == Fraction(0.1) != Fraction(1, 10)
    assert samplers.read_scale(Fraction(1, 10), "scale") == Fraction(1, 10)


@pytest.mark.parametrize("n", [0, -1, True, 2.0, "3", None])
def test_a_bound_that_is_no_positive_integer_is_refused_before_anything_is_drawn(n):
    with pytest.raises(ParameterError, match="n must be"):
        noise.uniform_below(n, source=Refusing())


@pytest.mark.parametrize("x", [-1, -1e-9, float("nan"), float("inf"), True, "1"])
def test_a_bad_exponent_is_refused_before_anything_is_drawn(x):
    with pytest.raises(ParameterError, match="x must"):
        noise.bernoulli_exp(x, source=Refusing())


@pytest.mark.parametrize("p", [-1, 1.0000001, 2, float("nan"), True, "1/2"])
def test_a_bad_probability_is_refused_before_anything_is_drawn(p):
    with pytest.raises(ParameterError, match="probability"):
        noise.bernoulli(p, source=Refusing())


@pytest.mark.parametrize("scale", [0, -1, 0.5, float("nan"), True, "1", None])
@pytest.mark.parametrize("argmax", [noise.argmax_gumbel, noise.argmax_exponential])
def test_a_bad_scale_of_a_race_is_refused_before_anything_is_drawn(argmax, scale):
    with pytest.raises(ParameterError, match="scale"):
        argmax([1, 2], scale, source=Refusing())


@pytest.mark.parametrize(
    "scores", [[], [[1]], [0.5, 1], ["a"], [True, False], np.array([1.0]), [1, None]]
)
def test_scores_that_are_no_integers_are_refused_before_anything_is_drawn(scores):
    with pytest.raises(ParameterError, match="scores"):
        noise.argmax_gumbel(scores, 1, source=Refusing())


@pytest.mark.parametrize(
    "scores",
    [
        [-1, 2**63],
        [0, 10**400],
        np.array([-(2**63), 2**63 - 1]),
        np.array([0, 2**64 - 1], np.uint64),
        [-(2**70), 0],
    ],
)
def test_scores_of_any_size_race_exactly(scores):
    assert noise.argmax_gumbel(scores, 1) == noise.argmax_exponential(scores, np.int64(3)) == 1


def test_extremes_are_certain():
    assert noise.bernoulli_exp(0, 100).all() and not noise.bernoulli_exp(10**6, 100).any()
    assert noise.bernoulli(1, 100).all() and not noise.bernoulli(0, 100).any()
    assert (noise.uniform_below(1, 100) == 0).all()
    assert not noise.discrete_laplace(1e-3, 1000).any()  # fails with probability e**-990
