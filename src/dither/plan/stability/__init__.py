"""Stability: how many rows of a plan one unit can own. One file, one function, one proof per operator."""

from __future__ import annotations

from dither.catalog import Catalog
from dither.errors import RefusedError
from dither.plan.algebra import Filter, Plan, Scan
from dither.plan.stability.filter import filter_rows
from dither.plan.stability.owned import Owned
from dither.plan.stability.scan import scan_rows

__all__ = ["Owned", "stability"]


def stability(plan: Plan, catalog: Catalog) -> Owned:
    """The rows of a plan that one unit owns; a node without a rule is refused."""
    if isinstance(plan, Scan):
        return scan_rows(plan, catalog)
    if isinstance(plan, Filter):
        return filter_rows(stability(plan.source, catalog))
    raise RefusedError(f"no rule for {type(plan).__name__}", rule="a node without a rule is refused")
