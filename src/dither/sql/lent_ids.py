"""Ids of the table that a LEFT JOIN adds: null where it found no row.

In `a LEFT JOIN b ON a.id = b.id` the id of b is read from the column of a, and an owner from the
row. Both have a value where b has no row, so a marker tells that they are null. Whoever compares
such an id has to read the marker too: null meets nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from sqlglot import exp

from dither.plan.algebra import Call, Filter, Holds
from dither.sql.scope import Context, Field, Relation


def keep_present(
    relation: Relation, fields: Iterable[Field], node: exp.Expr, context: Context
) -> Relation:
    """Leave out the rows in which one of the fields is null for want of a row.

    Raises QueryError where the join was bound without a marker.
    """
    plan = relation.plan
    markers = []
    for field in fields:
        if field.is_lent and field.marker is None:
            raise context.error(
                f"{field.name} of the table that a LEFT JOIN adds, in a condition that rows "
                "without it never meet: write JOIN in its place, which keeps the same rows",
                node,
            )
        if field.is_lent and field.marker not in markers:
            markers.append(field.marker)
    for marker in markers:
        assert marker is not None
        plan = Filter(plan, Holds(Call("is_not_null", (marker,))))
    return replace(relation, plan=plan)


def refuse_kept(fields: Iterable[Field], node: exp.Expr, context: Context) -> None:
    """Refuse such ids where the rows without them are kept."""
    for field in fields:
        if field.is_lent:
            raise context.error(
                f"{field.name} is null where the LEFT JOIN before found no row, and those rows "
                f"are kept here: name the {field.name} of the table that the LEFT JOIN keeps",
                node,
            )
