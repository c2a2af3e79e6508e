"""A table, as registered."""

from __future__ import annotations

from dither.data.engines.duckdb import name
from dither.data.lower.columns import carried, listed
from dither.plan.algebra import Scan
from dither.plan.analyse import Analysed


def scan_sql(plan: Scan, here: Analysed) -> str:
    """Owner, hash and declared columns."""
    return f"SELECT {listed(carried(here.node, here.columns))} FROM {name(plan.table)}"
