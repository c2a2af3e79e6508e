"""DISTINCT, per owner or in all. Proof: docs/proofs/stability.md#distinct."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from dither.errors import RefusedError
from dither.plan.stability.owned import Loose, Node, Owned, Public
from dither.rules import PrivacyRule


def distinct_public(source: Public, columns: Iterable[str]) -> Public:
    """Each row of a public table once: no two share all columns.

    >>> distinct_public(Public("wards"), ["level"]).unique
    frozenset({'level'})
    """
    return replace(source, unique=frozenset(columns))


def distinct_rows(source: Node, per_unit: bool) -> Node:
    """Bound the rows of one unit after DISTINCT.

    Per owner: as many rows as the unit has different ones. In all: each of them may come or go, and
    has no owner.

    >>> distinct_rows(Owned(32, distinct=1, most=64), True)
    Owned(rows=1, distinct=1, most=64, grouped=())
    >>> distinct_rows(Owned(32, distinct=1, most=64), False)
    Loose(rows=1, most=64)
    """
    if isinstance(source, Public):
        raise RefusedError("DISTINCT per owner of a public table", rule=PrivacyRule.NO_RULE)
    if isinstance(source, Owned):
        if per_unit:
            return Owned(source.distinct, source.distinct, source.most, source.grouped)
        return Loose(source.distinct, source.most)
    if per_unit:
        raise RefusedError(
            "DISTINCT per owner of rows without an owner", rule=PrivacyRule.LOST_OWNER
        )
    return source
