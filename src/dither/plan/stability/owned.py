"""Owned nodes: every row belongs to exactly one unit, and no unit has more than `rows` of them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Owned:
    """Under add/remove, two neighbouring databases differ in at most `rows` rows of this node, all of one unit."""

    rows: int
