"""DISTINCT, per owner or in all. Proof: docs/proofs/stability.md#distinct."""

from __future__ import annotations

from dither.errors import RefusedError
from dither.plan.stability.owned import Loose, Node, Owned, Public


def distinct_rows(source: Node, per_unit: bool) -> Node:
    """Per owner: as many rows as the unit has different ones. In all: each of them may come or go, and has no owner.

    >>> distinct_rows(Owned(32, distinct=1, most=64), True)
    Owned(rows=1, distinct=1, most=64, grouped=())
    >>> distinct_rows(Owned(32, distinct=1, most=64), False)
    Loose(rows=1, most=64)
    """
    if isinstance(source, Public):
        raise RefusedError("DISTINCT of a public table alone", rule="a node without a rule is refused")
    if isinstance(source, Owned):
        if per_unit:
            return Owned(source.distinct, source.distinct, source.most, source.grouped)
        return Loose(source.distinct, source.most)
    if per_unit:
        raise RefusedError("DISTINCT per owner of rows without an owner", rule="a loose node has no owner again")
    return source
