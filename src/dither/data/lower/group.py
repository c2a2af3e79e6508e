"""GROUP BY keys, over all owners."""

from __future__ import annotations

from dither.data.engines.duckdb import name
from dither.data.lower.aggregates import aggregate_sql
from dither.data.lower.columns import integer, list_names
from dither.plan.algebra import Group
from dither.plan.analyse import Analysed


def group_sql(plan: Group, source: str, before: Analysed, here: Analysed) -> str:
    """Write the SELECT of GROUP BY: one row per key that occurs; nobody owns it."""
    outputs = [list_names(list(plan.keys))]
    for column in plan.columns:
        value = aggregate_sql(column.of, before.columns)  # type: ignore[arg-type]
        outputs.append(f"{integer(value, here.columns[column.name])} AS {name(column.name)}")
    return f"SELECT {', '.join(outputs)} FROM ({source}) GROUP BY {list_names(list(plan.keys))}"
