"""Two-sided geometric, its truncated form, staircase, and their vectors: exact laws, numbers,
closeness."""

import itertools
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from dither.errors import ParameterError, PrivacyWarning
from dither.laws import LaplaceErrorLaw, find_error_law
from dither.mechanisms import calibrations, staircase
from dither.mechanisms.staircase import Staircase, StaircaseErrorLaw
from dither.mechanisms.truncated_geometric import TruncatedGeometric
from dither.plan.norms import Sensitivity
from dither.privacy.losses import DiscreteLaplace, Laplace, Pure
from dither.privacy.mechanisms.gaussian import IntegerGaussian
from dither.privacy.mechanisms.laplace import IntegerLaplace
from tests.mechanisms.closeness import assert_close, assert_law, pure_epsilon
from tests.mechanisms.planted import Bug
from tests.mechanisms.seeded import Seeded

ONE = Sensitivity.of(largest=1)


def test_numbers_of_two_sided_geometric():
    """Figures of the closed forms 2a/(1-a)^2 and 2a/(1-a^2), a = e^-epsilon, at 0.5 and 0.05."""
    law = find_error_law(IntegerLaplace.for_epsilon(0.5, ONE))
    assert abs(law.variance - 7.8354) < 5e-5
    assert abs(sum(abs(z) * law.pmf(z) for z in range(-200, 201)) - 1.9190) < 5e-5
    law = find_error_law(IntegerLaplace.for_epsilon(0.05, ONE))
    assert abs(math.sqrt(law.variance) - 28.28) < 5e-3
    assert abs(sum(law.pmf(z) for z in range(-2, 3)) - 0.118) < 1e-3
    assert abs(law.tail(12) - 0.563) < 2e-3


def test_geometric_vector_exact_ratio():
    """All shifts of a vector with L1 at most 2 keep the ratio of densities at e^(2/scale); brute
    force."""
    mechanism = IntegerLaplace.for_epsilon(1, Sensitivity.of(cells=2, largest=1))
    scale = float(mechanism.scale)
    for z in itertools.product(range(-4, 5), repeat=2):
        for shift in itertools.product((-1, 0, 1), repeat=2):
            log_ratio = sum(abs(a + s) - abs(a) for a, s in zip(z, shift, strict=True)) / scale
            assert log_ratio <= pure_epsilon(mechanism.loss()) + 1e-12
    assert mechanism.loss() == Pure(1)
    assert IntegerLaplace.for_epsilon(1, ONE).loss() == DiscreteLaplace(1, 1)
    assert not isinstance(IntegerLaplace.for_epsilon(1, ONE).loss(), Laplace)


def test_geometric_closeness():
    """A histogram of three cells of which one unit moves two, told apart by the signs of all."""
    mechanism = IntegerLaplace.for_epsilon(1, Sensitivity.of(cells=2, largest=1))
    signs = lambda cells, seed: (
        np.sign(mechanism.release(np.tile(cells, (30_000, 1)), source=Seeded(seed)) - 1) @ [1, 3, 9]
    )
    assert_close(signs([1, 1, 1], 1), signs([0, 2, 1], 2), pure_epsilon(mechanism.loss()))


def truncated_law(mechanism, count):
    return [
        mechanism.error().pmf(answer, count) for answer in range(mechanism.low, mechanism.high + 1)
    ]


def test_truncated_geometric_closeness():
    """Counts 0 and 1 in 0..3, and 3 and 2: the ends are where clamping the noise fails."""
    mechanism = TruncatedGeometric.for_epsilon(1, low=0, high=3)
    drawn = {
        count: mechanism.release(np.full(40_000, count), source=Seeded(count)) for count in range(4)
    }
    for one, two in ((0, 1), (2, 3)):
        assert_close(drawn[one], drawn[two], pure_epsilon(mechanism.loss()))
    for count, answers in drawn.items():
        assert_law(answers, truncated_law(mechanism, count))


def test_truncated_geometric_exact_ratio():
    """Rows sum to 1 and the largest log-ratio of neighbours is exactly eps (n = 200, eps 0.2)."""
    mechanism = TruncatedGeometric.for_epsilon(0.2, low=0, high=200)
    laws = [truncated_law(mechanism, count) for count in range(201)]
    assert all(abs(sum(law) - 1) < 1e-12 for law in laws)
    worst = max(
        abs(math.log(a / b)) for p, q in itertools.pairwise(laws) for a, b in zip(p, q, strict=True)
    )
    assert abs(worst - 0.2) < 1e-12
    a = math.exp(-0.2)
    assert (
        abs(laws[7][0] - a**7 / (1 + a)) < 1e-15 and abs(laws[190][200] - a**10 / (1 + a)) < 1e-15
    )


def staircase_pmf(epsilon, width, reach, z):
    stair, place = divmod(abs(z), width)
    return mpmath.exp(-epsilon * (stair + (place >= reach)))


@pytest.mark.parametrize(("epsilon", "width"), [(1, 1), (2, 3), (1, 5), (4, 7)])
def test_staircase_exact_ratio(epsilon, width):
    """Every reach: shifting by up to the width changes no probability by more than e^eps; total,
    mean, variance."""
    span = range(-40 * width, 40 * width + 1)
    for reach in range(1, width + 1):
        law = StaircaseErrorLaw(Fraction(epsilon), width, reach)
        weights = {z: staircase_pmf(epsilon, width, reach, z) for z in span}
        total = sum(weights.values())
        for z, shift in itertools.product(range(-3 * width, 3 * width + 1), range(1, width + 1)):
            assert abs(mpmath.log(weights[z] / weights[z + shift])) <= epsilon + 1e-12
        assert abs(law.pmf(0) - 1 / total) < 1e-12
        assert abs(law.mean_size - sum(abs(z) * w for z, w in weights.items()) / total) < 1e-9
        assert abs(law.variance - sum(z * z * w for z, w in weights.items()) / total) < 1e-8
        for t in range(1, 3 * width):
            assert (
                abs(law.tail(t) - sum(w for z, w in weights.items() if abs(z) >= t) / total) < 1e-10
            )
        assert law.tail(law.interval(0.9) + 1) <= 0.1 < law.tail(law.interval(0.9))


def test_staircase_is_never_worse_than_geometric():
    """Geng, Viswanath 2014: E|z| = D e^(eps/2) / (e^eps - 1) in the continuum; equal to geometric
    at D = 1."""
    for epsilon, width in ((1, 1), (1, 10), (2, 100), (6, 100)):
        sensitivity = Sensitivity.of(largest=width)
        ours = Staircase.for_epsilon(epsilon, sensitivity).error().mean_size
        a = math.exp(-epsilon / width)
        assert ours <= 2 * a / (1 - a * a) * (1 + 1e-9)
    best = Staircase.for_epsilon(2, Sensitivity.of(largest=1000)).error().mean_size
    assert abs(best / (1000 * math.exp(1) / (math.exp(2) - 1)) - 1) < 1e-3
    errors = [StaircaseErrorLaw(Fraction(2), 30, reach).mean_size for reach in range(1, 31)]
    assert Staircase.for_epsilon(2, Sensitivity.of(largest=30)).reach == 1 + errors.index(
        min(errors)
    )


def test_staircase_closeness():
    """A sum that moves by the whole width, and by one: both within epsilon. The draws follow the
    law."""
    mechanism = Staircase.for_epsilon(1, Sensitivity.of(largest=4))
    draw = lambda value, seed: mechanism.release(np.full(60_000, value), source=Seeded(seed))
    base = draw(0, 1)
    for value in (4, 1, 2):
        assert_close(base, draw(value, 2 + value), pure_epsilon(mechanism.loss()))
    near = np.clip(base, -12, 13) + 12
    law = mechanism.error()
    inside = [law.pmf(z) for z in range(-11, 13)]
    assert_law(near, [law.tail(12) / 2, *inside, law.tail(13) / 2])


def test_gaussian_calibration_is_for_integers():
    """Rule integer-noise-price: at (1, 1e-5) our lattice delta is within 1e-5; at sigma 3.73063 it
    is 1.0346e-5."""
    sigma = calibrations.fit_gaussian(1, 1e-5, ONE).sigma
    delta = lattice_delta(sigma, 1)
    assert delta <= mpmath.mpf(10) ** -5 < lattice_delta(sigma * Fraction(999, 1000), 1)
    assert abs(lattice_delta(Fraction("3.73063"), 1) - 1.0346e-5) < 1e-9


def test_gaussian_closeness():
    """Black box at (1, 0.01): one cell by the lattice law, and three cells moved at once by
    zCDP."""
    for sensitivity in (ONE, Sensitivity.of(cells=3)):
        mechanism = calibrations.fit_gaussian(1, 0.01, sensitivity)
        cells = np.zeros((60_000, sensitivity.l0), int)
        first = mechanism.release(cells, source=Seeded(1)).sum(axis=1)
        assert_close(first, mechanism.release(cells + 1, source=Seeded(2)).sum(axis=1), 1, 0.01)


def lattice_delta(sigma, epsilon):
    """sum over z of (P(z - 1) - e^eps P(z))+ for P(z) ~ exp(-z^2 / 2 sigma^2), in 50 digits."""
    with mpmath.workdps(50):
        s = mpmath.mpf(sigma.numerator) / sigma.denominator
        weight = lambda z: mpmath.exp(-(mpmath.mpf(z) ** 2) / (2 * s * s))
        span = range(-100, 101)
        total = sum(weight(z) for z in span)
        return sum(max(0, weight(z - 1) - mpmath.exp(epsilon) * weight(z)) for z in span) / total


def test_staircase_vectors_pay_for_every_cell():
    mechanism = Staircase.for_epsilon(1, Sensitivity.of(cells=3, largest=4))
    assert mechanism.epsilon == Fraction(1, 3) and mechanism.loss() == Pure(1)
    assert mechanism.release(np.zeros((5, 2), int)).shape == (5, 2)


def test_count_and_sum_sensitivity_by_brute_force():
    """Counts move by 1; clamped sums by max(|lo|, |hi|) when a row joins and hi - lo when it is
    replaced."""
    low, high = -2, 5
    for data in itertools.product(range(low, high + 1), repeat=2):
        for new in range(low, high + 1):
            assert abs(sum([*data, new]) - sum(data)) <= max(abs(low), abs(high))
            assert abs(sum([data[0], new]) - sum(data)) <= high - low


def test_refusals_and_warning():
    for arguments in ((0, ONE, 0, 3), (1, ONE, 3, 0), (1, ONE, 0.5, 3), (1, "one", 0, 3)):
        with pytest.raises((ParameterError, AttributeError)):
            TruncatedGeometric(*arguments)
    for arguments in (
        (0, ONE, 1),
        (1, ONE, 2),
        (1, ONE, 0),
        (1, Sensitivity.of(largest=0), 1),
        (10**6, ONE, 1),
    ):
        with pytest.raises(ParameterError):
            Staircase(*arguments)
    for mechanism in (
        Staircase.for_epsilon(1, ONE),
        TruncatedGeometric.for_epsilon(1, low=0, high=5),
    ):
        with pytest.raises(ParameterError):
            mechanism.release([0.5])
    with pytest.warns(PrivacyWarning):
        calibrations.fit_gaussian(1, 1e-3, ONE, public_size=1000)
    assert TruncatedGeometric.for_epsilon(1, low=4, high=4).release([9]).tolist() == [4]
    assert abs(LaplaceErrorLaw(Fraction(2)).variance - 7.8354) < 5e-5


def clamp_the_noise(self, values, *, source=None):
    """A printed mistake: clamps the noise to [0, n] and adds it."""
    noise = self._noise.release(np.zeros(np.shape(values), int), source=source)
    return np.clip(np.asarray(values) + np.clip(noise, 0, self.high), 0, self.high)


BUGS = {
    "geometric-one-cell-scale": Bug(
        "a vector of two moving cells at the scale of one",
        test_geometric_closeness,
        ((IntegerLaplace, "for_epsilon", classmethod(lambda cls, e,
        s: cls(Fraction(s.linf) / e, s))),
         (IntegerLaplace, "loss", lambda self: Pure(1))),
    ),
    "gaussian-continuous-sigma": Bug(
        "integer noise at the sigma of the continuous calibration (rule integer-noise-price)",
        test_gaussian_calibration_is_for_integers,
        (
            (
                calibrations,
                "fit_gaussian",
                lambda epsilon, delta, sensitivity: IntegerGaussian(Fraction("3.73063"),
                sensitivity),
            ),
        ),
    ),
    "gaussian-one-cell-sigma": Bug(
        "a vector of three moving cells at the sigma of one",
        test_gaussian_closeness,
        (
            (
                IntegerGaussian,
                "for_rho",
                classmethod(lambda cls, rho, sensitivity,
                *_: cls(Fraction(math.isqrt(int(10**6 / (2 * rho))), 1000), ONE)),
            ),
        ),
    ),
    "truncated-clamps-the-noise": Bug(
        "clamps the noise instead of the noisy count",
        test_truncated_geometric_closeness,
        ((TruncatedGeometric, "release", clamp_the_noise),),
    ),
    "staircase-scaled-like-laplace": Bug(
        "stairs of width 1 for a sum that moves by the whole width",
        test_staircase_closeness,
        ((staircase, "_draw", lambda e, width, reach, n, source,
        f=staircase._draw: f(e, 1, 1, n, source)),),
    ),
}  # fmt: skip
