"""Teaching mechanisms: corrected local sensitivity by brute force, smoothness, snapping's grid,
closeness."""

import itertools
import math
import subprocess
import sys

import numpy as np
import pytest

from dither.audit.zoo import ALPHA
from dither.errors import ParameterError
from tests.case_lists import mark_rest
from tests.example_files import EXAMPLES, load_example
from tests.mechanisms.closeness import assert_close
from tests.mechanisms.planted import Bug
from tests.mechanisms.seeded import Seeded

SmoothMedian = load_example("teaching/smooth_median.py").SmoothMedian
Snapping = load_example("teaching/snapping.py").Snapping

LARGEST = 4


def median(values):
    return sorted(values)[(len(values) + 1) // 2 - 1]


def brute_local(values, distance):
    """max over data within `distance` replacements of the largest move of the median by one
    more."""
    n, best = len(values), 0
    near = [
        y
        for y in itertools.product(range(LARGEST + 1), repeat=n)
        if sum(a != b for a, b in zip(values, y, strict=True)) <= distance
    ]
    for y in near:
        for i, new in itertools.product(range(n), range(LARGEST + 1)):
            best = max(best, abs(median(y) - median((*y[:i], new, *y[i + 1 :]))))
    return best


def test_local_sensitivity_by_brute_force():
    """LS^(k) = max over 0 <= t <= k+1 of x_(m+t) - x_(m+t-k-1)."""
    mechanism = SmoothMedian(1.0, 1e-6, LARGEST)
    for values in itertools.combinations_with_replacement(range(0, LARGEST + 1, 2), 3):
        for distance in range(3):
            assert mechanism.local_sensitivity(values, distance) == brute_local(values, distance), (
                values,
                distance,
            )


def test_smooth_sensitivity_is_smooth():
    """S(D) <= e^beta S(D') for replaced neighbours (multiplicative: errata)."""
    mechanism = SmoothMedian(1.0, 0.1, LARGEST)
    data = list(itertools.product(range(LARGEST + 1), repeat=3))
    smooth = {values: mechanism.smooth_sensitivity(values) for values in data}
    for values in data:
        assert smooth[values] >= mechanism.local_sensitivity(values, 0)
        for i, new in itertools.product(range(3), range(LARGEST + 1)):
            other = (*values[:i], new, *values[i + 1 :])
            assert smooth[values] <= math.exp(mechanism.beta) * smooth[other] * (1 + 1e-12)


def test_smooth_median_numbers_and_closeness():
    """A7: even grid on [0, 1000], eps 1, delta 1e-6: S = 110.5 / 11.05 at n = 101 / 1001, beta
    0.03446."""
    even = SmoothMedian(1.0, 1e-6, 1000)
    assert abs(even.beta - 0.03446) < 5e-6
    for n, printed in ((101, 110.5), (1001, 11.05)):
        values = np.linspace(0, 1000, n).astype(int)
        assert even.local_sensitivity(values, 0) == 1000 // (n - 1)
        assert abs(even.smooth_sensitivity(values) / printed - 1) < 1e-3
    mechanism = SmoothMedian(1.0, 0.01, 100)
    draw = lambda values, seed: np.array(
        [
            round(mechanism.release(values, source=source))
            for source in [Seeded(seed)]
            for _ in range(1_200)
        ]
    )
    assert_close(draw([0] * 11, 1), draw([0] * 10 + [100], 2), 1, 0.01)


def snapped(mechanism, value, seed, count=1_500):
    source = Seeded(seed)
    return np.array([mechanism.release(value, source=source) for _ in range(count)])


def test_snapping_stays_on_its_grid_and_close():
    """Outputs of neighbours share one grid: no output tells them apart (Mironov); and the claim
    holds."""
    mechanism = Snapping(1.0, 64.0)
    assert mechanism.grid == 1.0 and abs(mechanism.epsilon - 1) < 1e-12
    assert Snapping(3.0, 64.0).grid == 4.0
    one, two = snapped(mechanism, 0.0, 1), snapped(mechanism, 1.0, 2)
    for answers in (one, two):
        assert (np.abs(answers) <= 64).all() and (answers % mechanism.grid == 0).all()
    assert_close(one, two, mechanism.epsilon)


@pytest.mark.parametrize(
    "file", mark_rest(sorted(file.name for file in (EXAMPLES / "teaching").glob("*.py")), quick=1)
)
def test_the_auditor_does_not_accuse_them(file):
    """One false alarm in 1 / ALPHA runs of this test; more runs of each in the soak of
    tests/audit/test_zoo.py."""
    assert not load_example(f"teaching/{file}").make_subject().audit(300, ALPHA).violated


def test_unreachable_from_the_privacy_layer():
    """No module of the privacy layer loads anything of dither.audit; the teaching mechanisms are
    not even installed."""
    script = (
        "import pkgutil, sys, importlib, dither.privacy as p\n"
        "[importlib.import_module(m.name) for m in pkgutil.walk_packages(p.__path__, "
        "'dither.privacy.')]\n"
        "assert not [name for name in sys.modules if name.startswith('dither.audit')]"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_refusals():
    for arguments in ((0, 0.1, 1), (1, 0, 1), (1, 0.1, 0), (1, 0.1, 1, "add_remove")):
        with pytest.raises(ParameterError):
            SmoothMedian(*arguments)
    with pytest.raises(ParameterError):
        SmoothMedian(1.0, 0.1, 5).release([])
    for arguments in ((0, 1), (2, 1), (1, 2.0**50)):
        with pytest.raises(ParameterError):
            Snapping(*arguments)
    assert not hasattr(
        SmoothMedian(1.0, 0.1, 5), "error"
    )  # no interval: its scale depends on the data


def printed_formula(self, values, distance):
    """As the book prints it: x_(m+t) - x_(m+t+k-1)."""
    ordered = sorted(values)
    middle = (len(ordered) + 1) // 2 - 1
    at = lambda i: 0 if i < 0 else self.largest if i >= len(ordered) else ordered[i]
    return max(abs(at(middle + t) - at(middle + t + distance - 1)) for t in range(distance + 2))


BUGS = {
    "smooth-median-printed-formula": Bug(
        "LS^(k) as the book prints it",
        test_local_sensitivity_by_brute_force,
        ((SmoothMedian, "local_sensitivity", printed_formula),),
    ),
    "snapping-without-rounding": Bug(
        "naive double-precision Laplace: outputs of neighbours have different holes",
        test_snapping_stays_on_its_grid_and_close,
        ((Snapping, "round", lambda self, value: value),),
    ),
}
