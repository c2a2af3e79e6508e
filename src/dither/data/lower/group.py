"""GROUP BY keys, over all owners."""

from __future__ import annotations

from dither.data.lower.aggregates import aggregate_sql
from dither.data.lower.columns import companion, from_engine_null, integer, list_names, null_code
from dither.data.lower.dialect import dialect
from dither.data.lower.functions.sql import clamp_value
from dither.data.quoting import name
from dither.plan.algebra import Group
from dither.plan.analyse import Analysed
from dither.plan.domain import Domain
from dither.plan.stability import Public


def group_sql(plan: Group, source: str, before: Analysed, here: Analysed) -> str:
    """Write the SELECT of GROUP BY: one row per key that occurs; nobody owns it."""
    if isinstance(here.node, Public):
        return _public_sql(plan, source, before, here)
    outputs = [list_names(list(plan.keys))]
    for column in plan.columns:
        value = aggregate_sql(column.of, before.columns)  # type: ignore[arg-type]
        outputs.append(f"{integer(value, here.columns[column.name])} AS {name(column.name)}")
    return f"SELECT {', '.join(outputs)} FROM ({source}) GROUP BY {list_names(list(plan.keys))}"


def _public_sql(plan: Group, source: str, before: Analysed, here: Analysed) -> str:
    """Write the SELECT of GROUP BY of public rows; without keys it is one row.

    Aggregates are moved into the bounds that the analysis claims.
    """
    outputs = [name(key) for key in plan.keys]
    besides = [companion(key, here.columns[key]) for key in plan.keys]
    outputs += [f"min({name(beside)}) AS {name(beside)}" for beside in besides if beside]
    for column in plan.columns:
        domain = here.columns[column.name]
        value = aggregate_sql(column.of, before.columns)  # type: ignore[arg-type]
        outputs.append(f"{_bounded_sql(value, domain)} AS {name(column.name)}")
    grouped = f" GROUP BY {list_names(list(plan.keys))}" if plan.keys else ""
    return f"SELECT {', '.join(outputs)} FROM ({source}){grouped}"


def _bounded_sql(value: str, domain: Domain) -> str:
    """Write the SQL of an aggregate within its bounds; the integer after them stands for null."""
    high = null_code(domain) if domain.nullable else domain.high
    wide = from_engine_null(f"CAST({value} AS {dialect().wide_type})", domain)
    return integer(clamp_value(wide, domain.low, high), domain)
