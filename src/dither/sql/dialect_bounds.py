"""Contribution bounds per group, as GoogleSQL has them: aggregates over persons instead of rows.

COUNT and SUM bound what one person adds to a group; AVG is the mean of the persons' means.
"""

from __future__ import annotations

from sqlglot import exp

from dither.sql.parse import parse_trees
from dither.sql.refusals.refuse import refuse

BOUNDED = "DITHER_BOUNDED"
"""The function that marks an aggregate with its bounds per group.

It is there until the question is rewritten.
"""


def nest_per_person(sql: str, unit_column: str | None, original: str) -> str | None:
    """The question over one row per person and group.

    The bounded numbers of all persons are added up.

    None where the question is no plain SELECT. `original` is the text as it was written, for
    errors.
    """
    if unit_column is None:
        raise refuse(
            "contribution_bounds_per_group needs privacy_unit_column in OPTIONS(...)", original
        )
    trees = parse_trees(sql)
    tree = trees[0] if len(trees) == 1 else None
    if not isinstance(tree, exp.Select):
        return None
    group = tree.args.get("group")
    keys = list(group.expressions) if group is not None else []
    named = {f"dp_key_{position}": key for position, key in enumerate(keys, 1)}
    inner: dict[str, exp.Expr] = {}
    outer: exp.Expr = tree.copy()
    for clause in ("from_", "joins", "where", "group"):
        outer.set(clause, None)
    outer = outer.transform(lambda node: _rewrite_node(node, named, inner, original))
    unit = exp.column(unit_column)
    rows = exp.Select(
        expressions=[
            unit.copy(),
            *(exp.alias_(key.copy(), name) for name, key in named.items()),
            *(exp.alias_(value, name) for name, value in inner.items()),
        ]
    )
    for clause in ("from_", "joins", "where"):
        rows.set(
            clause,
            tree.args[clause].copy()
            if isinstance(tree.args.get(clause), exp.Expr)
            else tree.args.get(clause),
        )
    rows.set("group", exp.Group(expressions=[unit.copy(), *(key.copy() for key in keys)]))
    outer.set("from_", exp.From(this=rows.subquery("dp_units")))
    if keys:
        outer.set("group", exp.Group(expressions=[exp.column(name) for name in named]))
    return outer.sql(dialect="duckdb")


def _rewrite_node(
    node: exp.Expr, keys: dict[str, exp.Expr], inner: dict[str, exp.Expr], original: str
) -> exp.Expr:
    """An aggregate over rows as an aggregate over persons; a key as the name it has there."""
    for name, key in keys.items():
        if node == key and not isinstance(node.parent, exp.Alias):
            return (
                exp.alias_(exp.column(name), node.name)
                if isinstance(node.parent, exp.Select)
                else exp.column(name)
            )
        if node == key:
            return exp.column(name)
    low = high = None
    aggregate = node
    if isinstance(node, exp.Anonymous) and node.name.upper() == BOUNDED:
        aggregate, low, high = node.expressions
    elif not isinstance(node, exp.AggFunc):
        return node
    if isinstance(aggregate, exp.Count) and not isinstance(aggregate.this, exp.Distinct):
        value: exp.Expr = exp.column(_name_aggregate(aggregate, inner))
    elif isinstance(aggregate, exp.Sum):
        value = exp.column(_name_aggregate(aggregate, inner))
    elif isinstance(aggregate, exp.Avg):
        total = _name_aggregate(exp.Sum(this=aggregate.this.copy()), inner)
        rows = _name_aggregate(exp.Count(this=aggregate.this.copy()), inner)
        value = exp.Div(this=exp.column(total), expression=exp.column(rows))
    else:
        raise refuse(
            f"{aggregate.sql(dialect='duckdb')} beside contribution_bounds_per_group is not "
            "answered: ask for it in a question of its own",
            original,
        )
    if low is not None and high is not None:
        value = exp.Anonymous(this="CLAMP", expressions=[value, low.copy(), high.copy()])
    over_persons: exp.Expr = (
        exp.Avg(this=value) if isinstance(aggregate, exp.Avg) else exp.Sum(this=value)
    )
    if not isinstance(node.parent, exp.Select):
        return over_persons
    column = aggregate.this.name if isinstance(aggregate.this, exp.Column) else ""
    return exp.alias_(over_persons, f"{aggregate.key}_{column}" if column else aggregate.key)


def _name_aggregate(aggregate: exp.Expr, inner: dict[str, exp.Expr]) -> str:
    """The name of a person's own aggregate."""
    for name, noted in inner.items():
        if noted == aggregate:
            return name
    name = f"dp_value_{len(inner) + 1}"
    inner[name] = aggregate.copy()
    return name
