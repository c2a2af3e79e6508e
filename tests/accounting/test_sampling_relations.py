"""Groups in samples of fixed size, and Poisson samples under replace, against every sample of a
small population.

The truth is enumerated: all samples, integer Laplace or randomised noise on what they hold, and the
sum over outcomes of (P - e^eps Q)+. Theory: docs/proofs/composition.md, section 7.
"""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from dither import accounting as acc
from dither.accounting.planning import _drawn_rate
from dither.errors import RefusedError

REACH = 400


def law(bits, samples, scale):
    """The law of a count over a random sample plus integer Laplace noise, on -REACH..REACH."""
    x = np.arange(-REACH, REACH + 1)
    found = np.zeros(len(x))
    for chance, kept in samples:
        found += chance * np.exp(-np.abs(x - sum(bits[i] for i in kept)) / scale)
    return found * math.tanh(1 / (2 * scale))


def fixed_size(population, size):
    samples = list(itertools.combinations(range(population), size))
    return [(1 / len(samples), kept) for kept in samples]


def poisson(population, q):
    for drawn in itertools.product((0, 1), repeat=population):
        kept = [i for i in range(population) if drawn[i]]
        yield q ** len(kept) * (1 - q) ** (population - len(kept)), kept


def truth(first, second, epsilon):
    return float(np.sum(np.maximum(first - math.exp(epsilon) * second, 0.0)))


def worst(changed, population, samples, scale, epsilon):
    """Over what the group held and holds, and over what everybody else holds."""
    samples = list(samples)
    found = 0.0
    for others in range(population - changed + 1):
        rest = [1] * others + [0] * (population - changed - others)
        laws = [
            law([*own, *rest], samples, scale) for own in itertools.product((0, 1), repeat=changed)
        ]
        found = max(found, *(truth(p, q, epsilon) for p, q in itertools.permutations(laws, 2)))
    return found


@pytest.mark.parametrize(
    ("population", "size", "rows"), [(6, 2, 2), (7, 3, 2), (6, 1, 3), (5, 3, 4)]
)
@pytest.mark.parametrize("epsilon", [0.0, 0.2, 0.8])
def test_a_group_in_a_sample_of_fixed_size(population, size, rows, epsilon):
    loss = acc.SampledWithoutReplacement(
        size, population, acc.DiscreteLaplace(2, 1, neighbours="replace")
    )
    found = truth_of = worst(rows, population, fixed_size(population, size), 2.0, epsilon)
    assert truth_of <= acc.delta(acc.group(loss, rows), epsilon).upper + 1e-12
    assert found > 0 or epsilon > 0.5


def test_a_group_is_drawn_more_often_than_one_unit():
    # planted bug: the rate of one unit for the whole group
    rows, epsilon, scale = 2, 0.0, 2.0
    loss = acc.DiscreteLaplace(2, rows, neighbours="replace")
    wrong = acc.delta(acc.SampledWithoutReplacement(1, 6, loss), epsilon).upper
    right = acc.SampledWithoutReplacement(1, 6, acc.DiscreteLaplace(2, 1, neighbours="replace"))
    found = worst(rows, 6, fixed_size(6, 1), scale, epsilon)
    assert wrong < acc.delta(acc.group(right, rows), epsilon).upper
    assert acc.delta(
        acc.SampledWithoutReplacement(1, 6, acc.DiscreteLaplace(2, 1, neighbours="replace")), 0
    ).upper < (found - 1e-6)


@pytest.mark.parametrize(
    ("sample", "population", "size", "rate"),
    [
        (1, 6, 2, Fraction(1, 3)),
        (3, 5, 2, Fraction(9, 10)),
        (3, 5, 3, Fraction(1)),
        (10, 1000, 1, Fraction(1, 100)),
        (2, 5, 9, Fraction(1)),
    ],
)
def test_the_rate_of_a_group(sample, population, size, rate):
    assert _drawn_rate(sample, population, size) == rate


def test_long_rates_are_rounded_up():
    exact = 1 - Fraction(math.comb(10**6 - 50, 1000), math.comb(10**6, 1000))
    found = _drawn_rate(1000, 10**6, 50)
    assert exact <= found <= exact + Fraction(1, 2**63) and found.denominator <= 2**64


@pytest.mark.parametrize("q", [0.2, 0.6])
@pytest.mark.parametrize("epsilon", [0.0, 0.1, 0.45])
def test_poisson_samples_under_replace(q, epsilon):
    inner = acc.DiscreteLaplace(2, 1, neighbours="replace")
    found = worst(1, 4, poisson(4, q), 2.0, epsilon)
    claimed = acc.delta(acc.PoissonSampled(q, inner), epsilon).upper
    assert found <= claimed + 1e-12 and (found > 0 or epsilon == 0.45)
    assert claimed == pytest.approx(q * acc.delta(inner, epsilon).upper, rel=1e-9)


def test_a_mechanism_that_shows_the_draw_attains_the_pair_under_replace():
    # whoever is drawn answers by randomised response, whoever is not is seen not to: exactly q
    # delta
    q, epsilon = 0.3, 0.4
    tell = math.e / (1 + math.e)
    p, other = (
        np.array([1 - q, q * tell, q * (1 - tell)]),
        np.array([1 - q, q * (1 - tell), q * tell]),
    )
    claimed = acc.delta(acc.PoissonSampled(q, acc.RandomizedResponse(1)), epsilon).upper
    assert truth(p, other, epsilon) == pytest.approx(claimed, rel=1e-12)
    # planted bug: the epsilon of add/remove sampling, log(1 + q (e - 1)), under which there would
    # be no delta left
    amplified = float(acc.amplify(1, q)[0].upper)
    assert truth(p, other, amplified) > 0.05


@pytest.mark.parametrize(
    "inner",
    [
        acc.Pure(1, neighbours="replace"),
        acc.Approx(1, "1e-7", neighbours="replace"),
        acc.Laplace(1, neighbours="replace"),
        acc.DiscreteGaussian(3, 2, neighbours="replace"),
        acc.BoundedRange(1, neighbours="replace"),
    ],
    ids=lambda inner: type(inner).__name__,
)
def test_several_poisson_samples_under_replace(inner):
    # two rounds: nothing, one or both drawn, each a mixture of curves (joint convexity is exact for
    # a visible draw)
    q, epsilon = Fraction(1, 10), 0.25
    both = 2 * q * (1 - q) * Fraction(acc.delta(inner, epsilon).upper) + q * q * Fraction(
        acc.delta(inner * 2, epsilon).upper
    )
    claimed = acc.delta(acc.PoissonSampled(q, inner) * 2, epsilon)
    if not isinstance(
        inner, acc.BoundedRange
    ):  # of which the whole has a better route than its pair
        assert claimed.upper == pytest.approx(float(both), rel=1e-5)
    assert claimed.upper >= float(both) * (1 - 1e-9) and claimed.lower <= float(both)
    assert (
        acc.epsilon(acc.PoissonSampled(q, inner) * 5, 1e-5).upper
        <= acc.epsilon(inner * 5, 1e-5).upper
    )


def test_what_has_a_sharper_form_is_still_refused():
    with pytest.raises(RefusedError, match="GaussianSum"):
        acc.epsilon(acc.PoissonSampled(0.1, acc.Gaussian(1, neighbours="replace")), 1e-6)
    with pytest.raises(RefusedError, match="replace"):
        acc.epsilon(acc.SampledWithoutReplacement(1, 10, acc.Laplace(1)), 1e-6)
