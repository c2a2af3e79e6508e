"""Kinds of quantity: what a steward can say about a column without looking at it.

The bounds of a kind are what everybody knows about such a quantity, whatever the file holds. Where
nobody knows one, the steward types a power of ten, or takes wide bounds and buys narrower ones from
the budget.

>>> print(describe_column("education", read_kind("labels"), "education"))
{type: category, values: undeclared, width: 40, nulls: keep}
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from dither.catalog.columns import OTHER
from dither.catalog.file.draft import write_source_name
from dither.catalog.file.names import write_scalar
from dither.errors import ParameterError

_WIDTH = 40
_WIDE = 10**9
_TYPED = "typed by the steward, from public knowledge"


@dataclass(frozen=True)
class Kind:
    """A kind of quantity: the keys of its column, and a line for the menu.

    `is_number` says that it can be averaged, `is_key` that it can be grouped by.
    """

    keys: str
    menu: str
    is_number: bool = False
    is_key: bool = False


def _integer(lower: int, upper: int, provenance: str) -> str:
    return (
        f"type: integer, bounds: [{lower}, {upper}], nulls: keep, "
        f"provenance: {write_scalar(provenance)}"
    )


def _decimal(upper: str, resolution: str, provenance: str) -> str:
    return (
        f"type: decimal, bounds: [0, {upper}], resolution: {resolution}, nulls: keep, "
        f"provenance: {write_scalar(provenance)}"
    )


KINDS: dict[str, Kind] = {
    "age": Kind(_integer(0, 120, "ages in years, 0 to 120"), "years, 0 to 120", is_number=True),
    "hours_a_week": Kind(
        _integer(0, 168, "a week has 168 hours"), "hours, 0 to 168", is_number=True
    ),
    "hours_a_day": Kind(_integer(0, 24, "a day has 24 hours"), "hours, 0 to 24", is_number=True),
    "rating": Kind(_integer(0, 10, "a scale from 0 to 10"), "0 to 10", is_number=True),
    "percentage": Kind(
        _decimal("100", "0.01", "percentages, 0 to 100"), "0 to 100, to 0.01", is_number=True
    ),
    "share": Kind(_decimal("1", "0.0001", "shares, 0 to 1"), "0 to 1, to 0.0001", is_number=True),
    "year": Kind(
        _integer(1900, 2100, "calendar years, 1900 to 2100"), "1900 to 2100", is_number=True
    ),
    "date": Kind(
        "type: date, bounds: [1900-01-01, 2100-12-31], nulls: keep, "
        'provenance: "calendar days, 1900 to 2100"',
        "days, 1900 to 2100",
    ),
    "yes_no": Kind("type: boolean, nulls: keep", "true or false", is_key=True),
    "labels": Kind(
        f"type: category, values: undeclared, width: {_WIDTH}, nulls: keep",
        "labels that nobody lists; shown where enough people share one",
        is_key=True,
    ),
    "wide": Kind(
        _integer(-_WIDE, _WIDE, "wide on purpose: narrower bounds are bought from the budget"),
        "whole numbers of unknown size; buy the bounds",
        is_number=True,
    ),
}
"""The kinds that need no more than their name."""

TYPED_KINDS = {
    "money 10000": "amounts from 0 to the power of ten that you type, to 0.01",
    "count 1000": "whole numbers from 0 to the power of ten that you type",
    "0..99": "whole numbers between two bounds that everybody knows",
    "Male | Female": "labels that everybody knows; what else occurs is 'other'",
}
"""Kinds that say more, by an example."""


def read_kind(text: str) -> Kind:
    """Read the kind that a steward wrote: a name from the menu, a typed bound, or a list of
    labels."""
    wording = text.strip()
    if wording in KINDS:
        return KINDS[wording]
    if "|" in wording:
        return _read_labels(wording)
    if typed := re.fullmatch(r"(money|count) +(\S+)", wording):
        upper = read_power_of_ten(typed[2], typed[1])
        if typed[1] == "money":
            return Kind(_decimal(str(upper), "0.01", _TYPED), "", is_number=True)
        return Kind(_integer(0, upper, _TYPED), "", is_number=True)
    if ends := re.fullmatch(r"(-?\d{1,15})\.\.(-?\d{1,15})", wording):
        if int(ends[1]) > int(ends[2]):
            raise ParameterError(f"the bounds {wording} are the wrong way round: lower..upper")
        return Kind(_integer(int(ends[1]), int(ends[2]), _TYPED), "", is_number=True)
    raise ParameterError(
        f"no kind of quantity is called {wording[:40]!r}: take {', '.join(KINDS)}, or write as in "
        f"{', '.join(map(repr, TYPED_KINDS))}"
    )


def read_power_of_ten(text: str, what: str) -> int:
    """Read a power of ten: a number that nobody can have read off the data.

    >>> read_power_of_ten("1e5", "max_rows"), read_power_of_ten("100000", "max_rows")
    (100000, 100000)
    """
    wording = text.strip().replace("_", "").replace(",", "")
    if written := re.fullmatch(r"1e(\d{1,2})|1(0*)", wording):
        exponent = int(written[1]) if written[1] else len(written[2])
        if exponent <= 15:
            return int("1" + "0" * exponent)
    raise ParameterError(
        f"{what} must be a power of ten up to 1e15, such as 100000, got {wording[:20]!r}: a "
        "rounder number costs nothing, and an exact one would tell about the data"
    )


def describe_column(name: str, kind: Kind, source: str) -> str:
    """The column as the catalog writes it."""
    return f"{{{kind.keys}{write_source_name(name, source)}}}"


def _read_labels(wording: str) -> Kind:
    """Read labels written as a | b | c as a category."""
    labels = [label.strip() for label in wording.split("|") if label.strip()]
    if len(labels) != len(set(labels)) or OTHER in labels or not labels:
        raise ParameterError(
            f"a list of labels names each one once, and none is {OTHER!r}: write a | b | c"
        )
    values = ", ".join(write_scalar(label) for label in labels)
    keys = f"type: category, values: [{values}], other: keep, nulls: keep"
    return Kind(keys, "", is_key=True)
