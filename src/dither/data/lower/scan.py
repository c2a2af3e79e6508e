"""A table, as registered."""

from __future__ import annotations

from dither.data.lower.columns import from_engine_null, list_carried, list_names
from dither.data.quoting import name
from dither.plan.algebra import Scan
from dither.plan.analyse import Analysed
from dither.plan.stability import Public


def scan_sql(plan: Scan, here: Analysed) -> str:
    """Write the SELECT of a registered table: owner, hash and declared columns.

    Private nulls are stored as integers; public ones become so here.
    """
    if isinstance(here.node, Public):
        outputs = [
            f"{from_engine_null(name(column), domain)} AS {name(column)}"
            for column, domain in here.columns.items()
        ]
        besides = [
            name(column)
            for column in list_carried(here.node, here.columns)
            if column not in here.columns
        ]
        return f"SELECT {', '.join(outputs + besides)} FROM {name(plan.table)}"
    return f"SELECT {list_names(list_carried(here.node, here.columns))} FROM {name(plan.table)}"
