"""GROUP BY owner and keys, by itself or as one side of a join."""

from __future__ import annotations

from dither.data.lower.aggregates import aggregate_sql
from dither.data.lower.columns import HASH_A, HASH_B, UNIT, companion, integer, list_names
from dither.data.lower.dialect import dialect
from dither.data.lower.join import join_sql, write_condition
from dither.data.quoting import name
from dither.plan.algebra import Filter, Join, PerUnit, nodes_of
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


def find_met_groups(plan: Join, operands: tuple[Analysed, ...]) -> Analysed | None:
    """Return the rows that a join groups on its right side, where groups may be left out.

    These are the groups that no left row meets. None for any other join, where no WHERE makes the
    left rows fewer, and for an engine that might compute the left rows twice.
    """
    left, right = operands
    is_met = (
        dialect().reduces_groups
        and isinstance(right.plan, PerUnit)
        and {*right.plan.keys} == {column for _, column in plan.on}
        and any(isinstance(node, Filter) for node in nodes_of(left.plan))
    )
    return right.sources[0] if is_met else None


def join_groups_sql(
    plan: Join, left: str, ungrouped: str, operands: tuple[Analysed, ...], here: Analysed
) -> str:
    """Write the SELECT of a join that makes only those groups which a left row meets.

    Rows are left out before GROUP BY by the condition of the join itself, which reads owner and
    keys alone: a group keeps all of its rows or none.
    """
    right = operands[1]
    is_met = f"EXISTS (SELECT 1 FROM dither_left AS l WHERE {write_condition(plan, operands)})"
    met = f"SELECT * FROM ({ungrouped}) AS r WHERE {is_met}"
    groups = per_unit_sql(right.plan, met, right.sources[0], right)  # type: ignore[arg-type]
    joined = join_sql(plan, "SELECT * FROM dither_left", groups, operands, here)
    return f"WITH dither_left AS ({left}) {joined}"
