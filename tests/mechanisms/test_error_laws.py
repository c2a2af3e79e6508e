"""Error laws as data: the same texts for ever, equal when read back, with defaults that are the
closed forms."""

from __future__ import annotations

import importlib
import json
import pkgutil
from fractions import Fraction as F

import numpy as np
import pytest

import dither.laws
from dither.canonical import dumps
from dither.errors import ParameterError
from dither.laws import (
    AdditiveErrorLaw,
    BoxErrorLaw,
    ErrorLaw,
    GaussianErrorLaw,
    JointQuantileErrorLaw,
    KeyChanceLaw,
    KeyErrorLaw,
    KeyThresholdLaw,
    LaplaceErrorLaw,
    QuantileErrorLaw,
    RankErrorLaw,
    RoundedGaussianErrorLaw,
    SelectionErrorLaw,
    ShownCountLaw,
    find_error_law,
    law_from_json,
    law_to_json,
    ranks,
)
from dither.laws.documents import LAWS
from dither.mechanisms import CountedKeys
from dither.plan.norms import Sensitivity
from dither.privacy.mechanisms import (
    FlippedQuantile,
    GaussianKeys,
    IntegerBox,
    IntegerGaussian,
    IntegerLaplace,
    IntegerRoundedGaussian,
    JointQuantiles,
    Quantile,
    QuantilesWithEnds,
    TruncatedGeometricKeys,
    quantiles,
)

WRITTEN = {
    LaplaceErrorLaw(F(20, 3)): '{"scale":"20/3","type":"laplace_error","v":1}',
    GaussianErrorLaw(F(5)): '{"sigma":"5/1","type":"gaussian_error","v":1}',
    BoxErrorLaw(
        (1, 500), F(7, 2), 1
    ): '{"column":1,"scale":"7/2","sides":[1,500],"type":"box_error","v":1}',
    SelectionErrorLaw(F(2)): '{"scale":"2/1","type":"selection_error","v":1}',
    QuantileErrorLaw(
        F(2), 4, 25
    ): '{"aimed_rows":25,"denominator":4,"scale":"2/1","type":"quantile_error","v":1}',
    JointQuantileErrorLaw((F(2), F(1, 3)), 2): (
        '{"aimed_rows":0,"levels":2,"row_scales":["2/1","1/3"],"type":"joint_quantile_error","v":1}'
    ),
    KeyChanceLaw((0, 2**64 - 1)): '{"type":"key_chances","v":1,"words":[0,18446744073709551615]}',
    RoundedGaussianErrorLaw(F(3, 2)): '{"sigma":"3/2","type":"rounded_gaussian_error","v":1}',
    KeyThresholdLaw(F(10), 54): '{"sigma":"10/1","threshold":54,"type":"key_threshold","v":1}',
    ShownCountLaw(F(10), 54): '{"sigma":"10/1","threshold":54,"type":"shown_count","v":1}',
}
"""What readers elsewhere hold: the same texts for ever."""
SUMS = Sensitivity.of(cells=3, largest=7)
MECHANISMS = [
    IntegerLaplace.for_epsilon(F(1, 3), SUMS),
    IntegerGaussian.for_rho(F(1, 7), SUMS),
    IntegerBox.for_epsilon(F(1, 3), (1, 500, 3), 4),
    IntegerRoundedGaussian.for_rho(F(1, 7), SUMS),
    TruncatedGeometricKeys(F(1), F(1, 10**6), 3),
    GaussianKeys.for_rho(F(1, 20), F(1, 10**6), groups=10),
    CountedKeys.for_rho(F(1, 20), F(1, 10**6), groups=10),
    Quantile(F(1, 3), F(1)),
    FlippedQuantile(F(1, 2), F(1, 3)),
    JointQuantiles(["1/10", "1/4", "1/2", "9/10"], F(1, 3), rows_per_unit=2),
    QuantilesWithEnds(JointQuantiles(["1/4", "1/2"], 1), F(1, 8), F(19, 20), 10),
]


@pytest.mark.parametrize("law", WRITTEN, ids=lambda law: type(law).__name__)
def test_a_law_is_written_as_it_was_and_read_back_equal(law: ErrorLaw) -> None:
    assert dumps(law_to_json(law)) == WRITTEN[law]
    assert law_from_json(json.loads(WRITTEN[law])) == law


def test_every_law_can_be_written_and_read() -> None:
    for info in pkgutil.iter_modules(dither.laws.__path__, "dither.laws."):
        importlib.import_module(info.name)
    kinds = {AdditiveErrorLaw, RankErrorLaw, KeyErrorLaw}
    bases = (ErrorLaw, *kinds, GaussianErrorLaw)
    laws = {law for kind in bases for law in kind.__subclasses__()} - kinds
    assert laws == set(LAWS) == {type(law) for law in WRITTEN}


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda mechanism: mechanism.stored_name)
def test_the_laws_of_every_mechanism_of_the_kernel_cross_a_wire(mechanism: object) -> None:
    numbers = len(getattr(mechanism, "sides", getattr(mechanism, "shares", (1,))))
    for column in range(numbers):
        law = find_error_law(mechanism, column)
        assert isinstance(law, ErrorLaw)
        assert law_from_json(json.loads(dumps(law_to_json(law)))) == law


@pytest.mark.parametrize("mechanism", MECHANISMS[:4], ids=lambda mechanism: mechanism.stored_name)
def test_the_kernel_and_the_law_know_the_same_noise(mechanism: object) -> None:
    """The kernel leaves room for noise up to its reach: no law may expect more than one answer in
    e^99 beyond it."""
    for column in range(len(getattr(mechanism, "sides", (1,)))):
        noise = mechanism.error_terms(column)
        law = find_error_law(mechanism, column)
        assert noise.scale == law.noise_scale
        assert law.tail(int(noise.reach)) < 2e-35


def test_the_places_of_a_cell_are_those_that_joint_quantiles_spread_rows_over() -> None:
    assert 1 << quantiles._HALVINGS == ranks.SPREAD


LAPLACE = {"type": "laplace_error", "v": 1, "scale": "2/1"}
BOX = {"type": "box_error", "v": 1, "sides": [1, 2], "scale": "2/1", "column": 0}
BAD = [
    None,
    [],
    {},
    LAPLACE | {"type": "cauchy_error"},
    LAPLACE | {"type": ["laplace_error"]},
    LAPLACE | {"v": 2},
    LAPLACE | {"v": True},
    LAPLACE | {"more": 1},
    {"type": "laplace_error", "v": 1},
    *(
        LAPLACE | {"scale": bad}
        for bad in (2, 2.0, True, None, "0/1", "-1/2", "1/0", "nan", "1e-99999999", "1" * 10**4)
    ),
    *(BOX | {"column": bad} for bad in (2, -1, True, "0", 0.0)),
    *(
        BOX | {"sides": bad}
        for bad in ([], [0, 1], [1, 2.0], ["1", "2"], "12", {}, [1] * (2**20 + 1))
    ),
    {"type": "quantile_error", "v": 1, "scale": "2/1", "denominator": 0, "aimed_rows": 0},
    {"type": "joint_quantile_error", "v": 1, "row_scales": [], "levels": 1, "aimed_rows": 0},
    {"type": "joint_quantile_error", "v": 1, "row_scales": ["1/1"], "levels": 0, "aimed_rows": 0},
]


@pytest.mark.parametrize("tree", BAD, ids=lambda tree: repr(tree)[:60])
def test_what_is_no_law_is_refused(tree: object) -> None:
    with pytest.raises(ParameterError):
        law_from_json(tree)


@pytest.mark.parametrize(
    "law", [LaplaceErrorLaw(F(1, 2)), LaplaceErrorLaw(F(70)), GaussianErrorLaw(F(3))], ids=repr
)
def test_what_follows_from_above_is_what_the_closed_forms_say(law: AdditiveErrorLaw) -> None:
    """A new law defines `above`; intervals, tails and draws of the base class then are those of the
    noise."""
    for t in (-3, 0, 1, 2, 9, 200):
        assert AdditiveErrorLaw.tail(law, t) == pytest.approx(law.tail(t), rel=1e-9, abs=1e-300)
    for level in ("0.5", "0.95", "0.999999"):
        assert AdditiveErrorLaw.interval(law, level) == law.interval(level)
    shares = (np.arange(2000) + 0.37) / 2000
    assert np.array_equal(AdditiveErrorLaw.inverse(law, shares), law.inverse(shares))


def test_the_law_of_a_joint_quantile_adds_the_choices_that_lead_to_it() -> None:
    """Four quantiles: the third share is chosen first, then the second and the fourth, then the
    first."""
    mechanism = JointQuantiles(["1/10", "1/4", "1/2", "9/10"], 1)
    lengths = [len(find_error_law(mechanism, column).row_scales) for column in range(4)]
    assert lengths == [3, 2, 1, 2]
    first = mechanism.scale(F(1, 2)) / 2
    assert {find_error_law(mechanism, column).row_scale for column in range(4)} == {first}
    second = mechanism.scale(F(1, 2)) / 2  # 1/4 is the middle of what lies below 1/2
    assert find_error_law(mechanism, 1).row_scales == (first, second)
    assert find_error_law(mechanism, 3).row_scales == (first, mechanism.scale(F(4, 5)) / 5)
