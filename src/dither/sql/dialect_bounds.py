"""Contribution bounds per group, as GoogleSQL has them: aggregates over persons instead of rows.

COUNT and SUM bound what one person adds to a group; AVG is the mean of the persons' means.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from dither.catalog import Catalog
from dither.catalog.owners import owner_names
from dither.sql.parse import parse_trees
from dither.sql.refusals.refuse import refuse

BOUNDED = "DITHER_BOUNDED"
"""The function that marks an aggregate with its bounds per group.

It is there until the question is rewritten.
"""


@dataclass(frozen=True)
class UnitColumn:
    """Where the column of the privacy unit is found: its name in the question, or the catalog.

    `original` is the text as it was written, for errors.
    """

    name: str | None
    catalog: Catalog | None
    original: str

    def find(self, select: exp.Select) -> exp.Column:
        """Find the column that names the owner of the rows of a SELECT.

        Raises QueryError where no table of FROM has one.
        """
        if self.name is not None:
            return exp.column(self.name)
        clause = select.args.get("from_")
        joins = select.args.get("joins") or []
        sources = [] if clause is None else [clause.this, *(join.this for join in joins)]
        private = self.catalog.private_tables if self.catalog is not None else ()
        tables = {table.name.lower(): table for table in private}
        for source in sources:
            table = tables.get(source.name.lower()) if isinstance(source, exp.Table) else None
            if table is not None and self.catalog is not None:
                owner = min(owner_names(self.catalog, table), default=None)
                if owner is not None:
                    return exp.column(owner, table=source.alias_or_name)
        raise refuse(
            "no table of FROM has the owner's column: name it as privacy_unit_column in "
            "OPTIONS(...)",
            self.original,
            span=(0, len("SELECT")),
        )


def require_units(sql: str, unit: UnitColumn, least: int) -> str | None:
    """Rewrite a question to groups whose noisy, paid count of privacy units is at least `least`.

    None where the question is no plain SELECT.
    """
    select = _read_select(sql)
    if select is None:
        return None
    counted = exp.Count(this=exp.Distinct(expressions=[unit.find(select)]))
    return select.having(exp.GTE(this=counted, expression=exp.Literal.number(least))).sql(
        dialect="duckdb"
    )


def find_inner_unit(nested: str) -> str:
    """The name of the unit's column in a question that `nest_per_person` made."""
    select = _read_select(nested)
    assert select is not None
    return str(select.args["from_"].this.this.selects[0].name)


def _read_select(sql: str) -> exp.Select | None:
    trees = parse_trees(sql)
    return trees[0] if len(trees) == 1 and isinstance(trees[0], exp.Select) else None


def nest_per_person(sql: str, unit_column: UnitColumn) -> str | None:
    """Rewrite a question to be over one row per person and group.

    The bounded numbers of all persons are added up. None where the question is no plain SELECT.
    """
    original = unit_column.original
    tree = _read_select(sql)
    if tree is None:
        return None
    group = tree.args.get("group")
    keys = list(group.expressions) if group is not None else []
    named = {f"dp_key_{position}": key for position, key in enumerate(keys, 1)}
    inner: dict[str, exp.Expr] = {}
    outer: exp.Expr = tree.copy()
    for clause in ("from_", "joins", "where", "group"):
        outer.set(clause, None)
    outer = outer.transform(lambda node: _rewrite_node(node, named, inner, original))
    unit = unit_column.find(tree)
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
    """Rewrite an aggregate over rows as one over persons, and a key as the name it has there.

    `keys` maps those names to keys; a person's own aggregates are added to `inner` by name.
    """
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
    """Return the name of a person's own aggregate, which is added to `inner` at its first use."""
    for name, noted in inner.items():
        if noted == aggregate:
            return name
    name = f"dp_value_{len(inner) + 1}"
    inner[name] = aggregate.copy()
    return name
