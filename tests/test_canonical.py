"""One text for one meaning."""

from __future__ import annotations

import json
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dither import ParameterError
from dither.canonical import digest, dumps, exact, fraction_text, positive

plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(plain)
def test_canonical_text_reads_back_and_is_its_own_canonical_text(value):
    text = dumps(value)
    assert json.loads(text) == value
    assert dumps(json.loads(text)) == text
    assert " " not in text or " " in repr(value)


@given(st.fractions())
def test_a_fraction_is_written_as_numerator_and_denominator(value):
    assert json.loads(dumps(value)) == fraction_text(value) == f"{value.numerator}/{value.denominator}"
    assert exact(fraction_text(value), "x") == value


@given(st.dictionaries(st.text(), st.integers(), min_size=2), st.randoms())
def test_the_digest_ignores_the_order_of_keys(tree, shuffler):
    items = list(tree.items())
    shuffler.shuffle(items)
    assert digest(dict(items)) == digest(tree)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_float_means_its_shortest_decimal_text(x):
    assert exact(x, "x") == Fraction(repr(x))
    assert exact(np.float64(x), "x") == Fraction(repr(x))


def test_ten_tenths_are_one():
    assert sum([exact(0.1, "epsilon")] * 10) == 1


@pytest.mark.parametrize("value", [1.5, float("nan"), {1: 2}, {"a": object()}, b"bytes", {"a": {2}}])
def test_floats_and_foreign_objects_have_no_canonical_text(value):
    with pytest.raises(TypeError):
        dumps(value)


@pytest.mark.parametrize(
    "value", [float("nan"), float("inf"), Decimal("NaN"), Decimal("-Infinity"), True, None, "", "x", "1/0", 1j, [1]]
)
def test_what_is_no_number_is_refused_by_name(value):
    with pytest.raises(ParameterError, match="epsilon"):
        exact(value, "epsilon")


@pytest.mark.parametrize("value", [0, -1, "-1/2", -0.0])
def test_what_is_not_positive_is_refused_with_the_remedy(value):
    with pytest.raises(ParameterError, match=r"must be positive, got .*: choose a larger one"):
        positive(value, "epsilon", "choose a larger one")


def test_integers_of_numpy_become_pythons():
    number = exact(np.int64(7), "x")
    assert number == 7 and type(number.numerator) is int
