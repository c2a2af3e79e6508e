"""The exponential mechanism alone and composed: the pair of bounded range."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy.stats import binom

from dither import accounting as acc
from dither.accounting.adaptive_range import solve_recursion
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


def _curve_of_one(width, x):
    """V_1 in closed form (docs/proofs/composition.md, section 11)."""
    inside = np.exp(np.clip(x, -width, width) / 2)
    value = (math.exp(width / 2) - inside) ** 2 / math.expm1(width)
    return np.where(x <= -width, -np.expm1(np.minimum(x, 0.0)), np.where(x >= width, 0.0, value))


@pytest.mark.parametrize("width", [0.3, 1.0, 4.0])
@pytest.mark.parametrize("share", [0.0, 0.35, 1.2])
def test_two_mechanisms_bracket_the_best_answer_to_the_first(width, share):
    """The last mechanism in closed form; the first one tried at 200,001 thresholds."""
    x = share * width
    t = np.linspace(0.0, width, 200_001)
    larger = np.expm1(t - width) / math.expm1(-width)
    reached = larger * _curve_of_one(width, x - t)
    reached += (1 - larger) * _curve_of_one(width, x - t + width)
    truth = float(reached.max())
    bounds = acc.delta(acc.BoundedRange(width) * 2, x)
    assert bounds.lower <= truth * (1 + 1e-9)
    assert truth <= bounds.upper
    assert bounds.upper - bounds.lower < 1e-3 * bounds.upper


def _fixed_in_advance(width, count, share, delta):
    """The epsilon of `count` two-point mechanisms of the same threshold (Dong et al. 2020)."""
    top = share * width
    larger = math.expm1(top - width) / math.expm1(-width)
    hits = np.arange(count + 1)
    losses = count * (top - width) + hits * width
    masses = binom.pmf(hits, count, larger)
    low, high = 0.0, width * count
    for _ in range(60):
        middle = (low + high) / 2
        value = float(masses @ np.maximum(0.0, -np.expm1(np.minimum(middle - losses, 0.0))))
        low, high = (middle, high) if value > delta else (low, middle)
    return low


@pytest.mark.parametrize(
    ("width", "count", "best_share"), [(1.0, 20, 0.715), (0.1, 100, 0.578), (0.5, 50, 0.608)]
)
def test_the_recursion_is_above_every_plan_fixed_in_advance_and_near_the_best(
    width, count, best_share
):
    """Before, the composed pair said 13.37, 2.42 and 9.77: a tenth above the truth."""
    bounds = acc.epsilon(acc.BoundedRange(width) * count, "1e-6")
    fixed = _fixed_in_advance(width, count, best_share, 1e-6)
    assert fixed < bounds.upper < 1.02 * fixed
    assert bounds.upper - bounds.lower < 2e-3 * bounds.upper


@pytest.mark.parametrize("cells", [3, 6, 12])
def test_a_coarse_grid_from_above_holds_a_fine_one_from_below(cells):
    fine = solve_recursion(1.0 / 240, 240, 5, "lower")
    coarse = solve_recursion(1.0 / cells, cells, 5, "upper")
    shared = fine.values[:: 240 // cells]
    assert np.all(coarse.values >= shared)
    lower = solve_recursion(1.0 / cells, cells, 5, "lower")
    assert np.all(lower.values <= shared * (1 + 1e-9))


def test_a_grid_that_forgets_the_maximum_inside_its_cells_is_caught():
    """Planted bug: thresholds on the grid alone, called an upper bound."""
    fine = solve_recursion(1.0 / 240, 240, 5, "lower")
    planted = solve_recursion(1.0 / 3, 3, 5, "lower")
    assert not np.all(planted.values >= fine.values[::80])


def test_ranges_that_differ_take_the_composed_pair():
    mixed = acc.epsilon(acc.BoundedRange(1) * 5 + acc.BoundedRange("0.9") * 5, "1e-6")
    alike = acc.epsilon(acc.BoundedRange(1) * 10, "1e-6")
    assert mixed.lower < alike.upper
    assert acc.epsilon(acc.BoundedRange(1) * 5, "1e-6", engine="contour").upper > 4.6
