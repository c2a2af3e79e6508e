"""UNION ALL of equal columns."""

from __future__ import annotations

from dither.data.lower.columns import carried, listed
from dither.plan.analyse import Analysed


def union_sql(left: str, right: str, here: Analysed) -> str:
    """The rows of both; the owner only where both have one."""
    shown = listed(carried(here.node, here.columns))
    return f"SELECT {shown} FROM ({left}) UNION ALL SELECT {shown} FROM ({right})"
