"""Joins. Two private sides always meet by owner, whether or not the plan says so (privacy-rules 8)."""

from __future__ import annotations

from dither.data.engines.duckdb import name
from dither.data.lower.columns import OWNER, carried, code_column, listed
from dither.plan.algebra import Join
from dither.plan.analyse import Analysed
from dither.plan.stability import Owned


def join_sql(plan: Join, left: str, right: str, sides: tuple[Analysed, Analysed], here: Analysed) -> str:
    """The private left side is the preserved one."""
    mine, theirs = sides
    conditions = [f"l.{OWNER} = r.{OWNER}"] if isinstance(theirs.node, Owned) else []
    for one, other in plan.on:
        by_code = mine.columns[one].kind == "category" and theirs.columns[other].kind == "text"
        conditions.append(f"l.{name(one)} = r.{name(code_column(other) if by_code else other)}")
    from_left = carried(mine.node, mine.columns)
    from_right = [column for column in carried(here.node, here.columns) if column not in from_left]
    shown = ", ".join(part for part in (listed(from_left, "l."), listed(from_right, "r.")) if part)
    kind = "LEFT JOIN" if plan.kind == "left" else "JOIN"
    return f"SELECT {shown} FROM ({left}) AS l {kind} ({right}) AS r ON {' AND '.join(conditions)}"
