"""The error law of box noise against sums over the lattice: what is said of a tail certainly holds,
and is near."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from mpmath import mp, mpf

from dither.laws import BoxErrorLaw
from dither.laws import box as box_error
from tests.case_lists import mark_rest
from tests.evidence import to_real
from tests.mechanisms.lattice import Lattice, norm
from tests.mechanisms.planted import Bug


def test_shells_and_a_plain_sum_over_all_integers_agree():
    sides, scale = (1, 3), Fraction(2, 3)
    with mp.workdps(40):
        law = Lattice(sides, scale)
        plain = {
            z: mp.exp(-to_real(norm(z, sides) / scale))
            for z in itertools.product(range(-40, 41), range(-120, 121))
        }
        assert abs(sum(plain.values()) / law.whole - 1) < mpf(10) ** -22
        for t in (1, 2, 9):
            assert (
                abs(
                    sum(p for z, p in plain.items() if abs(z[1]) >= t) / law.whole / law.tail(1, t)
                    - 1
                )
                < mpf(10) ** -20
            )
        assert (
            abs(sum(p * z[0] ** 2 for z, p in plain.items()) / law.whole / law.variance(0) - 1)
            < mpf(10) ** -20
        )


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
            yield BoxErrorLaw(sides, Fraction(scale), column), exact, column


def places(law):
    """t = 1, small and large, around the last place of the mixture, and where probabilities are
    near 1e-280."""
    found = (
        int(Fraction(x) * law.sides[law.column] * law.scale)
        for x in (0, 0.5, 1, 2, 5, 20, 50, 78, 79, 80, 81, 85, 640)
    )
    return sorted({t + k for t in found for k in (0, 1)} | {2, 3})


MISSES = [
    Fraction(miss)
    for miss in ("1/2", "1/20", "1/1000", "1e-8", "1e-33", "1e-35", "1e-100", "1e-270")
]


def test_box_tails_and_intervals_hold():
    """Against sums over the lattice: a tail is never below the truth, an interval never covers less
    than its level."""
    with mp.workdps(60):
        for law, exact, column in laws():
            for t in places(law):
                assert (
                    exact.tail(column, t) <= law.tail(t) or exact.tail(column, t) < mpf(10) ** -300
                ), (law, t)
            for miss in MISSES:
                assert exact.tail(column, law.interval(1 - miss) + 1) <= to_real(miss), (law, miss)


@pytest.mark.all
def test_box_tails_and_intervals_are_tight():
    """A tail is above the truth by 3 % (beyond r = 70 by 60 %), an interval by one or a part in
    300."""
    with mp.workdps(60):
        for law, exact, column in laws():
            unit = law.sides[column] * law.scale
            for t in places(law):
                if exact.tail(column, t) > mpf(10) ** -290:
                    assert law.tail(t) <= (1.03 if t < 70 * unit else 1.6) * exact.tail(
                        column, t
                    ), (law, t)
            for miss in MISSES:
                half = law.interval(1 - miss)
                narrower = half - 1 - max(1, half // 300)
                assert narrower < 0 or exact.tail(column, narrower + 1) > to_real(miss), (law, miss)


def test_a_tail_too_small_for_a_float_is_still_above_zero():
    law = BoxErrorLaw((1, 3), Fraction(1, 2), 0)
    assert 0 < law.tail(10**6) <= law.tail(400) < 1e-290


def plane_tail(count, x):
    """Of the law on the plane: the norm r with the mass e^-r r^d / d! of the mixture, a number
    uniform in [-r, r]."""
    return mp.gammainc(count + 1, x, regularized=True) - x / count * mp.gammainc(
        count, x, regularized=True
    )


@pytest.mark.parametrize(
    ("sides", "scale"),
    [
        ((1, 1), 2**59),
        ((1, 2**50), 2**8),
        ((1,) * 4, 2**58),
        ((3, 2**30, 7), 2**20 + 1),
        ((1, 500), 1000),
    ],
)
def test_units_beyond_the_floats_have_tails_and_intervals_that_hold(sides, scale):
    """Against the law on the plane, between half a step below and above t; sides of 256 and up, off
    by 1e-3 at most."""
    count = len(sides)
    with mp.workdps(40):
        for column in range(count):
            law, unit = BoxErrorLaw(sides, Fraction(scale), column), sides[column] * scale
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
                half = (
                    mpf(
                        law.interval(
                            1 - Fraction(str(miss)) if miss > 1e-3 else 1 - Fraction(1, 10**9)
                        )
                    )
                    / unit
                )
                assert (
                    plane_tail(count, half * (1 + mpf(2) / unit))
                    <= miss
                    <= plane_tail(count, half * mpf("0.9965"))
                )


def test_the_variance_is_that_of_the_lattice_and_half_of_two_laplaces():
    for sides, scale in ((sides, Fraction(scale)) for sides, scale in LAWS):
        with mp.workdps(40):
            exact = Lattice(sides, scale, 200 if scale > Fraction(1, 100) else 760)
            for column in range(len(sides)):
                assert BoxErrorLaw(sides, scale, column).variance == pytest.approx(
                    float(exact.variance(column)), rel=1 / 200, abs=0
                )
    for count, share in ((2, Fraction(1, 2)), (3, Fraction(10, 27)), (4, Fraction(5, 16))):
        laplaces = (
            2 * (count * 7 * 1000) ** 2
        )  # each number at the scale that its part of the price buys
        law = BoxErrorLaw((7,) * count, Fraction(1000), 1)
        assert law.variance == pytest.approx((count + 1) * (count + 2) / 3 * 7000**2, rel=1e-4)
        assert law.variance / laplaces == pytest.approx(float(share), rel=1e-4)


def cube(count, dimensions):
    """Points that fill the unit cube evenly: multiples of the powers of the root of x^(d+1) = x +
    1."""
    root = float(mp.findroot(lambda x: x ** (dimensions + 1) - x - 1, 1.2))
    return (np.outer(np.arange(1, count + 1), root ** -np.arange(1.0, dimensions + 1)) + 0.5) % 1


BOXES = [((1, 3), Fraction(1, 2)), ((1, 2, 2), Fraction(3)), ((1, 40), Fraction(5))]


@pytest.mark.parametrize(("sides", "scale"), mark_rest(BOXES, quick=2))
def test_noise_at_points_of_the_cube_follows_the_law_of_several_numbers(sides, scale):
    points, law = cube(1 << 18, 3), Lattice(sides, scale, 60)
    both = BoxErrorLaw(sides, scale, 0).draw_together((0, 1), points)
    assert np.array_equal(both, np.rint(both))
    for column in (0, 1):
        for t in (1, 2, int(2 * sides[column] * scale), int(6 * sides[column] * scale)):
            assert (np.abs(both[:, column]) >= t).mean() == pytest.approx(
                float(law.tail(column, t)), abs=0.002
            )
    assert abs(np.corrcoef(both.T)[0, 1]) < 1e-3  # the signs are independent, the sizes are not
    for s, t in ((1, 1), (2, sides[1]), (int(2 * scale) + 1, int(2 * sides[1] * scale))):
        jointly = sum(
            mass
            * 2
            * max(0, n[0] - s + 1)
            / (2 * n[0] + 1)
            * 2
            * max(0, n[1] - t + 1)
            / (2 * n[1] + 1)
            for n, mass in law.shells
        )
        found = ((np.abs(both[:, 0]) >= s) & (np.abs(both[:, 1]) >= t)).mean()
        assert found == pytest.approx(float(jointly / law.whole), abs=0.002)


def test_noise_at_the_faces_of_the_cube_stays_within_its_box():
    law = BoxErrorLaw((1, 3), Fraction(7), 0)
    corners = law.draw_together(
        (0, 1), np.array([[0.5, 0.0, 1.0], [0.5, 1.0, 0.0], [0.0, 1.0, 1.0]])
    )
    assert corners[0].tolist() == (-corners[1]).tolist() and corners[0, 1] > 0
    assert corners[2].tolist() == [0, 0]


right_mixture = box_error._mixture


def from_lower_ends(sides, scale):
    found = right_mixture(sides, scale)
    return found._replace(largest=found.least, end=found.end - found.reach / len(found.end))


UNREMEMBERED = tuple(
    (box_error, name, getattr(box_error, name).__wrapped__) for name in ("_ahead", "_interval")
)
"""What was computed before a bug is switched in must not hide it, nor what it computes stay."""
BUGS = {
    "box-tail-from-lower-ends": Bug(
        "each step of the mixture by its lower end",
        test_box_tails_and_intervals_hold,
        ((box_error, "_mixture", from_lower_ends), *UNREMEMBERED),
    ),
    "box-nothing-beyond": Bug(
        "what lies beyond the last place of the mixture left out",
        test_box_tails_and_intervals_hold,
        ((BoxErrorLaw, "_beyond", lambda *_: 0.0), *UNREMEMBERED),
    ),
}
