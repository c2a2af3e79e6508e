"""Stability: how far neighbouring databases are apart in each node. One file, one proof section per
operator."""

from __future__ import annotations

from dither.plan.stability.owned import Grouped, Loose, Node, Owned, Public

__all__ = ["Grouped", "Loose", "Node", "Owned", "Public"]
