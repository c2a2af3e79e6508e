"""UNION ALL: the rows of two plans. Proof: docs/proofs/stability.md#union-all."""

from __future__ import annotations

from dither.errors import RefusedError
from dither.plan.domain import Columns, hull
from dither.plan.stability.owned import Loose, Node, Owned, Public
from dither.rules import PrivacyRule


def union_rows(left: Node, right: Node, distinct: int) -> Node:
    """Bound the rows of one unit after UNION ALL: rows add up.

    `distinct` bounds the different rows of a unit, which a repeated source does not add to. Raises
    RefusedError with a public table.

    >>> union_rows(Owned(1, most=10), Owned(1, most=10), 1)
    Owned(rows=2, distinct=1, most=20, grouped=())
    """
    if isinstance(left, Public) or isinstance(right, Public):
        raise RefusedError(
            "a union with a public table: its rows have no owner", rule=PrivacyRule.ONE_OWNER
        )
    if isinstance(left, Owned) and isinstance(right, Owned):
        return Owned(left.rows + right.rows, distinct, left.most + right.most)
    return Loose(left.rows + right.rows, left.most + right.most)


def union_columns(left: Columns, right: Columns) -> Columns:
    """Return the columns of a union; each holds what either input's holds.

    Raises RefusedError unless both have equal names in equal order.
    """
    if list(left) != list(right):
        raise RefusedError(
            "the sides of a union have different columns", rule=PrivacyRule.DECLARED_NAMES
        )
    return {name: hull((left[name], right[name]), name) for name in left}
