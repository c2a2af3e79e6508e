"""GROUP BY inside a subquery: exact aggregates per person (PerUnit), or over everybody (rows without an owner)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from sqlglot import exp

from dither.canonical import shorten
from dither.errors import QueryError
from dither.plan.algebra import (
    Aggregate,
    Call,
    Column,
    Count,
    CountDistinct,
    CountValues,
    Expression,
    Filter,
    Group,
    Maximum,
    Minimum,
    Named,
    PerUnit,
    Plan,
    Project,
    Sum,
)
from dither.plan.stability import Owned
from dither.sql.conditions import condition
from dither.sql.constants import number
from dither.sql.expressions import expression
from dither.sql.key_codes import coded, period_of
from dither.sql.names import output_name
from dither.sql.parse import read_whole
from dither.sql.refusals.refuse import refused
from dither.sql.scope import Context, Field, Relation, Scope, fresh_name, worded


def walk(node: exp.Expr) -> Iterator[exp.Expr]:
    """A node and what is under it, subqueries not entered."""
    for each in node.walk(prune=lambda part: part is not node and isinstance(part, exp.Query)):
        if each is node or not isinstance(each, exp.Query):
            yield each


def is_aggregate(node: exp.Expr) -> bool:
    """Whether a node is an aggregate: one number from many rows."""
    if isinstance(node, exp.Anonymous):
        return str(node.this).lower() in ("histogram", "product")
    if isinstance(node, (exp.Grouping, exp.GroupingId)):
        return False
    return isinstance(node, (exp.AggFunc, exp.Filter, exp.WithinGroup))


def has_aggregates(select: exp.Select) -> bool:
    """Whether the outputs or HAVING of a SELECT hold an aggregate."""
    parts = [*select.expressions, *([select.args["having"]] if select.args.get("having") else [])]
    return any(contains_aggregate(part) for part in parts)


def contains_aggregate(node: exp.Expr) -> bool:
    windows = [id(each.this) for each in node.find_all(exp.Window)]
    return any(is_aggregate(each) and id(each) not in windows for each in walk(node))


def key_nodes(select: exp.Select, scope: Scope) -> list[exp.Expr]:
    """What a plain GROUP BY lists, with positions and aliases looked up."""
    group = select.args.get("group")
    if group is None:
        return []
    items = [each.this if isinstance(each, exp.Alias) else each for each in select.expressions]
    if group.args.get("all"):
        return [each for each in items if not contains_aggregate(each)]
    return [key_node(each, select, scope) for each in group.expressions]


def key_node(node: exp.Expr, select: exp.Select, scope: Scope) -> exp.Expr:
    """A key with its position or alias looked up: a column of FROM comes before an alias, as in SQL."""
    node = node.unnest()
    items: list[exp.Expr] = select.expressions
    found: exp.Expr
    if isinstance(node, exp.Literal) and not node.is_string:
        position = read_whole(node)
        if position is None or not 1 <= position <= len(items):
            raise scope.at.error(f"there is no column {shorten(node.this)}: the positions are 1 to {len(items)}", node)
        found = items[position - 1]
        found = found.this if isinstance(found, exp.Alias) else found
    elif isinstance(node, exp.Column) and not node.table and not scope.candidates(node):
        named = [each for each in items if isinstance(each, exp.Alias) and each.alias.lower() == node.name.lower()]
        found = named[0].this if named else node
    else:
        found = node
    if contains_aggregate(found):
        raise refused("aggregate in where", scope.at, node)
    return found


@dataclass
class _Inside:
    """What is collected while the outputs of an aggregated subquery are read."""

    scope: Scope
    taken: set[str]
    columns: dict[Expression, str] = field(default_factory=dict)
    aggregates: dict[Aggregate, str] = field(default_factory=dict)

    def column(self, value: Expression, wanted: str) -> str:
        """The name of the column that holds a value before grouping."""
        if value not in self.columns:
            self.columns[value] = fresh_name(value.name if isinstance(value, Column) else wanted, self.taken)
        return self.columns[value]

    def aggregate(self, aggregate: Aggregate, wanted: str) -> Expression:
        if aggregate not in self.aggregates:
            self.aggregates[aggregate] = fresh_name(wanted, self.taken)
        return Column(self.aggregates[aggregate])


def grouped(select: exp.Select, relation: Relation, at: Context) -> Relation:
    """The relation of an aggregated subquery."""
    scope = Scope(at, relation)
    group = select.args.get("group")
    if group is None or not (group.expressions or group.args.get("all")):
        raise refused("inner total" if group is None else "inner sets", at, select.expressions[0])
    if any(isinstance(each, (exp.Rollup, exp.Cube, exp.GroupingSets)) for each in group.expressions) or any(
        group.args.get(part) for part in ("rollup", "cube", "grouping_sets", "totals")
    ):
        raise refused("inner sets", at, group)
    inside = _Inside(scope, set())
    owner: Field | None = None
    keys: dict[Expression, Field] = {}
    for place, node in enumerate(key_nodes(select, scope), 1):
        known = scope.field(node) if isinstance(node, exp.Column) else None
        if known is not None and known.is_owner:
            if known.marker is not None:
                raise at.error("GROUP BY the owner of the side that a LEFT JOIN keeps", node)
            owner = known
            continue
        value = expression(node, scope)
        code = coded(value)
        name = inside.column(code[0] if code else value, output_name(node, place))
        keys[value] = Field(
            known.source if known else None,
            known.name if known else name,
            Column(name),
            labels=code[1] if code else (),
            period=period_of(value) or scope.period_of(value),
        )
    found: dict[int, Expression] = {}
    items = [each.this if isinstance(each, exp.Alias) else each for each in select.expressions]
    having = select.args.get("having")
    for node in (*items, *([having.this] if having else [])):
        _replace(node, keys, inside, owner is not None, found)
    named = tuple(Named(name, value) for value, name in inside.columns.items())
    base: Plan = relation.plan
    if any(not isinstance(each.of, Column) or each.of.name != each.name for each in named):
        base = Project(base, named)
    key_names = tuple(dict.fromkeys(each.of.name for each in keys.values() if isinstance(each.of, Column)))
    made = tuple(Named(name, aggregate) for aggregate, name in inside.aggregates.items())
    if not made:
        made = (Named(fresh_name("present", inside.taken), Count()),)
    if owner is not None:
        if not isinstance(at.analysed(base, group).node, Owned):
            raise refused("loose join", at, group)
        plan: Plan = PerUnit(base, key_names, made)
    else:
        plan = Group(base, key_names, made)
    at.analysed(plan, group)
    fields = (*([owner] if owner is not None else []), *keys.values())
    after = Scope(at, Relation(plan, tuple(fields)), found)
    if having:
        plan = Filter(plan, condition(having.this, after))
        after = Scope(at, Relation(plan, tuple(fields)), found)
    return Relation(
        plan, tuple(_output(item, place, after, owner, keys) for place, item in enumerate(select.expressions, 1))
    )


def _output(item: exp.Expr, place: int, after: Scope, owner: Field | None, keys: dict[Expression, Field]) -> Field:
    node = item.this if isinstance(item, exp.Alias) else item
    name = item.alias if isinstance(item, exp.Alias) else output_name(node, place)
    if isinstance(node, exp.Star):
        raise refused("not a key", after.at, node)
    if isinstance(node, exp.Column) and id(node) not in after.found:
        known = after.candidates(node)
        if not known:
            raise refused("not a key", after.at, node)
        return replace(known[0], source=None, name=name)
    value = expression(node, after)
    match = next((each for each in keys.values() if value in (each.of, _text_of(each))), None)
    if match is not None:
        return replace(match, source=None, name=name)
    return Field(None, name, value, period=period_of(value))


def _text_of(key: Field) -> Expression | None:
    return worded(key.of, key.labels) if key.of is not None and key.labels else None


def _replace(
    node: exp.Expr, keys: dict[Expression, Field], inside: _Inside, per_unit: bool, found: dict[int, Expression]
) -> None:
    """Note what aggregates and keys inside a node mean after grouping."""
    if isinstance(node, exp.Query):
        return
    if isinstance(node, exp.Window):
        raise refused("window", inside.scope.at, node)
    if is_aggregate(node):
        found[id(node)] = _aggregate(node, inside, per_unit)
        return
    if not contains_aggregate(node) and keys and not isinstance(node, (exp.Literal, exp.Star)):
        match = _as_key(node, keys, inside.scope)
        if match is not None and match.of is not None:
            if not match.labels:
                found[id(node)] = match.of
            elif not isinstance(node, exp.Column):
                found[id(node)] = worded(match.of, match.labels)
            return
    for child in node.iter_expressions():
        _replace(child, keys, inside, per_unit, found)


def _as_key(node: exp.Expr, keys: dict[Expression, Field], scope: Scope) -> Field | None:
    if isinstance(node, exp.Column):
        known = scope.candidates(node)
        if len(known) != 1 or known[0].is_owner:
            return None
    try:
        return keys.get(expression(node, scope))
    except QueryError:
        return None


def _aggregate(node: exp.Expr, inside: _Inside, per_unit: bool) -> Expression:
    """An exact aggregate inside a person, as an expression over the columns of the grouped plan."""
    scope = inside.scope
    chosen: Expression | None = None
    inner = node
    if isinstance(node, exp.Filter):
        chosen, inner = expression(node.expression.this, scope), node.this
    if any(is_aggregate(each) for each in walk(inner) if each is not inner):
        raise refused("nested aggregate", scope.at, node)
    word = output_name(inner, 1)
    if isinstance(inner, exp.Count):
        return _counted(inner, chosen, inside, per_unit, word)
    if isinstance(inner, exp.CountIf):
        value = expression(inner.this, scope)
        return inside.aggregate(Sum(inside.column(_where(chosen, value), word)), word)
    if not isinstance(inner, (exp.Sum, exp.Avg, exp.Min, exp.Max)) or inner.expressions:
        raise refused("inner aggregate", scope.at, node)
    if isinstance(inner.this, exp.Distinct):
        raise refused("distinct aggregate", scope.at, node)
    value = _where(chosen, expression(inner.this, scope))
    domain = scope.domain(value, node)
    name = inside.column(value, word)
    if isinstance(inner, (exp.Min, exp.Max)):
        return inside.aggregate(Minimum(name) if isinstance(inner, exp.Min) else Maximum(name), word)
    total = inside.aggregate(Sum(name), word if isinstance(inner, exp.Sum) else f"sum_{name}")
    counted = inside.aggregate(
        CountValues(name) if domain.nullable else Count(), f"count_{name}" if domain.nullable else "count"
    )
    if isinstance(inner, exp.Avg):
        return Call("divide", (total, counted))
    return Call("case", (Call("gt", (counted, number(0))), total)) if domain.nullable else total


def _where(chosen: Expression | None, value: Expression) -> Expression:
    """The value where a FILTER holds, else null."""
    return value if chosen is None else Call("case", (chosen, value))


def _counted(node: exp.Count, chosen: Expression | None, inside: _Inside, per_unit: bool, word: str) -> Expression:
    scope = inside.scope
    if isinstance(node.this, exp.Star):
        if chosen is None:
            return inside.aggregate(Count(), "count")
        return inside.aggregate(Sum(inside.column(chosen, "chosen")), "count_if")
    is_distinct = isinstance(node.this, exp.Distinct)
    listed = node.this.expressions if isinstance(node.this, exp.Distinct) else [node.this, *node.expressions]
    if len(listed) != 1:
        raise refused("inner aggregate", scope.at, node)
    if isinstance(listed[0], exp.Column):
        known = scope.field(listed[0])
        if known.is_owner or (known.of is not None and scope.domain(known.of).kind == "id"):
            if is_distinct:
                raise refused("distinct id", scope.at, node)
            if known.present:
                tests = known.present
                found = _where(chosen, tests[0] if len(tests) == 1 else Call("and", tests))
                return inside.aggregate(Sum(inside.column(found, "found")), word)
            return _counted(exp.Count(this=exp.Star()), chosen, inside, per_unit, word)
    value = _where(chosen, expression(listed[0], scope))
    name = inside.column(value, f"value_{word}")
    if is_distinct:
        return inside.aggregate(CountDistinct(name), word)
    if not scope.domain(value, node).nullable:
        return inside.aggregate(Count(), "count")
    return inside.aggregate(CountValues(name), word)
