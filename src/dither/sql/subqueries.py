"""IN (SELECT ...) and EXISTS (SELECT ...): joins that only ask whether there is a row.

Within the owner, or over public tables (rule owners-never-meet). The subquery becomes at most one row per owner and
value, so that no outer row is counted twice.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Literal

from sqlglot import exp

from dither.errors import RefusedError
from dither.plan.algebra import (
    Call,
    Column,
    Count,
    Distinct,
    Expression,
    Filter,
    IsNull,
    Join,
    Named,
    PerUnit,
    Plan,
    Project,
)
from dither.plan.domain import Domain, is_stored
from dither.plan.stability import Owned, Public
from dither.sql.constants import truth
from dither.sql.expressions import expression, flattened
from dither.sql.joins import as_texts, same_owner, with_columns
from dither.sql.refusals.refuse import refused
from dither.sql.scope import Context, Field, Relation, Scope, fresh_name

Bind = Callable[[exp.Expr, list[exp.Expr] | None], Relation]
"""Binds a subquery: whole, or its FROM with some of its conditions."""
Pair = tuple[Field, Field]


def is_subquery(node: exp.Expr) -> bool:
    """Whether a node is IN or EXISTS over a subquery."""
    return isinstance(node, exp.Exists) or (isinstance(node, exp.In) and bool(node.args.get("query")))


def subqueries_in(node: exp.Expr) -> list[exp.Expr]:
    """The outermost IN and EXISTS over subqueries under a node."""
    found = node.walk(prune=lambda part: is_subquery(part) or isinstance(part, exp.Query))
    return [each for each in found if is_subquery(each)]


def semi_join(
    outer: Relation, node: exp.Expr, at: Context, bind: Bind, use: Literal["only", "not", "value"]
) -> tuple[Relation, Expression]:
    """The outer rows that have a match, that have none, or all of them with a truth value."""
    query = (node.this if isinstance(node, exp.Exists) else node.args["query"]).unnest()
    if isinstance(query, exp.Subquery):
        query = query.this
    inner, pairs = _correlated(query, outer, node, at, bind)
    if isinstance(node, exp.In):
        fields = _selected(query, Scope(at, inner)) if pairs else list(inner.fields)
        pairs = _listed(node, fields, outer, inner, at, use) + pairs
    right = at.analysed(inner.plan, node).node
    if isinstance(right, Public):
        if not any(not one.is_owner for one, _ in pairs):
            raise refused("correlation", at, node)
    elif not isinstance(right, Owned) or not same_owner(pairs):
        raise refused("uncorrelated", at, node)
    if not isinstance(at.analysed(outer.plan, node).node, Owned):
        raise refused("loose join", at, node)
    values = [(one, other) for one, other in pairs if not (one.is_owner and other.is_owner)]
    if any(one.is_owner or other.is_owner for one, other in values):
        raise refused("id", at, node)
    return _matched(outer, inner, values, node, at, use)


def _correlated(
    query: exp.Expr, outer: Relation, node: exp.Expr, at: Context, bind: Bind
) -> tuple[Relation, list[Pair]]:
    """The subquery's rows without the conditions on the outer row, and those conditions as pairs."""
    where = query.args.get("where") if isinstance(query, exp.Select) else None
    if where is None:
        return bind(query, None), []
    inner = bind(query, [])
    scope, around = Scope(at, inner), Scope(at, outer)
    mine: list[exp.Expr] = []
    pairs: list[Pair] = []
    for part in flattened(where.this, exp.And):
        outside = [each for each in part.find_all(exp.Column) if not _is_inside(each, part, scope, around)]
        if not outside:
            mine.append(part)
            continue
        part = part.unnest()
        sides = [part.this.unnest(), part.expression.unnest()] if isinstance(part, exp.EQ) else []
        if len(sides) != 2 or not all(isinstance(each, exp.Column) for each in sides) or len(outside) != 1:
            raise refused("correlation", at, part)
        other = sides[1] if sides[0] is outside[0] else sides[0]
        pairs.append((around.field(outside[0]), scope.field(other)))
    if not pairs:
        return bind(query, None), []
    if any(query.args.get(part) for part in ("group", "having")):
        raise refused("correlation", at, node)
    return (bind(query, mine) if mine else inner), pairs


def _is_inside(column: exp.Column, part: exp.Expr, scope: Scope, around: Scope) -> bool:
    """Whether a column belongs to the subquery: its own names come first. Nested subqueries see to their own."""
    parent = column.parent
    while parent is not None and parent is not part:
        if isinstance(parent, exp.Query):
            return True
        parent = parent.parent
    return bool(scope.candidates(column)) or not around.candidates(column)


def _listed(node: exp.In, fields: list[Field], outer: Relation, inner: Relation, at: Context, use: str) -> list[Pair]:
    """The pairs of `a IN (SELECT b ...)` and `(a, b) IN (SELECT c, d ...)`."""
    left = node.this.unnest()
    nodes = left.expressions if isinstance(left, exp.Tuple) else [left]
    if len(fields) != len(nodes):
        raise at.error(f"IN compares {len(nodes)} columns with {len(fields)}", node)
    around, scope, pairs = Scope(at, outer), Scope(at, inner), []
    for one, other in zip(nodes, fields, strict=True):
        mine = around.field(one) if isinstance(one, exp.Column) else Field(None, "value", expression(one, around))
        if use != "only" and (_can_be_null(mine, around) or _can_be_null(other, scope)):
            raise refused("not in null", at, node)
        pairs.append((mine, other))
    return pairs


def _can_be_null(field: Field, scope: Scope) -> bool:
    """Owners never are; nor are keys that lead to one."""
    if field.marker is not None:
        return True
    return field.of is not None and not field.is_reference and scope.domain(field.of).nullable


def _selected(query: exp.Expr, scope: Scope) -> list[Field]:
    """The fields that a subquery selects, of which only FROM and WHERE were bound."""
    fields: list[Field] = []
    for item in query.expressions:
        each = item.this if isinstance(item, exp.Alias) else item
        if isinstance(each, exp.Star):
            fields += scope.relation.fields
        elif isinstance(each, exp.Column):
            fields.append(scope.field(each))
        else:
            fields.append(Field(None, "value", expression(each, scope)))
    return fields


def _matched(
    outer: Relation, inner: Relation, pairs: list[Pair], node: exp.Expr, at: Context, use: str
) -> tuple[Relation, Expression]:
    pairs = as_texts(pairs, Scope(at, outer), Scope(at, inner))
    outer, mine = with_columns(outer, [one for one, _ in pairs], at)
    inner, theirs = with_columns(inner, [other for _, other in pairs], at)
    taken = {name.lower() for name in at.analysed(outer.plan, node).columns}
    columns = at.analysed(inner.plan, node).columns
    names = {column: fresh_name(f"in_{column}", taken) for column in dict.fromkeys(theirs)}
    marker = fresh_name("matched", taken)
    plan = _once(inner.plan, names, marker, {column: columns[column] for column in names}, node, at)
    on = tuple((one, names[other]) for one, other in zip(mine, theirs, strict=True))
    made: Plan = Join(outer.plan, plan, on, "inner" if use == "only" else "left")
    at.analysed(made, node)
    if use == "not":
        made = Filter(made, IsNull(marker))
    return replace(outer, plan=made), Call("is_not_null", (Column(marker),))


def _once(
    plan: Plan, names: dict[str, str], marker: str, columns: dict[str, Domain], node: exp.Expr, at: Context
) -> Plan:
    """The subquery with one row per owner and value, or per value of a public table, and a marker."""
    named = tuple(Named(new, Column(old)) for old, new in names.items())
    if isinstance(at.analysed(plan, node).node, Owned):
        if all(is_stored(domain) or domain.undeclared for domain in columns.values()):
            inner = Project(plan, named) if named else plan
            return PerUnit(inner, tuple(names.values()), (Named(marker, Count()),))
        return Distinct(Project(plan, (*named, Named(marker, truth(True)))), True)
    public = at.analysed(plan, node).node
    assert isinstance(public, Public)
    keys = tuple(original for old in names if (original := public.original(old)))
    try:
        is_once = len(keys) == len(names) and at.facts.multiplicity(public.table, keys) == 1
    except RefusedError:
        is_once = False
    if not is_once:
        plan = Distinct(Project(plan, named), False)
        named = tuple(Named(new, Column(new)) for new in names.values())
    return Project(plan, (*named, Named(marker, truth(True))))
