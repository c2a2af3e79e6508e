"""Box noise: the law, the price of every neighbour, and the error law against sums over the lattice."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from closeness import assert_close, assert_law, pure_epsilon
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp, mpf
from planted import Bug
from seeded import Seeded

from dither.errors import ParameterError
from dither.plan.sensitivity import Sensitivity
from dither.privacy.losses import Pure
from dither.privacy.mechanisms import IntegerBox, box, box_error
from dither.privacy.mechanisms.box_error import BoxError
from dither.privacy.noise import box as sampler
from dither.privacy.noise import discrete_laplace
from sources import Refusing


def norm(z, sides):
    return max(Fraction(abs(value), side) for value, side in zip(z, sides, strict=True))


def real(x):
    return mpf(x.numerator) / x.denominator


class Lattice:
    """P(z) ~ exp(-norm(z) / scale), summed over integers: shell by shell between the norms that occur.

    Up to norm r there are prod(2 floor(r side) + 1) integers, of which a share of 2 (n - t + 1) / (2 n + 1) has a
    number of at least t in size, n = floor(r side). `far` is in units of the scale.
    """

    def __init__(self, sides, scale, far=120):
        self.sides, self.scale = sides, scale
        last = int(far * scale * max(sides)) + max(sides)
        norms = sorted(
            {Fraction(k, side) for side in sides for k in range(last) if Fraction(k, side) <= far * scale + 1}
        )
        weights = [mp.exp(-real(at / scale)) for at in norms]
        self.shells = []
        for at, weight, after in zip(norms, weights, [*weights[1:], mpf(0)], strict=True):
            reach = [at.numerator * side // at.denominator for side in sides]
            self.shells.append((reach, (weight - after) * math.prod(2 * n + 1 for n in reach)))
        self.whole = sum(mass for _, mass in self.shells)
        self.above = [self._above(column) for column in range(len(sides))]

    def _above(self, column):
        """By t: the sums over all n >= t of 2 mass / (2 n + 1) and of (n + 1) times that."""
        last = self.shells[-1][0][column]
        found = [mpf(0)] * (last + 2)
        for reach, mass in self.shells:
            found[reach[column]] += 2 * mass / (2 * reach[column] + 1)
        sums = [(mpf(0), mpf(0))]
        for n in range(last + 1, -1, -1):
            sums.append((sums[-1][0] + found[n], sums[-1][1] + (n + 1) * found[n]))
        return sums[:0:-1]

    def pmf(self, z):
        return mp.exp(-real(norm(z, self.sides) / self.scale)) / self.whole

    def tail(self, column, t):
        plain, times = self.above[column][t] if t < len(self.above[column]) else (mpf(0), mpf(0))
        return (times - t * plain) / self.whole if t > 0 else mpf(1)

    def variance(self, column):
        return sum(mass * n[column] * (n[column] + 1) / 3 for n, mass in self.shells) / self.whole


def test_shells_and_a_plain_sum_over_all_integers_agree():
    sides, scale = (1, 3), Fraction(2, 3)
    with mp.workdps(40):
        law = Lattice(sides, scale)
        plain = {z: mp.exp(-real(norm(z, sides) / scale)) for z in itertools.product(range(-40, 41), range(-120, 121))}
        assert abs(sum(plain.values()) / law.whole - 1) < mpf(10) ** -22
        for t in (1, 2, 9):
            assert (
                abs(sum(p for z, p in plain.items() if abs(z[1]) >= t) / law.whole / law.tail(1, t) - 1)
                < mpf(10) ** -20
            )
        assert abs(sum(p * z[0] ** 2 for z, p in plain.items()) / law.whole / law.variance(0) - 1) < mpf(10) ** -20


BOXES = [
    ((1, 2), Fraction(1)),
    ((1, 1), Fraction(1, 2)),
    ((3, 40), Fraction(1)),
    ((1, 2, 1), Fraction(1)),
    ((1,) * 4, Fraction(1, 2)),
]


def test_box_draws_follow_the_law():
    """Every integer near zero by itself, all others together, by exact binomial tails; seeded: a fixed verdict."""
    for place, (sides, scale) in enumerate(BOXES):
        reach = [2 if len(sides) > 2 else 4] * len(sides)
        near = list(itertools.product(*(range(-n, n + 1) for n in reach)))
        law = Lattice(sides, scale, 40)
        inside = [float(law.pmf(z)) for z in near]
        drawn = IntegerBox(scale, sides, 1).release(np.zeros((40_000, len(sides)), int), source=Seeded(place))
        codes = np.ravel_multi_index(tuple(np.clip(drawn.T + reach[0], 0, 2 * reach[0])), [2 * n + 1 for n in reach])
        outside = (np.abs(drawn) > reach[0]).any(axis=1)
        assert_law(np.where(outside, len(near), codes), [*inside, 1 - sum(inside)])
        assert_moments(drawn, law)


def assert_moments(drawn, law):
    """The mean squares, to seven standard errors of their own law (a bound, not an exact level: seeded draws)."""
    for column in range(drawn.shape[1]):
        squares = drawn[:, column].astype(float) ** 2
        assert abs(squares.mean() - float(law.variance(column))) < 7 * squares.std() / math.sqrt(len(squares))


def changes(sides, cells, rows):
    """All changes of a few cells that `rows` rows can make: sum over cells of the norm at most rows."""
    one = [tuple(range(-rows * side, rows * side + 1)) for side in sides]
    for change in itertools.product(itertools.product(*one), repeat=cells):
        if sum(norm(cell, sides) for cell in change) <= rows:
            yield change


@pytest.mark.parametrize(
    ("sides", "cells", "rows"), [((1, 2), 1, 2), ((2, 3), 1, 1), ((1, 1, 2), 1, 1), ((1, 2), 2, 1)]
)
def test_no_ratio_of_neighbours_exceeds_the_charged_epsilon_and_the_corner_meets_it(sides, cells, rows):
    """Exactly, in fractions: the logarithm of a ratio is the difference of norms over the scale."""
    mechanism = IntegerBox.for_epsilon(Fraction(3, 7), sides, rows)
    epsilon = pure_epsilon(mechanism.loss())
    assert epsilon <= Fraction(3, 7)
    worst = Fraction(0)
    span = range(-4, 5) if cells == 1 else range(-2, 3)
    outputs = list(itertools.product(itertools.product(span, repeat=len(sides)), repeat=cells))
    before = [sum(norm(cell, sides) for cell in output) for output in outputs]
    for change in changes(sides, cells, rows):
        for output, had in zip(outputs, before, strict=True):
            moved = (tuple(a - b for a, b in zip(x, y, strict=True)) for x, y in zip(output, change, strict=True))
            worst = max(worst, (sum(norm(cell, sides) for cell in moved) - had) / mechanism.scale)
    assert worst == epsilon


def test_box_closeness():
    """A person with two rows: both at a corner of one cell, or one in each of two cells. Seeded; false alarm 1e-9."""
    mechanism = IntegerBox.for_epsilon(1, (1, 3), rows=2)
    assert mechanism.loss() == Pure(1)
    for place, change in enumerate(([[2, 6], [0, 0]], [[1, 3], [1, -3]], [[2, -6], [0, 0]], [[1, 0], [0, 3]])):
        seen = []
        for cells, seed in (([[0, 0], [0, 0]], 2 * place), (change, 2 * place + 1)):
            drawn = mechanism.release(np.tile(cells, (60_000, 1)), source=Seeded(seed)).reshape(-1, 4)
            # in which step of half the move each number lies: few outputs, and the whole shift between neighbours
            step = np.sign(np.array(change).ravel()) * (drawn - np.array(change).ravel() / 2)
            seen.append((np.clip(np.floor(step + 0.5), -1, 1) + 1) @ [1, 3, 9, 27])
        assert_close(seen[0].astype(int), seen[1].astype(int), pure_epsilon(mechanism.loss()))


@settings(max_examples=200)
@given(
    st.fractions(Fraction(1, 10**6), 900), st.lists(st.integers(1, 10**6), min_size=2, max_size=4), st.integers(1, 99)
)
def test_the_charged_loss_never_exceeds_the_price_asked(epsilon, sides, rows):
    mechanism = IntegerBox.for_epsilon(epsilon, tuple(sides), rows, neighbours="replace", unit="person")
    loss = mechanism.loss()
    assert loss == Pure(rows / mechanism.scale, neighbours="replace", unit="person")
    assert epsilon * (1 - Fraction(1, 2**18)) <= loss.epsilon <= epsilon or mechanism.scale == Fraction(1, 1000)


LAWS = [
    *(((1, 3), scale) for scale in ("1/2", "3")),
    ((1, 1), "1/3"),
    ((1, 50), "1/10"),
    ((7, 1, 1), "9/100"),
    ((2, 3, 5), "1"),
    ((1, 1, 1, 1), "1/2"),
    ((1, 2, 3, 4), "1/5"),
    # one step of the narrow side needs r = 80: all of its tail lies where the places once ended
    ((1, 1), "1/81"),
    ((1, 1, 1, 1), "1249/100000"),
    ((1, 1), "1/600"),
]


def laws():
    """(sides, scale, column, the exact law) of every case, at 60 digits."""
    for sides, scale in LAWS:
        exact = Lattice(sides, Fraction(scale), 760)
        for column in {0, len(sides) - 1}:
            yield BoxError(sides, Fraction(scale), column), exact, column


def places(law):
    """t = 1, small and large, around the last place of the mixture, and where probabilities are near 1e-280."""
    found = (
        int(Fraction(x) * law.sides[law.column] * law.scale) for x in (0, 0.5, 1, 2, 5, 20, 50, 78, 79, 80, 81, 85, 640)
    )
    return sorted({t + k for t in found for k in (0, 1)} | {2, 3})


MISSES = [Fraction(miss) for miss in ("1/2", "1/20", "1/1000", "1e-8", "1e-33", "1e-35", "1e-100", "1e-270")]


def test_box_tails_and_intervals_hold():
    """Against sums over the lattice: a tail is never below the truth, an interval never covers less than its level."""
    with mp.workdps(60):
        for law, exact, column in laws():
            for t in places(law):
                assert exact.tail(column, t) <= law.tail(t) or exact.tail(column, t) < mpf(10) ** -300, (law, t)
            for miss in MISSES:
                assert exact.tail(column, law.interval(1 - miss) + 1) <= real(miss), (law, miss)


def test_box_tails_and_intervals_are_tight():
    """A tail is above the truth by 3 % (beyond r = 70 by 60 %), an interval by one or a part in 300."""
    with mp.workdps(60):
        for law, exact, column in laws():
            unit = law.sides[column] * law.scale
            for t in places(law):
                if exact.tail(column, t) > mpf(10) ** -290:
                    assert law.tail(t) <= (1.03 if t < 70 * unit else 1.6) * exact.tail(column, t), (law, t)
            for miss in MISSES:
                half = law.interval(1 - miss)
                narrower = half - 1 - max(1, half // 300)
                assert narrower < 0 or exact.tail(column, narrower + 1) > real(miss), (law, miss)


def test_a_tail_too_small_for_a_float_is_still_above_zero():
    law = BoxError((1, 3), Fraction(1, 2), 0)
    assert 0 < law.tail(10**6) <= law.tail(400) < 1e-290


def plane_tail(count, x):
    """Of the law on the plane: the norm r with the mass e^-r r^d / d! of the mixture, a number uniform in [-r, r]."""
    return mp.gammainc(count + 1, x, regularized=True) - x / count * mp.gammainc(count, x, regularized=True)


@pytest.mark.parametrize(
    ("sides", "scale"),
    [((1, 1), 2**59), ((1, 2**50), 2**8), ((1,) * 4, 2**58), ((3, 2**30, 7), 2**20 + 1), ((1, 500), 1000)],
)
def test_units_beyond_the_floats_have_tails_and_intervals_that_hold(sides, scale):
    """Against the law on the plane, between half a step below and above t; sides of 256 and up, off by 1e-3 at most."""
    count = len(sides)
    with mp.workdps(40):
        for column in range(count):
            law, unit = BoxError(sides, Fraction(scale), column), sides[column] * scale
            if unit < 1000:
                continue
            for x in (0.01, 1, 4, 20, 79.9, 80.1, 200, 640):
                t = int(Fraction(x) * unit)
                assert (
                    plane_tail(count, mpf(t) / unit)
                    <= law.tail(t) * (1 + mpf(2) / unit)
                    <= 1.2 * plane_tail(count, mpf(t) / unit)
                )
            for miss in (mpf("0.5"), mpf("0.05"), mpf("1e-9")):
                half = mpf(law.interval(1 - Fraction(str(miss)) if miss > 1e-3 else 1 - Fraction(1, 10**9))) / unit
                assert plane_tail(count, half * (1 + mpf(2) / unit)) <= miss <= plane_tail(count, half * mpf("0.9965"))


def test_the_variance_is_that_of_the_lattice_and_half_of_two_laplaces():
    for sides, scale in ((sides, Fraction(scale)) for sides, scale in LAWS):
        with mp.workdps(40):
            exact = Lattice(sides, scale, 200 if scale > Fraction(1, 100) else 760)
            for column in range(len(sides)):
                assert BoxError(sides, scale, column).variance == pytest.approx(
                    float(exact.variance(column)), rel=1 / 200, abs=0
                )
    for count, share in ((2, Fraction(1, 2)), (3, Fraction(10, 27)), (4, Fraction(5, 16))):
        laplaces = 2 * (count * 7 * 1000) ** 2  # each number at the scale that its part of the price buys
        law = BoxError((7,) * count, Fraction(1000), 1)
        assert law.variance == pytest.approx((count + 1) * (count + 2) / 3 * 7000**2, rel=1e-4)
        assert law.variance / laplaces == pytest.approx(float(share), rel=1e-4)


def cube(count, dimensions):
    """Points that fill the unit cube evenly: multiples of the powers of the root of x^(d+1) = x + 1."""
    root = float(mp.findroot(lambda x: x ** (dimensions + 1) - x - 1, 1.2))
    return (np.outer(np.arange(1, count + 1), root ** -np.arange(1.0, dimensions + 1)) + 0.5) % 1


@pytest.mark.parametrize(
    ("sides", "scale"), [((1, 3), Fraction(1, 2)), ((1, 2, 2), Fraction(3)), ((1, 40), Fraction(5))]
)
def test_noise_at_points_of_the_cube_follows_the_law_of_several_numbers(sides, scale):
    points, law = cube(1 << 18, 3), Lattice(sides, scale, 60)
    both = BoxError(sides, scale, 0).together((0, 1), points)
    assert np.array_equal(both, np.rint(both))
    for column in (0, 1):
        for t in (1, 2, int(2 * sides[column] * scale), int(6 * sides[column] * scale)):
            assert (np.abs(both[:, column]) >= t).mean() == pytest.approx(float(law.tail(column, t)), abs=0.002)
    assert abs(np.corrcoef(both.T)[0, 1]) < 1e-3  # the signs are independent, the sizes are not
    for s, t in ((1, 1), (2, sides[1]), (int(2 * scale) + 1, int(2 * sides[1] * scale))):
        jointly = sum(
            mass * 2 * max(0, n[0] - s + 1) / (2 * n[0] + 1) * 2 * max(0, n[1] - t + 1) / (2 * n[1] + 1)
            for n, mass in law.shells
        )
        found = ((np.abs(both[:, 0]) >= s) & (np.abs(both[:, 1]) >= t)).mean()
        assert found == pytest.approx(float(jointly / law.whole), abs=0.002)


def test_noise_at_the_faces_of_the_cube_stays_within_its_box():
    law = BoxError((1, 3), Fraction(7), 0)
    corners = law.together((0, 1), np.array([[0.5, 0.0, 1.0], [0.5, 1.0, 0.0], [0.0, 1.0, 1.0]]))
    assert corners[0].tolist() == (-corners[1]).tolist() and corners[0, 1] > 0
    assert corners[2].tolist() == [0, 0]


def test_one_number_of_a_box_has_its_own_scale_sensitivity_and_error():
    both = IntegerBox.for_epsilon(Fraction(1, 2), (1, 500), rows=3, unit="person")
    assert both.scale == 6 and both.side(1).scale == 3000
    assert both.side(1).sensitivity == Sensitivity.of(cells=3, largest=1500, l1=1500)
    assert both.side(1).error() == BoxError((1, 500), Fraction(6), 1)
    for column in (-1, 2, None):
        with pytest.raises(ParameterError, match="no number"):
            both.side(column)


@pytest.mark.parametrize(
    "bad",
    [
        {"scale": 0},
        {"scale": Fraction(1, 1001)},
        {"scale": float("nan")},
        {"scale": 2**60},
        {"sides": (1,)},
        {"sides": (1,) * 5},
        {"sides": ()},
        {"sides": 2},
        {"sides": "12"},
        {"sides": (1, 0)},
        {"sides": (1, -2)},
        {"sides": (1, 2.0)},
        {"sides": (1, True)},
        {"sides": (1, 2**60)},
        {"rows": 0},
        {"rows": 2.5},
        {"rows": "2"},
        {"rows": None},
        {"rows": True},
        {"neighbours": "friends"},
        {"unit": ""},
    ],
)
def test_a_box_that_means_nothing_cannot_be_built(bad):
    wanted = {"scale": Fraction(2), "sides": (1, 2), "rows": 1, **bad}
    with pytest.raises(ParameterError):
        IntegerBox(**wanted)
    if "scale" not in bad:
        del wanted["scale"]
        with pytest.raises(ParameterError):
            IntegerBox.for_epsilon(Fraction(1, 2), **wanted)


def test_a_list_of_sides_is_a_tuple_of_them():
    assert hash(IntegerBox(2, [1, 2], 1)) == hash(IntegerBox(2, (1, 2), 1))


@pytest.mark.parametrize(
    "values",
    [
        [[0.5, 1]],
        np.zeros((3, 2)),
        [[True, False]],
        [["a", "b"]],
        [[None, 1]],
        [1, 2],
        5,
        [[1, 2], [3]],
        [[1, 2, 3]],
        [[]],
        np.zeros((0, 3), int),
        np.zeros((2, 2, 2), int),
    ],
)
def test_other_values_than_rows_of_exact_integers_are_refused_before_a_word_is_drawn(values):
    with pytest.raises(ParameterError):
        IntegerBox(2, (1, 2), 1).release(values, source=Refusing())


@pytest.mark.parametrize("scale", [Fraction(1, 3), 50, 2**57])
@pytest.mark.parametrize("values", [[[1, 2], [3, 4]], np.zeros((0, 2), int), [], [[2**70, -(2**63)]], [[-1, 2**63]]])
def test_a_release_has_a_row_for_each_cell_and_exact_sums(values, scale):
    released = IntegerBox(scale, (1, 2), 1).release(values)
    given = np.array(values, object).reshape(-1, 2)
    assert released.shape == given.shape
    for noisy, value in zip(released.ravel().tolist(), given.ravel().tolist(), strict=True):
        assert type(noisy) is int and abs(noisy - value) <= 2 * 80 * max(1, scale)  # fails with probability below 1e-30
    assert (released.dtype == np.int64) == all(-(2**63) <= value < 2**63 for value in released.ravel().tolist())


def one_sign(sides, scale, count, source):
    """Sizes right, one sign for all numbers of a cell."""
    drawn = np.abs(sampler.box_noise(sides, scale, count, source))
    return drawn * (1 - 2 * (source.words(count, 1).astype(np.int64)))[:, None]


def accept_by_the_least(values, sides, scale, source):
    sizes = np.abs(values.astype(float)) / (np.array(sides) * float(scale))
    gap = sizes.mean(axis=1) - sizes.min(axis=1)
    return source.words(len(values), 53) * 2.0**-53 < np.exp(-gap)


def without_rows(cls, epsilon, sides, rows):
    return cls(1 / Fraction(epsilon), sides, rows)


right_mixture = box_error._mixture


def from_lower_ends(sides, scale):
    found = right_mixture(sides, scale)
    return found._replace(most=found.least, end=found.end - found.reach / len(found.end))


BUGS = {
    "box-keeps-all": Bug(
        "proposals released as they are",
        test_box_draws_follow_the_law,
        ((sampler, "_accepted", lambda values, *_: np.ones(len(values), bool)),),
    ),
    "box-least-for-largest": Bug(
        "kept by the least of the numbers instead of the largest",
        test_box_draws_follow_the_law,
        ((sampler, "_accepted", accept_by_the_least),),
    ),
    "box-narrow-proposals": Bug(
        "proposals of scale side * scale instead of d * side * scale",
        test_box_draws_follow_the_law,
        (
            (
                sampler,
                "discrete_laplace",
                lambda scale, count, *, source: discrete_laplace(scale / 2, count, source=source),
            ),
        ),
    ),
    "box-one-sign": Bug(
        "one sign for all numbers of a cell",
        test_box_draws_follow_the_law,
        ((box, "box_noise", one_sign),),
    ),
    "box-rows-forgotten": Bug(
        "the scale of one row for a person with two",
        test_box_closeness,
        ((IntegerBox, "for_epsilon", classmethod(without_rows)), (IntegerBox, "loss", lambda self: Pure(1))),
    ),
    "box-tail-from-lower-ends": Bug(
        "each step of the mixture by its lower end",
        test_box_tails_and_intervals_hold,
        ((box_error, "_mixture", from_lower_ends),),
    ),
    "box-nothing-beyond": Bug(
        "what lies beyond the last place of the mixture left out",
        test_box_tails_and_intervals_hold,
        ((BoxError, "_beyond", lambda *_: 0.0),),
    ),
}
