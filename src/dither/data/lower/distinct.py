"""DISTINCT: the owner is part of a row where it stays."""

from __future__ import annotations

from dither.data.lower.columns import list_carried, list_names
from dither.plan.analyse import Analysed


def distinct_sql(source: str, here: Analysed) -> str:
    """Each row once; what travels beside owner and labels is a function of them."""
    return f"SELECT DISTINCT {list_names(list_carried(here.node, here.columns))} FROM ({source})"
