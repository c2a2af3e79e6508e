"""SELECT of expressions; a column that is passed on keeps what travels beside it."""

from __future__ import annotations

from dither.data.engines.duckdb import name
from dither.data.lower.columns import HASH_A, HASH_B, UNIT, companion, encode_null
from dither.data.lower.expressions import compute_columns
from dither.plan.algebra import Column, Project
from dither.plan.analyse import Analysed
from dither.plan.expressions import Expression
from dither.plan.stability import Loose, Owned


def project_sql(plan: Project, source: str, before: Analysed, here: Analysed) -> str:
    """One row for each row."""
    expressions: list[Expression] = [column.of for column in plan.columns]  # type: ignore[misc]
    inner, lowered_columns = compute_columns(source, before.columns, expressions)
    outputs = [UNIT, HASH_A, HASH_B] if isinstance(here.node, Owned) else []
    for column, lowered in zip(plan.columns, lowered_columns, strict=True):
        value = (
            encode_null(lowered.value, lowered.null, here.columns[column.name])
            if lowered.null
            else lowered.value
        )
        outputs.append(f"{value} AS {name(column.name)}")
    if not isinstance(here.node, Loose):
        for column in plan.columns:
            if beside := companion(column.name, here.columns[column.name]):
                assert isinstance(column.of, Column)
                kept = companion(column.of.name, before.columns[column.of.name])
                assert kept is not None
                outputs.append(f"{name(kept)} AS {name(beside)}")
    return f"SELECT {', '.join(outputs)} FROM ({inner})"
