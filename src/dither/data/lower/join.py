"""The SQL of a join.

Two private sides always meet by owner, whether or not the plan says so (rule owners-never-meet).
"""

from __future__ import annotations

from dither.data.lower.columns import (
    UNIT,
    code_column,
    engine_null,
    from_engine_null,
    list_carried,
    list_names,
)
from dither.data.lower.dialect import dialect
from dither.data.quoting import name
from dither.plan.algebra import Filter, IsNull, Join, PerUnit
from dither.plan.analyse import Analysed
from dither.plan.stability import Owned


def join_sql(
    plan: Join, left: str, right: str, operands: tuple[Analysed, ...], here: Analysed
) -> str:
    """Write the SELECT of a join, by owner too where both inputs have one.

    The private left input is the preserved one.
    """
    kind = "LEFT JOIN" if plan.kind == "left" else "JOIN"
    condition = write_condition(plan, operands)
    if dialect().looks_up_groups and isinstance(operands[1].plan, PerUnit):
        # OFFSET 0 keeps the condition in the subquery: so only groups that it meets are computed
        right = f"SELECT * FROM ({right}) AS r WHERE {condition} OFFSET 0"
        kind = f"{kind} LATERAL"
    outputs = _list_outputs(plan, operands, here)
    return f"SELECT {outputs} FROM ({left}) AS l {kind} ({right}) AS r ON {condition}"


def _list_outputs(
    plan: Join, operands: tuple[Analysed, ...], here: Analysed, *, is_matched: bool = True
) -> str:
    """Write the columns of a row l of the left input beside its match r, which may be missing."""
    from_left = list_carried(operands[0].node, operands[0].columns)
    from_right = [
        column for column in list_carried(here.node, here.columns) if column not in from_left
    ]
    outputs = list_names(from_left, "l.")
    for column in from_right:
        domain = here.columns.get(column)
        value = f"r.{name(column)}" if is_matched else _write_null(plan, column, here)
        kept = from_engine_null(value, domain) if domain and plan.kind == "left" else value
        outputs += f", {kept} AS {name(column)}"
    return outputs


def _write_null(plan: Join, column: str, here: Analysed) -> str:
    """Write the engine's null in the type of a column of the right side.

    An id has the type of the left column that it is compared with; whatever is neither an id nor
    a text is a number.
    """
    alike = {right: f"l.{name(left)}" for left, right in plan.on} | {
        text: dialect().text("") for text in here.columns if here.columns[text].kind == "text"
    }
    value = alike.get(column, "CAST(0 AS BIGINT)")
    return f"NULLIF({value}, {value})"


def find_unmatched(rows: Analysed) -> bool:
    """Whether a filter keeps the rows of a left join that no group of their owner meets.

    A group has rows and its number of rows is never null, so it is null where there is no match.
    """
    match rows.plan:
        case Filter(Join(_, PerUnit(_, keys, aggregates), on, "left"), IsNull(column)):
            groups = rows.sources[0].sources[1].columns
            return (
                {*keys} == {right for _, right in on}
                and column in [named.name for named in aggregates]
                and not groups[column].nullable
            )
    return False


def unmatched_sql(
    plan: Join, left: str, ungrouped: str, operands: tuple[Analysed, ...], here: Analysed
) -> str:
    """Write the SELECT of the rows of a left join that have no match: NOT EXISTS.

    No group is made, and its rows are written once: what each join writes twice is written
    thousands of times where joins lie inside joins.
    """
    outputs = _list_outputs(plan, operands, here, is_matched=False)
    return (
        f"SELECT {outputs} FROM ({left}) AS l WHERE NOT EXISTS "
        f"(SELECT 1 FROM ({ungrouped}) AS r WHERE {write_condition(plan, operands)})"
    )


def write_condition(plan: Join, operands: tuple[Analysed, ...]) -> str:
    """Write the condition on which a row l of the left input meets a row r of the right one."""
    left_rows, right_rows = operands
    conditions = [f"l.{UNIT} = r.{UNIT}"] if isinstance(right_rows.node, Owned) else []
    for left_column, right_column in plan.on:
        if (
            left_rows.columns[left_column].kind == "category"
            and right_rows.columns[right_column].kind == "text"
        ):
            # the code of null is no label's
            conditions.append(f"l.{name(left_column)} = r.{name(code_column(right_column))}")
            continue
        # Null meets nothing.
        left_key = engine_null(f"l.{name(left_column)}", left_rows.columns[left_column])
        right_key = engine_null(f"r.{name(right_column)}", right_rows.columns[right_column])
        conditions.append(f"{left_key} = {right_key}")
    # a public total has one row and no key: it meets every row
    return " AND ".join(conditions) or "TRUE"
