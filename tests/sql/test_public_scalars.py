"""Scalar subqueries over public tables that must not be joined: the join would change a value."""

from __future__ import annotations

import pytest

from dither.sql.parse import parse as parse_text
from dither.sql.rewrites.public_scalars import rewrite_public_scalars
from tests.datasets import clinic_sql

TIED = "SELECT COUNT(*) AS n FROM visits v WHERE v.cost > ({}c.county = v.county)"


@pytest.mark.parametrize(
    ("value", "is_joined"),
    [
        ("SUM(c.beds)", True),
        ("2 * MAX(c.beds) - 1", True),
        ("COUNT(*)", True),
        ("COALESCE(SUM(c.beds), 0)", False),
        ("CASE WHEN MAX(c.beds) > 5 THEN 1 ELSE 0 END", False),
        ("GREATEST(SUM(c.beds), 3)", False),
        ("SUM(c.beds) + COUNT(*)", True),
        ("COUNT(*) + 1", False),
    ],
)
def test_only_values_that_are_null_over_no_row_become_a_left_join(
    value: str, is_joined: bool
) -> None:
    """Without a match a LEFT JOIN gives null, where SQL says 0 for COALESCE(SUM(x), 0)."""
    text = TIED.format(f"SELECT {value} FROM counties c WHERE ")
    query = rewrite_public_scalars(parse_text(text), clinic_sql.catalog())
    assert bool(query.args.get("joins")) == is_joined


def test_a_cast_of_another_column_fixes_no_key() -> None:
    """county is the unique key; equal to a cast of a column of the same row it fixes nothing."""
    text = (
        "SELECT COUNT(*) AS n FROM visits WHERE cost > "
        "(SELECT beds FROM counties WHERE county = CAST(region AS TEXT))"
    )
    query = rewrite_public_scalars(parse_text(text), clinic_sql.catalog())
    assert not query.args.get("joins")
