"""WHERE: rows that meet the condition, their narrowed columns moved into the narrowed bounds."""

from __future__ import annotations

from dither.data.lower.columns import list_carried
from dither.data.lower.conditions import condition_sql, expressions_in
from dither.data.lower.expressions import compute_columns
from dither.data.quoting import name
from dither.plan.algebra import Filter
from dither.plan.analyse import Analysed


def filter_sql(plan: Filter, source: str, before: Analysed, here: Analysed) -> str:
    """Keep the rows where the condition holds, and clamp columns whose bounds it narrowed.

    The engine may evaluate later expressions before the WHERE, so none of them may trust it. A
    clamped column is inside its bounds whatever the engine does (rule clamp-to-priced-bounds). Rows
    outside are left out by the bounds themselves, so that the clamp never makes two different keys
    equal. The clamp names its column once: the engine replaces columns of an inner filter by their
    expressions, so that the text of filters of filters would grow threefold with each.
    """
    expressions = expressions_in(plan.condition)
    inner, lowered = compute_columns(source, before.columns, expressions)
    condition = condition_sql(
        plan.condition, before.columns, dict(zip(expressions, lowered, strict=True))
    )
    outputs = []
    kept = [f"({condition})"]
    for column in list_carried(here.node, here.columns):
        quoted = name(column)
        domain = here.columns.get(column)
        old = before.columns.get(column)
        if (
            domain is not None
            and old is not None
            and (domain.low, domain.high, domain.nullable) != (old.low, old.high, old.nullable)
        ):
            outputs.append(f"greatest({domain.low}, least({domain.high}, s.{quoted})) AS {quoted}")
            kept.append(f"s.{quoted} BETWEEN {domain.low} AND {domain.high}")
        else:
            outputs.append(f"s.{quoted}")
    return f"SELECT {', '.join(outputs)} FROM ({inner}) AS s WHERE {' AND '.join(kept)}"
