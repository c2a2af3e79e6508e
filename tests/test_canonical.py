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
from dither.canonical import digest, dumps, exact, fraction_text, number_text, positive, quote
from dither.given_numbers import as_float, whole_number
from dither.strict_json import read_document
from tests.time_guard import time_guard

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
    assert (
        json.loads(dumps(value)) == fraction_text(value) == f"{value.numerator}/{value.denominator}"
    )
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


@pytest.mark.parametrize(
    "value", [1.5, float("nan"), {1: 2}, {"a": object()}, b"bytes", {"a": {2}}]
)
def test_floats_and_foreign_objects_have_no_canonical_text(value):
    with pytest.raises(TypeError):
        dumps(value)


@pytest.mark.parametrize(
    "value",
    [
        float("nan"),
        float("inf"),
        Decimal("NaN"),
        Decimal("-Infinity"),
        True,
        None,
        "",
        "x",
        "1/0",
        1j,
        [1],
    ],
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


NINES = "9" * 1_000
TOO_LONG = {
    "exponent": "1e-99999999",
    "large exponent": "1e1001",
    "exponent of many digits": "1e" + "9" * 5_000,
    "digits": NINES + "9",
    "places": "0." + "1" * 1_001,
    "numerator": "9" * 4_001 + "/7",
    "denominator": "1/" + "7" * 4_001,
    "zeros": "0" * 10_000,
    "Decimal": Decimal("1e-99999999"),
    "long Decimal": Decimal(NINES + "9"),
    "int": 10**1_000,
    "int that has no text": 10**5_000,
    "Fraction": Fraction(1, 10**4_000),
}


@pytest.mark.parametrize("value", TOO_LONG.values(), ids=list(TOO_LONG))
def test_digits_and_exponents_are_bounded_before_any_arithmetic(value):
    with (
        time_guard(),
        pytest.raises(ParameterError, match="epsilon has too many digits.* round it, as in 0.5"),
    ):
        exact(value, "epsilon")


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("1e1000", Fraction(10) ** 1000),
        ("1e-1000", 1 / Fraction(10) ** 1000),
        (NINES, Fraction(10**1_000 - 1)),
        ("1/" + "7" * 4_000, Fraction(9, 7 * (10**4_000 - 1))),
        (" 1_000 ", Fraction(1000)),
        ("1.", Fraction(1)),
        ("-.5e1", Fraction(-5)),
        ("5e-324", Fraction(5, 10**324)),
    ],
    ids=["large", "small", "nines", "ratio", "underscore", "point", "half", "float"],
)
def test_numbers_within_the_limits_are_read_exactly(text, number):
    assert exact(text, "x") == number


@given(st.fractions(), st.integers(-3000, 3000))
def test_a_number_of_any_size_has_a_short_text_for_messages(value, power):
    text = number_text(value * Fraction(10) ** power)
    assert len(text) <= 15
    if value:
        lead, _, exponent = text.partition("e")
        shown = Fraction(lead) * Fraction(10) ** int(exponent or 0)
        assert (
            abs(shown - value * Fraction(10) ** power) <= abs(value * Fraction(10) ** power) / 10**5
        )


@pytest.mark.parametrize(
    "value",
    [10**5_000, -(10**5_000), Fraction(1, 10**5_000), [10**5_000], "x" * 10_000, None],
    ids=range(6),
)
def test_whatever_a_message_quotes_is_short(value):
    assert 0 < len(quote(value)) <= 40


@pytest.mark.parametrize("value", ["1e301", "1e-301", 10**400])
def test_what_floats_cannot_hold_is_refused(value):
    with pytest.raises(ParameterError, match="within must lie between 1e-300 and 1e300"):
        as_float(value, "within")


@pytest.mark.parametrize(
    "value", [0, -1, True, 1.0, "3", None, 2**63, 10**5_000, -(10**5_000)], ids=range(9)
)
def test_a_whole_number_is_from_one_to_its_limit(value):
    with pytest.raises(ParameterError, match="group_size must be"):
        whole_number(value, "group_size")


@pytest.mark.parametrize(
    "text", ["[" * 100_000, '{"a": ' + "9" * 5_000 + "}", "{", ""], ids=range(4)
)
def test_json_from_outside_is_bounded_in_depth_and_digits(text):
    with pytest.raises(ParameterError, match="the loss is not JSON that can be read"):
        read_document(text, "the loss")
