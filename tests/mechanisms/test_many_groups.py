"""Key selection where one unit may have very many keys: the threshold is found in bounded work, and
never too low."""

from __future__ import annotations

from fractions import Fraction

import pytest

from dither import ParameterError
from dither.privacy.mechanisms import GaussianKeys, TruncatedGeometricKeys
from dither.privacy.mechanisms.gaussian_keys import _power_down
from tests.time_guard import time_guard

BASES = [Fraction(1, 3), 1 - Fraction(1, 10**6), 1 - Fraction(7, 2**300), Fraction(0), Fraction(1)]


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("exponent", [1, 256, 257, 1_000, 3_001])
def test_a_power_is_rounded_down_by_less_than_it_matters(base, exponent):
    exact = base**exponent
    rounded = _power_down(base, exponent)
    assert 0 <= exact - rounded <= (1 - base) / 2**250


@pytest.mark.parametrize("groups", [10_000, 100_000, 10**9])
def test_a_threshold_for_very_many_groups_is_found(groups):
    """The exact power of a 200-bit number by 100,000 has 20 million bits: one question took
    minutes."""
    with time_guard():
        mechanism = GaussianKeys.for_rho(groups, "1e-6", groups=groups)
    assert mechanism.loss().delta <= Fraction(1, 10**6)
    assert mechanism.threshold > GaussianKeys.for_rho(1, "1e-6", groups=1).threshold


@pytest.mark.parametrize("epsilon", ["1e-400", "1e-6", "1", "1e400"])
@pytest.mark.parametrize("delta", ["1e-6", "1e-399", "1e-900"])
@pytest.mark.parametrize("groups", [1, 10**9, 10**400])
def test_keys_at_the_edge_are_selected_or_refused(epsilon, delta, groups):
    with time_guard():
        try:
            assert TruncatedGeometricKeys(epsilon, delta, groups).loss()
        except ParameterError as error:
            assert "choose" in str(error)
