"""One row for each id (or person) and key under a SELECT, which then counts and adds up those rows.

COUNT(DISTINCT id) counts rows; FILTER of it counts the rows of which some row below meets the
condition; counts, sums and averages of rows add up those of each id.
"""

from __future__ import annotations

from sqlglot import exp

from dither.sql.rewrites.sources import TableSource


def list_keys(select: exp.Select, sources: list[TableSource]) -> dict[str, exp.Expr] | None:
    """The keys of GROUP BY, each under a name of its own; None where they are more than a list.

    In GROUP BY a column comes before an output of the same name.
    """
    group = select.args.get("group")
    if select.args.get("distinct") or select.args.get("qualify"):
        return None
    if group is None:
        return {}
    if any(value for clause, value in group.args.items() if clause != "expressions"):
        return None
    outputs = select.expressions
    by_alias = {output.alias.lower(): output.this for output in outputs if output.alias}
    keys: dict[str, exp.Expr] = {}
    for position, node in enumerate(group.expressions, 1):
        key = node
        if isinstance(node, exp.Literal):
            if node.is_string or not 1 <= int(node.this) <= len(outputs):
                return None
            key = outputs[int(node.this) - 1].unalias()
        elif isinstance(node, exp.Column) and not node.table and node.name.lower() in by_alias:
            if any(source.columns is None for source in sources):
                return None
            if not any(node.name.lower() in (source.columns or ()) for source in sources):
                key = by_alias[node.name.lower()]
        keys[f"key_{position}"] = key
    return keys


def nest_rows(select: exp.Select, counted: exp.Column, keys: dict[str, exp.Expr]) -> None:
    """Put one row for each id and key under the SELECT, which counts them."""
    for output in select.expressions:
        if not output.alias and output in keys.values():
            output.replace(exp.alias_(output.copy(), output.name or output.sql()))
    aliases = {output.alias.lower() for output in select.expressions if output.alias}
    per_id: dict[str, exp.Expr] = {}
    for clause in ("expressions", "having", "order"):
        nodes = select.args.get(clause)
        kept = aliases if clause == "order" else set()
        for node in nodes if isinstance(nodes, list) else [nodes] if nodes is not None else []:
            node.replace(_rename(node, keys, kept, per_id, counted))
    inner_outputs = [
        counted.copy(),
        *(exp.alias_(key.copy(), name) for name, key in keys.items()),
        *(exp.alias_(aggregate.copy(), name) for name, aggregate in per_id.items()),
    ]
    inner = exp.Select(expressions=inner_outputs)
    for clause in ("from_", "joins", "where"):
        inner.set(clause, select.args.get(clause))
        select.set(clause, None)
    inner_keys = [counted.copy(), *(key.copy() for key in keys.values())]
    inner.set("group", exp.Group(expressions=inner_keys))
    select.set("from_", exp.From(this=inner.subquery("counted_ids")))
    if keys:
        select.set("group", exp.Group(expressions=[exp.column(name) for name in keys]))


def _rename(
    node: exp.Expr,
    keys: dict[str, exp.Expr],
    kept: set[str],
    per_id: dict[str, exp.Expr],
    counted: exp.Column,
) -> exp.Expr:
    """The node with the names of keys, rows counted in the place of ids, and other aggregates over
    those of each id, which are added to `per_id` by name.

    Names in `kept` stay: ORDER BY reads them as outputs.
    """

    def change(child: exp.Expr) -> exp.Expr:
        if isinstance(child, exp.Column) and not child.table and child.name.lower() in kept:
            return child
        for name, key in keys.items():
            if child == key:
                return exp.column(name)
        if isinstance(child, exp.Filter):
            chosen = exp.case().when(child.expression.this, "1").else_("0")
            return _add_up(exp.Max(this=chosen), per_id)
        if isinstance(child, exp.Count) and isinstance(child.this, exp.Distinct):
            return exp.Count(this=exp.column(counted.name))
        if isinstance(child, exp.Avg):
            total = _add_up(exp.Sum(this=child.this), per_id)
            count = _add_up(exp.Count(this=child.this), per_id)
            return exp.Paren(this=exp.Div(this=total, expression=count))
        if isinstance(child, (exp.Count, exp.Sum)):
            return _add_up(child, per_id)
        return child

    return node.transform(change)


def _add_up(aggregate: exp.Expr, per_id: dict[str, exp.Expr]) -> exp.Expr:
    """The sum over all ids of an aggregate of each, which gets a name at its first use."""
    name = next((name for name, known in per_id.items() if known == aggregate), None)
    if name is None:
        name = f"per_id_{len(per_id) + 1}"
        per_id[name] = aggregate.copy()
    return exp.Sum(this=exp.column(name))
