"""Aggregates inside a plan: the domain of an exact aggregate over a bounded number of rows."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

from dither.errors import RefusedError
from dither.plan.algebra import Count, CountDistinct, CountValues, Maximum, Minimum, Sum
from dither.plan.domain import Columns, Domain, is_stored, number
from dither.rules import PrivacyRule


def aggregate_domain(aggregate: Any, columns: Columns, rows: int) -> Domain:
    """Compute the domain of an aggregate over at least one and at most `rows` rows.

    Nulls are skipped, a sum of nulls is 0. Raises RefusedError for a column or kind that the
    aggregate has no rule for.

    >>> aggregate_domain(Sum("x"), {"x": Domain("number", False, -5, 10)}, 3).low
    -15
    """
    if isinstance(aggregate, Count):
        return number(1, max(1, rows), Fraction(1), False)
    column = getattr(aggregate, "column", None)
    if column not in columns or columns[column].kind == "id":
        raise RefusedError(
            f"no rule for {type(aggregate).__name__} of {column}", rule=PrivacyRule.NO_RULE
        )
    domain = columns[column]
    if isinstance(aggregate, CountValues):
        return number(0, rows, Fraction(1), False)
    if isinstance(aggregate, CountDistinct):
        return number(
            0,
            min(rows, domain.high - domain.low + 1) if is_stored(domain) else rows,
            Fraction(1),
            False,
        )
    if isinstance(aggregate, Sum) and domain.kind in ("number", "boolean"):
        return number(rows * min(0, domain.low), rows * max(0, domain.high), domain.step, False)
    if isinstance(aggregate, (Minimum, Maximum)) and domain.kind in (
        "number",
        "date",
        "timestamp",
        "boolean",
    ):
        return replace(domain, keys=None)
    raise RefusedError(
        f"no rule for {type(aggregate).__name__} of a {domain.kind}", rule=PrivacyRule.NO_RULE
    )
