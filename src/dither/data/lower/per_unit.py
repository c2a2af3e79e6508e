"""GROUP BY owner and keys."""

from __future__ import annotations

from dither.data.lower.aggregates import aggregate_sql
from dither.data.lower.columns import HASH_A, HASH_B, UNIT, companion, integer, list_names
from dither.data.quoting import name
from dither.plan.algebra import PerUnit
from dither.plan.analyse import Analysed


def per_unit_sql(plan: PerUnit, source: str, before: Analysed, here: Analysed) -> str:
    """Write the SELECT of an aggregate per unit.

    The owner's hash is one value per owner, so its minimum is that value.
    """
    grouped = [UNIT, *plan.keys]
    outputs = [list_names(grouped), f"min({HASH_A}) AS {HASH_A}", f"min({HASH_B}) AS {HASH_B}"]
    besides = [companion(key, here.columns[key]) for key in plan.keys]
    outputs += [f"min({name(beside)}) AS {name(beside)}" for beside in besides if beside]
    for column in plan.columns:
        value = aggregate_sql(column.of, before.columns)  # type: ignore[arg-type]
        outputs.append(f"{integer(value, here.columns[column.name])} AS {name(column.name)}")
    return f"SELECT {', '.join(outputs)} FROM ({source}) GROUP BY {list_names(grouped)}"
