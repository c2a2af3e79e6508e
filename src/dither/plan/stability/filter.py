"""Stability of WHERE. Proof: docs/proofs/stability.md#filter."""

from __future__ import annotations

from dither.plan.stability.owned import Owned


def filter_rows(source: Owned) -> Owned:
    """A condition looks at one row at a time, so a filter never adds rows to a unit.

    >>> filter_rows(Owned(3))
    Owned(rows=3)
    """
    return source
