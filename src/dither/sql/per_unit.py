"""GROUP BY inside a subquery: exact aggregates per person (PerUnit), or over everybody (rows
without an owner)."""

from __future__ import annotations

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
from dither.plan.stability import Owned, Public
from dither.sql.conditions import resolve_condition
from dither.sql.constants import number
from dither.sql.derived_labels import derive_labels
from dither.sql.expressions import resolve_expression
from dither.sql.key_codes import encode_choice, period_of
from dither.sql.names import name_output
from dither.sql.parse import read_whole
from dither.sql.refusals.refuse import make_refusal
from dither.sql.scope import Context, Field, Relation, Scope, decode_labels, fresh_name
from dither.sql.tree_nodes import list_own_nodes


def is_aggregate(node: exp.Expr) -> bool:
    """Whether a node is an aggregate: one number from many rows."""
    if isinstance(node, exp.Anonymous):
        return str(node.this).lower() in ("histogram", "product")
    if isinstance(node, (exp.Grouping, exp.GroupingId)):
        return False
    return isinstance(node, (exp.AggFunc, exp.Filter, exp.WithinGroup))


def has_aggregates(select: exp.Select) -> bool:
    """Whether the outputs or HAVING of a SELECT hold an aggregate."""
    clauses = [*select.expressions, *([select.args["having"]] if select.args.get("having") else [])]
    return any(contains_aggregate(clause) for clause in clauses)


def contains_aggregate(node: exp.Expr) -> bool:
    nodes = list_own_nodes(node)
    windows = [id(inner.this) for inner in nodes if isinstance(inner, exp.Window)]
    return any(is_aggregate(inner) and id(inner) not in windows for inner in nodes)


def list_key_nodes(select: exp.Select, scope: Scope) -> list[exp.Expr]:
    """List what a plain GROUP BY names, with positions and aliases looked up."""
    group = select.args.get("group")
    if group is None:
        return []
    outputs = [
        column.this if isinstance(column, exp.Alias) else column for column in select.expressions
    ]
    if group.args.get("all"):
        return [output for output in outputs if not contains_aggregate(output)]
    return [find_key_node(key, select, scope) for key in group.expressions]


def find_key_node(node: exp.Expr, select: exp.Select, scope: Scope) -> exp.Expr:
    """Look up what a key of GROUP BY stands for: a position, an alias, or itself.

    A column of FROM comes before an alias, as in SQL. Raises QueryError for an aggregate.
    """
    node = node.unnest()
    columns: list[exp.Expr] = select.expressions
    key: exp.Expr
    if isinstance(node, exp.Literal) and not node.is_string:
        position = read_whole(node)
        if position is None or not 1 <= position <= len(columns):
            raise scope.context.error(
                f"there is no column {shorten(node.this)}: the positions are 1 to {len(columns)}",
                node,
            )
        key = columns[position - 1]
        key = key.this if isinstance(key, exp.Alias) else key
    elif isinstance(node, exp.Column) and not node.table and not scope.candidates(node):
        aliased = [
            column
            for column in columns
            if isinstance(column, exp.Alias) and column.alias.lower() == node.name.lower()
        ]
        key = aliased[0].this if aliased else node
    else:
        key = node
    if contains_aggregate(key):
        raise make_refusal("aggregate in where", scope.context, node)
    return key


@dataclass
class _Inside:
    """What is collected while the outputs of an aggregated subquery are read.

    A total (`is_total`) is over all rows of a public table, of which there may be none.
    """

    scope: Scope
    taken: set[str]
    is_total: bool = False
    columns: dict[Expression, str] = field(default_factory=dict)
    aggregates: dict[Aggregate, str] = field(default_factory=dict)

    def column(self, value: Expression, suggested_name: str) -> str:
        """Return the name of the column that holds a value before grouping; it is added at first
        use."""
        if value not in self.columns:
            self.columns[value] = fresh_name(
                value.name if isinstance(value, Column) else suggested_name, self.taken
            )
        return self.columns[value]

    def aggregate(self, aggregate: Aggregate, suggested_name: str) -> Expression:
        if aggregate not in self.aggregates:
            self.aggregates[aggregate] = fresh_name(suggested_name, self.taken)
        return Column(self.aggregates[aggregate])


def bind_grouped(select: exp.Select, relation: Relation, context: Context) -> Relation:
    """The relation of an aggregated subquery."""
    scope = Scope(context, relation)
    group = select.args.get("group")
    is_public = isinstance(context.analyse(relation.plan, select.args["from_"]).node, Public)
    is_total = group is None and is_public
    if not is_total and not (group is not None and (group.expressions or group.args.get("all"))):
        raise make_refusal(
            "inner total" if group is None else "inner sets", context, select.expressions[0]
        )
    if group is not None and _has_sets(group):
        raise make_refusal("inner sets", context, group)
    inside = _Inside(scope, set(), is_total=is_total)
    owner: Field | None = None
    keys: dict[Expression, Field] = {}
    ids: list[tuple[exp.Expr, Field]] = []
    for position, node in enumerate(list_key_nodes(select, scope), 1):
        field = scope.field(node) if isinstance(node, exp.Column) else None
        if field is not None and field.is_owner:
            if field.marker is not None:
                raise context.error("GROUP BY the owner of the side that a LEFT JOIN keeps", node)
            owner = field
            continue
        if field is not None and _is_id(field, scope):
            ids.append((node, field))
            continue
        value = resolve_expression(node, scope)
        code = encode_choice(value) or derive_labels(value, scope.columns)
        name = inside.column(code[0] if code else value, name_output(node, position))
        keys[value] = Field(
            field.source if field else None,
            field.name if field else name,
            Column(name),
            labels=code[1] if code else (),
            period=period_of(value) or scope.period_of(value),
        )
    is_per_unit = owner is not None or _name_one_owner([field for _, field in ids], context)
    for node, field in ids:
        if not is_per_unit or field.marker is not None:
            raise make_refusal("id", context, node)
        assert field.of is not None
        keys[field.of] = replace(field, of=Column(inside.column(field.of, field.name)))
    meanings: dict[int, Expression] = {}
    outputs = [
        column.this if isinstance(column, exp.Alias) else column for column in select.expressions
    ]
    having = select.args.get("having")
    for node in (*outputs, *([having.this] if having else [])):
        _note_meanings(node, keys, inside, is_per_unit, meanings)
    named = tuple(Named(name, value) for value, name in inside.columns.items())
    base: Plan = relation.plan
    if any(not isinstance(column.of, Column) or column.of.name != column.name for column in named):
        base = Project(base, named)
    key_names = tuple(
        dict.fromkeys(key.of.name for key in keys.values() if isinstance(key.of, Column))
    )
    aggregates = tuple(Named(name, aggregate) for aggregate, name in inside.aggregates.items())
    if not aggregates:
        aggregates = (Named(fresh_name("present", inside.taken), Count()),)
    node = group or select.expressions[0]
    if is_per_unit:
        if not isinstance(context.analyse(base, node).node, Owned):
            raise make_refusal("loose join", context, group)
        plan: Plan = PerUnit(base, key_names, aggregates)
    else:
        plan = Group(base, key_names, aggregates)
    context.analyse(plan, node)
    fields = (*([owner] if owner is not None else []), *keys.values())
    after = Scope(context, Relation(plan, tuple(fields)), meanings)
    if having:
        plan = Filter(plan, resolve_condition(having.this, after))
        after = Scope(context, Relation(plan, tuple(fields)), meanings)
    return Relation(
        plan,
        tuple(
            _read_output(column, position, after, owner, keys)
            for position, column in enumerate(select.expressions, 1)
        ),
    )


def _has_sets(group: exp.Group) -> bool:
    """Whether GROUP BY has ROLLUP, CUBE, GROUPING SETS or totals."""
    sets = (exp.Rollup, exp.Cube, exp.GroupingSets)
    return any(isinstance(key, sets) for key in group.expressions) or any(
        group.args.get(clause) for clause in ("rollup", "cube", "grouping_sets", "totals")
    )


def _is_id(field: Field, scope: Scope) -> bool:
    """Whether a field is an id that is no owner: the name of a row."""
    return isinstance(field.of, Column) and scope.domain(field.of).kind == "id"


def _name_one_owner(ids: list[Field], context: Context) -> bool:
    """Whether rows that agree on some ids have one owner: they are a whole key that leads to it.

    Ids that refer to another table's row are never null. The id of a row that others refer to may
    be: rows without one are then a group of each person. In another window the same id may be
    somebody else's: there only references count.
    """
    has_windows = context.catalog.unit.column is not None
    anchors = {
        field.anchor
        for field in ids
        if field.anchor is not None and (field.is_reference or not has_windows)
    }
    return any(all((table, key, name) in anchors for name in key) for table, key, _ in anchors)


def _read_output(
    column: exp.Expr,
    position: int,
    after: Scope,
    owner: Field | None,
    keys: dict[Expression, Field],
) -> Field:
    """Read one column of a subquery per person: an aggregate, a key, or an expression of those."""
    node = column.this if isinstance(column, exp.Alias) else column
    name = column.alias if isinstance(column, exp.Alias) else name_output(node, position)
    if isinstance(node, exp.Star):
        raise make_refusal("not a key", after.context, node)
    if isinstance(node, exp.Column) and id(node) not in after.meanings:
        fields = after.candidates(node)
        if not fields:
            raise make_refusal("not a key", after.context, node)
        return replace(fields[0], source=None, name=name)
    value = resolve_expression(node, after)
    matching_key = next((key for key in keys.values() if value in (key.of, _decode_key(key))), None)
    if matching_key is not None:
        return replace(matching_key, source=None, name=name)
    return Field(None, name, value, period=period_of(value))


def _decode_key(key: Field) -> Expression | None:
    return decode_labels(key.of, key.labels) if key.of is not None and key.labels else None


def _note_meanings(
    node: exp.Expr,
    keys: dict[Expression, Field],
    inside: _Inside,
    per_unit: bool,
    meanings: dict[int, Expression],
) -> None:
    """Note what aggregates and keys inside a node mean after grouping."""
    if isinstance(node, exp.Query):
        return
    if isinstance(node, exp.Window):
        raise make_refusal("window", inside.scope.context, node)
    if is_aggregate(node):
        meanings[id(node)] = _read_aggregate(node, inside, per_unit)
        return
    if not contains_aggregate(node) and keys and not isinstance(node, (exp.Literal, exp.Star)):
        key = _find_key(node, keys, inside.scope)
        if key is not None and key.of is not None:
            if not key.labels:
                meanings[id(node)] = key.of
            elif not isinstance(node, exp.Column):
                meanings[id(node)] = decode_labels(key.of, key.labels)
            return
    for child in node.iter_expressions():
        _note_meanings(child, keys, inside, per_unit, meanings)


def _find_key(node: exp.Expr, keys: dict[Expression, Field], scope: Scope) -> Field | None:
    """Return the field of the key that a node is; None where it is no key."""
    if isinstance(node, exp.Column):
        fields = scope.candidates(node)
        if len(fields) != 1 or fields[0].is_owner:
            return None
    try:
        return keys.get(resolve_expression(node, scope))
    except QueryError:
        return None


def _read_aggregate(node: exp.Expr, inside: _Inside, per_unit: bool) -> Expression:
    """Read an exact aggregate inside a person, as an expression over the grouped plan's columns."""
    scope = inside.scope
    filter_condition: Expression | None = None
    call = node
    if isinstance(node, exp.Filter):
        filter_condition = resolve_expression(node.expression.this, scope)
        call = node.this
    if any(
        is_aggregate(descendant) for descendant in list_own_nodes(call) if descendant is not call
    ):
        raise make_refusal("nested aggregate", scope.context, node)
    word = name_output(call, 1)
    if isinstance(call, exp.Count):
        return _read_count(call, filter_condition, inside, per_unit, word)
    if isinstance(call, exp.CountIf):
        value = resolve_expression(call.this, scope)
        return inside.aggregate(
            Sum(inside.column(_filter_value(filter_condition, value), word)), word
        )
    if not isinstance(call, (exp.Sum, exp.Avg, exp.Min, exp.Max)) or call.expressions:
        raise make_refusal("inner aggregate", scope.context, node)
    if isinstance(call.this, exp.Distinct):
        raise make_refusal("distinct aggregate", scope.context, node)
    value = _filter_value(filter_condition, resolve_expression(call.this, scope))
    domain = scope.domain(value, node)
    name = inside.column(value, word)
    if isinstance(call, (exp.Min, exp.Max)):
        return inside.aggregate(Minimum(name) if isinstance(call, exp.Min) else Maximum(name), word)
    total = inside.aggregate(Sum(name), word if isinstance(call, exp.Sum) else f"sum_{name}")
    count = inside.aggregate(
        CountValues(name) if domain.nullable else Count(),
        f"count_{name}" if domain.nullable else "count",
    )
    if isinstance(call, exp.Avg):
        return Call("divide", (total, count))
    if not domain.nullable and not inside.is_total:
        return total
    return Call("case", (Call("gt", (count, number(0))), total))


def _filter_value(filter_condition: Expression | None, value: Expression) -> Expression:
    """The value where a FILTER holds, else null."""
    return value if filter_condition is None else Call("case", (filter_condition, value))


def _read_count(
    node: exp.Count, filter_condition: Expression | None, inside: _Inside, per_unit: bool, word: str
) -> Expression:
    """Read an exact COUNT inside a person; ids are counted, never their different values."""
    scope = inside.scope
    if isinstance(node.this, exp.Star):
        if filter_condition is None:
            return inside.aggregate(Count(), "count")
        return inside.aggregate(Sum(inside.column(filter_condition, "chosen")), "count_if")
    is_distinct = isinstance(node.this, exp.Distinct)
    arguments = (
        node.this.expressions
        if isinstance(node.this, exp.Distinct)
        else [node.this, *node.expressions]
    )
    if len(arguments) != 1:
        raise make_refusal("inner aggregate", scope.context, node)
    if isinstance(arguments[0], exp.Column):
        field = scope.field(arguments[0])
        if field.is_owner or (field.of is not None and scope.domain(field.of).kind == "id"):
            if is_distinct:
                raise make_refusal("distinct id", scope.context, node)
            if field.present:
                tests = field.present
                present = _filter_value(
                    filter_condition, tests[0] if len(tests) == 1 else Call("and", tests)
                )
                return inside.aggregate(Sum(inside.column(present, "found")), word)
            return _read_count(exp.Count(this=exp.Star()), filter_condition, inside, per_unit, word)
    value = _filter_value(filter_condition, resolve_expression(arguments[0], scope))
    name = inside.column(value, f"value_{word}")
    if is_distinct:
        return inside.aggregate(CountDistinct(name), word)
    if not scope.domain(value, node).nullable:
        return inside.aggregate(Count(), "count")
    return inside.aggregate(CountValues(name), word)
