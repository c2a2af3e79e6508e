"""Every scalar is text until the format gives it a type: no YAML surprises, no number bombs."""

from fractions import Fraction

import pytest

from dither.catalog import parse
from dither.catalog import scalars as read
from dither.catalog.scalar_texts import write_days
from dither.errors import CatalogError
from tests.datasets.broken_clinic import CLINIC, change, column


@pytest.mark.parametrize(
    "label",
    [
        "no",
        "yes",
        "on",
        "null",
        "~",
        "1e3",
        "2024-01-01",
        "0o7",
        "0x1F",
        ".inf",
        "1_000",
        "12:30:45",
        "<<",
        "=",
    ],
)
def test_labels_are_the_text_written(label):
    assert column(
        f"c: {{type: category, values: [{label}, a], other: drop, nulls: drop}}"
    ).values == (label, "a")


def test_quotes_change_nothing():
    assert column(
        """c: {type: category, values: ["no", 'a b', 007], other: drop, nulls: drop}"""
    ).values == (
        "no",
        "a b",
        "007",
    )


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0.1", Fraction(1, 10)),
        ("1e3", Fraction(1000)),
        ("1E-2", Fraction(1, 100)),
        ("-.5", Fraction(-1, 2)),
        ("+7", Fraction(7)),
        ("1/3", Fraction(1, 3)),
        ("007", Fraction(7)),
        ("9007199254740993", Fraction(9007199254740993)),  # 2^53 + 1, which no float64 holds
    ],
)
def test_a_number_is_its_decimal_text(text, value):
    assert read.number(text) == value


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no",
        "nan",
        "inf",
        "-inf",
        "0o7",
        "0x1F",
        "1_000",
        "1,5",
        "1e9999",
        "1e999999999",
        "9" * 61,
        "1/0",
        "1.5/2",
        "١",
        "1 2",
        "5.",
    ],
)
def test_everything_else_is_no_number(text):
    assert read.number(text) is None


def test_whole_numbers_may_be_written_with_an_exponent():
    assert (
        column("c: {type: integer, bounds: [-1e3, 2.0e3], nulls: drop, provenance: law}").lower
        == -1000
    )
    with pytest.raises(CatalogError, match="the lower bound must be a whole number"):
        column("c: {type: integer, bounds: [0.5, 2], nulls: drop, provenance: law}")


def test_integers_keep_all_their_digits():
    wide = column(
        f"c: {{type: integer, bounds: [-{2**63 - 1}, {2**63 - 1}], nulls: drop, provenance: law}}"
    )
    assert (wide.lower_grid, wide.upper_grid) == (-(2**63) + 1, 2**63 - 1)


@pytest.mark.parametrize(
    "text", ["2024-02-30", "2024-1-1", "20240101", "24-01-01", "2024-01-01T00:00:00", "0000-01-01"]
)
def test_only_real_days_are_dates(text):
    assert read.days(text) is None


@pytest.mark.parametrize(
    ("text", "day"),
    [("1970-01-01", 0), ("1969-12-31", -1), ("2024-02-29", 19_782), ("0001-01-01", -719_162)],
)
def test_dates_are_days_since_1970(text, day):
    assert read.days(text) == day
    assert write_days(day) == text


def test_timestamps_are_seconds_at_a_fixed_offset():
    assert read.seconds("1970-01-01T01:00:00", read.offset("+01:00")) == 0
    assert read.seconds("1970-01-01 00:00:01", read.offset("-05:30")) == 19_801
    assert read.seconds("2024-01-01T25:00:00", 0) is None
    seen = column(
        "c: {type: timestamp, bounds: [2024-01-01T00:00:00, 2024-12-31T23:59:59], zone: +01:00, "
        "nulls: drop, provenance: law}"
    )
    assert seen.lower == 19_723 * 86_400 - 3600


@pytest.mark.parametrize(
    "zone", ["Europe/Berlin", "CET", "01:00", "+1:00", "+15:00", "+01:60", "utc"]
)
def test_zones_that_can_change_are_refused(zone):
    assert read.offset(zone) is None


def test_booleans_are_true_and_false_only():
    assert column("c: {type: boolean, nulls: {value: true}}").nulls.value == 1
    with pytest.raises(CatalogError, match="nulls: value must be true or false, got 'yes'"):
        column("c: {type: boolean, nulls: {value: yes}}")


def test_sentences_may_span_lines():
    broken = change(
        "because: staff listed on the public web page",
        "because: staff listed\n    on the public web page",
    )
    assert parse(broken) == parse(CLINIC)
