"""SELECT of expressions; a column that is passed on keeps what travels beside it."""

from __future__ import annotations

from dither.data.lower.columns import HASH_A, HASH_B, UNIT, companion, encode_null, integer
from dither.data.lower.expressions import compute_columns
from dither.data.lower.functions.sql import clamp_value
from dither.data.quoting import name
from dither.plan.algebra import Call, Column, Project
from dither.plan.analyse import Analysed
from dither.plan.expressions import Expression
from dither.plan.functions import domain_of
from dither.plan.stability import Loose, Owned


def project_sql(plan: Project, source: str, before: Analysed, here: Analysed) -> str:
    """Write the SELECT of a projection: one row for each row.

    A value of which more is known than its arguments say is moved into its domain.
    """
    expressions: list[Expression] = [column.of for column in plan.columns]  # type: ignore[misc]
    inner, lowered_columns = compute_columns(source, before.columns, expressions)
    outputs = [UNIT, HASH_A, HASH_B] if isinstance(here.node, Owned) else []
    for column, lowered in zip(plan.columns, lowered_columns, strict=True):
        domain = here.columns[column.name]
        value = lowered.value
        if isinstance(column.of, Call):
            plain = domain_of(column.of, before.columns)
            if (domain.low, domain.high) != (plain.low, plain.high):
                value = clamp_value(integer(value, plain), domain.low, domain.high)
        value = encode_null(value, lowered.null, domain) if lowered.null else value
        outputs.append(f"{value} AS {name(column.name)}")
    if not isinstance(here.node, Loose):
        for column in plan.columns:
            if beside := companion(column.name, here.columns[column.name]):
                assert isinstance(column.of, Column)
                kept = companion(column.of.name, before.columns[column.of.name])
                assert kept is not None
                outputs.append(f"{name(kept)} AS {name(beside)}")
    return f"SELECT {', '.join(outputs)} FROM ({inner})"
