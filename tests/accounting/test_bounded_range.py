"""The exponential mechanism alone and composed: the pair of bounded range."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from dither import accounting as acc
from dither.accounting.bounded_range import BoundedRangeFactor, two_losses
from tests.accounting.loss_oracles import atoms, bounded_range

PLACES = [Fraction(k, 12) for k in range(1, 12)]


@pytest.mark.parametrize("width", ["0.5", 3])
def test_one_mechanism_has_the_worst_of_two_losses(width):
    """The closed form is the largest over t of the curves with losses t and t - eta."""
    with mpmath.workdps(40):
        eta = mpmath.mpf(str(width))
        for epsilon in ("0", "0.1", "0.4"):
            bounds = acc.delta(acc.BoundedRange(width), epsilon)
            truth = bounded_range(eta)(mpmath.mpf(epsilon))
            assert bounds.lower <= truth <= bounds.upper <= truth * (1 + 1e-14)
            for share in PLACES:
                top = eta * share.numerator / share.denominator
                upper = (mpmath.exp(eta) - mpmath.exp(top)) / mpmath.expm1(eta)
                curve = atoms([(top, upper), (top - eta, 1 - upper)])
                assert curve(mpmath.mpf(epsilon)) <= truth * (1 + mpmath.mpf(10) ** -12)


@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("delta", ["1e-2", "1e-4"])
def test_no_list_of_exponential_mechanisms_exceeds_the_composition(count, delta):
    """Every list of losses on a mesh of twelfths, by enumeration; the lower end is one of them."""
    eta = mpmath.mpf(1)
    bounds = acc.epsilon(acc.BoundedRange(1) * count, delta)
    worst = mpmath.mpf(0)
    for shares in itertools.combinations_with_replacement(PLACES, count):
        laws = []
        for share in shares:
            top = eta * share.numerator / share.denominator
            upper = (mpmath.exp(eta) - mpmath.exp(top)) / mpmath.expm1(eta)
            laws.append([(top, upper), (top - eta, 1 - upper)])
        pairs = [
            (mpmath.fsum(z for z, _ in draw), mpmath.fprod(mass for _, mass in draw))
            for draw in itertools.product(*laws)
        ]
        worst = max(worst, atoms(pairs)(mpmath.mpf(bounds.upper)))
    assert worst <= mpmath.mpf(delta)
    assert bounds.upper < float(count)
    assert bounds.lower > 0.85 * bounds.upper


def test_the_transform_against_mpmath():
    factor = BoundedRangeFactor(Fraction(3, 10), 1)
    for c, y in ((0.5, 0.0), (4.0, 7.0), (30.0, 200.0), (1.0, 1e-3)):
        logs, error = factor.log_mgf(c, np.array([y]), 1e-16)
        with mpmath.workdps(40):
            s = mpmath.mpc(c, y)
            eta = mpmath.mpf(3) / 10
            truth = mpmath.sinh((s + 0.5) * eta) / ((2 * s + 1) * mpmath.sinh(eta / 2))
            ratio = mpmath.exp(mpmath.mpc(complex(logs[0]))) / truth
            assert abs(ratio - 1) <= mpmath.mpf(float(error[0])) * 2
        assert error[0] < 1e-12


def test_decay_bounds_every_later_node():
    for eta, c, y in (
        (Fraction(1, 10), 3.0, 20.0),
        (Fraction(2), 1.0, 5.0),
        (Fraction(1), 20.0, 1.0),
    ):
        factor = BoundedRangeFactor(eta, 1)
        nodes = y * np.array([0.0, 1.0, 1.3, 2.0, 5.0, 11.0])
        logs, _ = factor.log_mgf(c, nodes, 1e-12)
        fall = factor.decay(c, y)
        assert fall < 0
        assert np.all(logs.real[1:] - logs.real[0] <= fall + 1e-9)


def test_the_mechanism_below_sums_to_one_on_both_sides():
    law = two_losses(Fraction(2), Fraction(3, 4), 1)
    assert math.fsum(law.masses) == pytest.approx(1, rel=1e-14)
    assert math.fsum(law.masses * np.exp(-law.losses)) == pytest.approx(1, rel=1e-14)
