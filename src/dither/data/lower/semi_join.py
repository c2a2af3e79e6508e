"""A join with different rows of the owner that says only whether there is a match: EXISTS.

`Join(l, Distinct(r))` by all columns of r that are no constants gives every left row at most once,
beside values that it has already: equal rows of r never need to be told apart, which takes longer
than the join.
"""

from __future__ import annotations

from dither.data.lower.columns import (
    UNIT,
    companion,
    engine_null,
    holds_null,
    list_carried,
    list_names,
)
from dither.data.lower.dialect import dialect
from dither.data.quoting import name
from dither.plan.algebra import Distinct, Join, Project
from dither.plan.analyse import Analysed
from dither.plan.domain import Domain
from dither.plan.expressions import Value
from dither.plan.stability import Owned


def find_repeated_matches(plan: Join, operands: tuple[Analysed, ...]) -> Analysed | None:
    """The right rows before DISTINCT, where a left row only asks whether one of them matches.

    None for any other join. The columns of both sides of `on` have one domain and no null, so that
    a value of the left row may stand for that of its match, whatever the engine computes from it
    before it looks for the match.
    """
    left, right = operands
    distinct = right.plan
    if plan.kind != "inner" or not isinstance(distinct, Distinct) or not distinct.per_unit:
        return None
    source = distinct.source
    if not isinstance(right.node, Owned) or not isinstance(source, Project):
        return None
    joined = {right_column: left_column for left_column, right_column in plan.on}
    for column in source.columns:
        domain = right.columns[column.name]
        if companion(column.name, domain) is not None:
            return None
        if column.name not in joined:
            if not isinstance(column.of, Value):
                return None
        elif not _is_same_domain(left.columns[joined[column.name]], domain):
            return None
    return right.sources[0]


def _is_same_domain(left: Domain, right: Domain) -> bool:
    """Whether two columns hold the same values in the same way, and no null that is an integer."""
    kinds = (left.kind, left.low, left.high, left.step, left.labels, left.offset)
    others = (right.kind, right.low, right.high, right.step, right.labels, right.offset)
    return kinds == others and not holds_null(left)


def semi_join_sql(
    plan: Join, left: str, matches: str, operands: tuple[Analysed, ...], here: Analysed
) -> str:
    """Write the SELECT of left rows that have a match of their owner, with the match's columns."""
    left_rows, right_rows = operands
    conditions = [f"l.{UNIT} = r.{UNIT}"]
    for left_column, right_column in plan.on:
        right_key = engine_null(f"r.{name(right_column)}", right_rows.columns[right_column])
        conditions.append(f"l.{name(left_column)} = {right_key}")
    from_left = list_carried(left_rows.node, left_rows.columns)
    joined = {right_column: left_column for left_column, right_column in plan.on}
    constants = {
        column.name: column.of
        for column in right_rows.plan.source.columns  # type: ignore[union-attr]
        if column.name not in joined
    }
    outputs = [list_names(from_left, "l.")]
    for column in list_carried(here.node, here.columns):
        if column in from_left:
            continue
        if column in joined:
            value = f"l.{name(joined[column])}"
        else:
            value = _write_constant(constants[column])
        outputs.append(f"{value} AS {name(column)}")
    is_matched = f"EXISTS (SELECT 1 FROM ({matches}) AS r WHERE {' AND '.join(conditions)})"
    return f"SELECT {', '.join(outputs)} FROM ({left}) AS l WHERE {is_matched}"


def _write_constant(value: object) -> str:
    assert isinstance(value, Value)
    constant = value.value
    return dialect().text(constant) if isinstance(constant, str) else str(constant.numerator)
