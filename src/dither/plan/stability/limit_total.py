"""Stability of a limit on what one unit adds to a column in all its rows together.

Proof: docs/proofs/stability.md#limit-total.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from dither.errors import RefusedError
from dither.plan.domain import LIMIT, Columns
from dither.plan.stability.owned import Node, Owned
from dither.rules import PrivacyRule


def limit_total_rows(source: Node, keys: tuple[str, ...], column: str) -> Owned:
    """Bound the rows of one unit after a limit on a column's total.

    All rows are kept, so their number stays. Bounds on groups by the limited column are dropped,
    because its values change.

    >>> from dither.plan.stability.owned import Grouped
    >>> per_ward = Owned(5, grouped=(Grouped(frozenset({"ward"}), 5, 1),))
    >>> limit_total_rows(per_ward, ("ward",), "cost").rows
    5
    """
    if not isinstance(source, Owned):
        raise RefusedError("a total per unit needs rows with an owner", rule=PrivacyRule.LOST_OWNER)
    if not keys or column in keys or source.rows_per_group(keys) > 1:
        raise RefusedError(
            "a total needs keys that no two rows of a unit share, and a column beside them",
            rule=PrivacyRule.NO_RULE,
        )
    kept = tuple(bound for bound in source.grouped if column not in bound.keys)
    return replace(source, distinct=source.rows, grouped=kept, degrees=None)


def limit_total_columns(source: Columns, rows: int, column: str, total: Fraction) -> Columns:
    """Return the columns after a limit on a column's total.

    The limited column lies within the total and may be 0. Raises RefusedError unless it is a number
    that is never null and the total is a positive multiple of its resolution.
    """
    domain = source.get(column)
    if domain is None or domain.kind != "number" or domain.nullable:
        raise RefusedError(
            f"a total of {column}: only numbers without nulls have one", rule=PrivacyRule.NO_RULE
        )
    if type(total) is not Fraction or total <= 0 or total % domain.step:
        raise RefusedError(
            "a total is a positive multiple of its column's resolution",
            rule=PrivacyRule.PARAMETER_RANGES,
        )
    steps = int(total / domain.step)
    if max(steps, rows * domain.largest) >= LIMIT:
        raise RefusedError("a total could have more than 37 digits", rule=PrivacyRule.WIDTHS)
    low = max(min(domain.low, 0), -steps)
    high = min(max(domain.high, 0), steps)
    return {**source, column: replace(domain, low=low, high=high, keys=None)}
