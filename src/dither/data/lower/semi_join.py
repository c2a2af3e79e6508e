"""A join with different rows of the owner that says only whether there is a match: EXISTS.

`Join(l, Distinct(r))` by all columns of r that are no constants gives every left row at most once,
beside values that it has already: equal rows of r never need to be told apart, which takes longer
than the join.
"""

from __future__ import annotations

from dataclasses import replace

from dither.data.lower.columns import UNIT, companion, holds_null, list_carried, list_names
from dither.data.lower.dialect import dialect
from dither.data.quoting import name
from dither.plan.algebra import Distinct, Join, Named, Project
from dither.plan.analyse import Analysed
from dither.plan.expressions import Value


def find_repeated_matches(plan: Join, operands: tuple[Analysed, ...]) -> Analysed | None:
    """The right rows before DISTINCT, where a left row only asks whether one of them matches.

    None for any other join. The columns of both sides of `on` have one domain and no null, so that
    a value of the left row may stand for that of its match, whatever the engine computes from it
    before it looks for the match.
    """
    right = operands[1]
    distinct = right.plan
    is_match = (
        plan.kind == "inner"
        and isinstance(distinct, Distinct)
        and distinct.per_unit
        and isinstance(distinct.source, Project)
        and all(_adds_nothing(column, plan, operands) for column in distinct.source.columns)
    )
    return right.sources[0] if is_match else None


def _adds_nothing(column: Named, plan: Join, operands: tuple[Analysed, ...]) -> bool:
    """Whether a column of a match is a constant, or a column of the left row in the same domain."""
    left, right = (operand.columns for operand in operands)
    joined = {right_column: left_column for left_column, right_column in plan.on}
    domain = right[column.name]
    if companion(column.name, domain) is not None:
        return False
    if column.name not in joined:
        return isinstance(column.of, Value)
    same = left[joined[column.name]]
    is_same = replace(same, nullable=False, keys=None, width=0) == replace(
        domain, nullable=False, keys=None, width=0
    )
    return is_same and not holds_null(same) and not holds_null(domain)


def semi_join_sql(
    plan: Join, left: str, matches: str, operands: tuple[Analysed, ...], here: Analysed
) -> str:
    """Write the SELECT of left rows that have a match of their owner, with the match's columns."""
    left_rows, right_rows = operands
    from_left = list_carried(left_rows.node, left_rows.columns)
    values = {right: f"l.{name(left)}" for left, right in plan.on}
    for column in right_rows.plan.source.columns:  # type: ignore[union-attr]
        values.setdefault(column.name, _write_constant(column.of))
    outputs = [
        f"{values[column]} AS {name(column)}"
        for column in list_carried(here.node, here.columns)
        if column not in from_left
    ]
    pairs = [f"l.{name(left)} = r.{name(right)}" for left, right in plan.on]
    condition = " AND ".join([f"l.{UNIT} = r.{UNIT}", *pairs])
    selected = ", ".join([list_names(from_left, "l."), *outputs])
    is_matched = f"EXISTS (SELECT 1 FROM ({matches}) AS r WHERE {condition})"
    return f"SELECT {selected} FROM ({left}) AS l WHERE {is_matched}"


def _write_constant(value: object) -> str:
    """SQL of a constant; of a column nothing is written, since the left row has it."""
    constant = value.value if isinstance(value, Value) else ""
    return dialect().text(constant) if isinstance(constant, str) else str(constant.numerator)
