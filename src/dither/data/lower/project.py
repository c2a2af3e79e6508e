"""SELECT of expressions; a column that is passed on keeps what travels beside it."""

from __future__ import annotations

from dither.data.engines.duckdb import name
from dither.data.lower.columns import HASH_A, HASH_B, UNIT, coded, companion
from dither.data.lower.expressions import computed
from dither.plan.algebra import Column, Project
from dither.plan.analyse import Analysed
from dither.plan.expressions import Expression
from dither.plan.stability import Loose, Owned


def project_sql(plan: Project, source: str, before: Analysed, here: Analysed) -> str:
    """One row for each row."""
    wanted: list[Expression] = [each.of for each in plan.columns]  # type: ignore[misc]
    inner, found = computed(source, before.columns, wanted)
    shown = [UNIT, HASH_A, HASH_B] if isinstance(here.node, Owned) else []
    for each, made in zip(plan.columns, found, strict=True):
        value = coded(made.value, made.null, here.columns[each.name]) if made.null else made.value
        shown.append(f"{value} AS {name(each.name)}")
    if not isinstance(here.node, Loose):
        for each in plan.columns:
            if beside := companion(each.name, here.columns[each.name]):
                assert isinstance(each.of, Column)
                kept = companion(each.of.name, before.columns[each.of.name])
                assert kept is not None
                shown.append(f"{name(kept)} AS {name(beside)}")
    return f"SELECT {', '.join(shown)} FROM ({inner})"
