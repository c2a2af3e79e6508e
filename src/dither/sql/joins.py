"""Joins by rule owners-never-meet: with a public table by its columns, or two private ones whose
rows have one owner.

The plan adds the equality of owners by itself; what is checked here is that the question says so
too, so that the answer is the answer to what was asked.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlglot import exp

from dither.plan.algebra import (
    Call,
    Column,
    Expression,
    Join,
    Named,
    Plan,
    Project,
)
from dither.plan.stability import Loose, Owned, Public
from dither.rules import PrivacyRule
from dither.sql.constants import truth
from dither.sql.expressions import flatten_chain
from dither.sql.join_texts import align_texts
from dither.sql.lent_ids import keep_present, refuse_kept
from dither.sql.public_filters import filter_public_rows, filter_relation
from dither.sql.refusals.refuse import make_refusal
from dither.sql.scope import (
    Context,
    Field,
    Relation,
    Scope,
    decode_labels,
    fresh_name,
    substitute_columns,
)


@dataclass
class _On:
    """What an ON says: pairs of equal fields, conditions on the right alone, and all others."""

    pairs: list[tuple[Field, Field]]
    right: list[exp.Expr]
    rest: list[exp.Expr]


def bind_join(
    left: Relation, right: Relation, node: exp.Join, select: exp.Expr, context: Context
) -> Relation:
    """The relation of `left JOIN right`."""
    side = str(node.side or "").upper()
    kind = str(node.kind or "").upper()
    if str(node.method or "").upper() == "NATURAL":
        raise make_refusal("natural join", context, node)
    if kind in ("", "CROSS") and not side and _is_public_total(right, node, context):
        return _join_total(left, right, node, context)
    if kind == "CROSS":
        raise make_refusal("cross join", context, node)
    if side == "FULL":
        raise make_refusal("full join", context, node)
    if kind in ("SEMI", "ANTI") or side in ("SEMI", "ANTI"):
        raise make_refusal("semi join", context, node)
    if not node.args.get("on") and not node.args.get("using"):
        raise make_refusal("comma join", context, node)
    if kind not in ("", "INNER", "OUTER") or side not in ("", "LEFT", "RIGHT") or node.method:
        raise context.error(
            "this kind of join is not answered: write JOIN or LEFT JOIN "
            f"{PrivacyRule.NO_RULE.label}",
            node,
        )
    is_flipped = side == "RIGHT"
    first, second = (right, left) if is_flipped else (left, right)
    stabilities = [context.analyse(relation.plan, node).node for relation in (first, second)]
    if any(isinstance(stability, Loose) for stability in stabilities):
        raise make_refusal("loose join", context, node)
    is_outer = bool(side)
    keeps_public = False
    if isinstance(stabilities[0], Public) and isinstance(stabilities[1], Owned):
        first, second = second, first
        is_flipped = not is_flipped
        keeps_public = is_outer
        is_outer = False
    elif isinstance(stabilities[0], Public):
        raise context.error(
            "a join of two public tables comes after the private one: put the private table first "
            f"{PrivacyRule.REGISTERED_TABLES.label}",
            node,
        )
    result = _join_on(first, second, node, "left" if is_outer else "inner", select, context)
    count = len(first.fields)
    first_fields = result.fields[:count]
    second_fields = result.fields[count:]
    listed = (
        result.listed | _list_public_keys(first_fields, second_fields)
        if keeps_public
        else result.listed
    )
    fields = (*second_fields, *first_fields) if is_flipped else (*first_fields, *second_fields)
    public_rows = result.public_rows or keeps_public
    return replace(result, fields=fields, listed=listed, public_rows=public_rows)


def _is_public_total(right: Relation, node: exp.Join, context: Context) -> bool:
    """Whether a join without a condition has the one row of a public total on its right."""
    if node.args.get("on") or node.args.get("using"):
        return False
    stability = context.analyse(right.plan, node).node
    return isinstance(stability, Public) and stability.unique == frozenset()


def _join_total(left: Relation, right: Relation, node: exp.Join, context: Context) -> Relation:
    """Join the one row of a public total to every row of the left."""
    if isinstance(context.analyse(left.plan, node).node, Loose):
        raise make_refusal("loose join", context, node)
    return join_relations(left, right, [], "inner", node, context)


def _list_public_keys(
    private_fields: tuple[Field, ...], public_fields: tuple[Field, ...]
) -> frozenset[str]:
    """List the columns of the private input that a public table's column was joined with.

    The values of the public column are the keys.
    """
    private_names = {field.of.name for field in private_fields if isinstance(field.of, Column)}
    return frozenset(
        field.of.name
        for field in public_fields
        if isinstance(field.of, Column) and field.of.name in private_names
    )


def _join_on(
    left: Relation, right: Relation, node: exp.Join, kind: str, select: exp.Expr, context: Context
) -> Relation:
    """Join two relations by the equalities of ON or USING; other conditions become filters."""
    on = _read_on(node, Scope(context, left), Scope(context, right))
    if kind == "left" and on.rest:
        raise make_refusal("left condition", context, node.args["on"])
    right = filter_relation(right, on.right, context)
    if kind == "inner":
        right = filter_public_rows(left, right, on.pairs, node, select, context)
    using = {column.name.lower() for column in node.args.get("using") or ()}
    if isinstance(context.analyse(right.plan, node).node, Public):
        if not on.pairs:
            raise make_refusal("join condition", context, node.args.get("on") or node)
    elif not have_same_owner(on.pairs):
        raise make_refusal("join without owner", context, node.args.get("on") or node)
    marked = kind == "left" and _is_named(right, on.pairs, node, select, using)
    result = join_relations(left, right, on.pairs, kind, node, context, marked=marked)
    count = len(left.fields)
    fields = (
        *result.fields[:count],
        *(
            replace(field, qualified=field.qualified or field.name.lower() in using)
            for field in result.fields[count:]
        ),
    )
    result = replace(result, fields=fields)
    return filter_relation(result, on.rest, context)


def have_same_owner(pairs: list[tuple[Field, Field]]) -> bool:
    """Whether equality of all pairs implies one owner of both rows: by name, or by a whole key that
    leads to it."""
    if any(left.is_owner and right.is_owner for left, right in pairs):
        return True
    equal = {
        left.anchor
        for left, right in pairs
        if left.anchor is not None and left.anchor == right.anchor
    }
    return any(all((table, key, column) in equal for column in key) for table, key, _ in equal)


def _read_on(node: exp.Join, left: Scope, right: Scope) -> _On:
    """Sort the conditions of ON and USING: pairs of columns, those on the right alone, the rest."""
    on = _On([], [], [])
    for name in node.args.get("using") or ():
        column = exp.Column(this=name)
        on.pairs.append((left.field(column), right.field(column)))
    if node.args.get("on") is None:
        return on
    for term in flatten_chain(node.args["on"], exp.And):
        term = term.unnest()
        sources = {find_side(column, left, right) for column in term.find_all(exp.Column)}
        if isinstance(term, exp.EQ) and sources == {"left", "right"}:
            first = term.this.unnest()
            second = term.expression.unnest()
            if isinstance(first, exp.Column) and isinstance(second, exp.Column):
                if find_side(first, left, right) == "right":
                    first, second = second, first
                on.pairs.append((left.field(first), right.field(second)))
                continue
        (on.right if sources == {"right"} else on.rest).append(term)
    return on


def find_side(column: exp.Column, left: Scope, right: Scope) -> str:
    """Say which input of a join has a column, "left" or "right".

    Raises QueryError if both have it, or none.
    """
    is_left = bool(left.candidates(column))
    is_right = bool(right.candidates(column))
    if is_left and is_right:
        raise left.context.error(f"{column.name} is ambiguous: name its table", column)
    if not is_left and not is_right:
        both = Relation(left.relation.plan, left.relation.fields + right.relation.fields)
        Scope(left.context, both).field(column)
    return "left" if is_left else "right"


def _is_named(
    right: Relation,
    pairs: list[tuple[Field, Field]],
    node: exp.Join,
    select: exp.Expr,
    using: set[str],
) -> bool:
    """Whether the question names an id or a joined column of the right side outside this ON."""
    names = {field.name.lower() for _, field in pairs} | {
        field.name.lower() for field in right.fields if field.is_owner
    }
    names |= {field.name.lower() for field in right.fields if field.anchor is not None}
    inside = {id(column) for column in node.find_all(exp.Column)}
    if any(not isinstance(star.parent, exp.Count) for star in select.find_all(exp.Star)):
        return True
    outside = [column for column in select.find_all(exp.Column) if id(column) not in inside]
    return any(
        column.name.lower() in names and (column.name.lower() not in using or column.table)
        for column in outside
    )


def join_relations(
    left: Relation,
    right: Relation,
    pairs: list[tuple[Field, Field]],
    kind: str,
    node: exp.Expr,
    context: Context,
    *,
    marked: bool = False,
) -> Relation:
    """The plan's join of two relations by equal fields; owners meet without being named.

    Fields of the left come first. Columns of the right whose names are taken are renamed.
    """
    if any(left_field.is_owner != right_field.is_owner for left_field, right_field in pairs):
        raise make_refusal("join without owner", context, node)
    left_fields = [left_field for left_field, _ in pairs]
    if kind == "left":
        refuse_kept(left_fields, node, context)
    left = keep_present(left, left_fields, node, context)
    right = keep_present(right, [right_field for _, right_field in pairs], node, context)
    # What is computed from the right side is null where there is none: compute it before.
    if kind == "left":
        right = compute_fields(right, context)
    pairs = [pair for pair in pairs if not pair[0].is_owner]
    pairs = align_texts(pairs, Scope(context, left), Scope(context, right))
    left, left_names = add_columns(left, [left_field for left_field, _ in pairs], context)
    right, right_names = add_columns(right, [right_field for _, right_field in pairs], context)
    on = tuple(zip(left_names, right_names, strict=True))
    left_columns, right_columns = (
        context.analyse(relation.plan, node).columns for relation in (left, right)
    )
    dropped = {right_name: left_name for left_name, right_name in on if left_name == right_name}
    taken = {name.lower() for name in (*left_columns, *right_columns)}
    renamed: dict[str, str] = {}
    for name in right_columns:
        if name not in dropped and name.lower() in {column.lower() for column in left_columns}:
            renamed[name] = fresh_name(name, taken)
    marker: Expression | None = None
    if marked:
        never_null = [
            name
            for name, domain in right_columns.items()
            if not domain.nullable and domain.kind != "id" and name not in dropped
        ]
        marker = Column(renamed.get(never_null[0], never_null[0])) if never_null else None
    plan: Plan = right.plan
    if renamed or (marked and marker is None):
        columns = [Named(renamed.get(name, name), Column(name)) for name in right_columns]
        if marked and marker is None:
            marker = Column(fresh_name("matched", taken))
            columns.append(Named(marker.name, truth(True)))
        plan = Project(plan, tuple(columns))
    on = tuple((left_name, renamed.get(right_name, right_name)) for left_name, right_name in on)
    substitutes: dict[str, Expression] = {old: Column(new) for old, new in renamed.items()}
    for right_name, left_name in dropped.items():
        matched_value: Expression = Column(left_name)
        if kind == "left" and marker is not None and left_columns[left_name].kind != "id":
            matched_value = Call("case", (Call("is_not_null", (marker,)), matched_value))
        substitutes[right_name] = matched_value
    joined_plan = Join(left.plan, plan, on, "left" if kind == "left" else "inner")
    context.analyse(joined_plan, node)
    fields = [*left.fields]
    for field in right.fields:
        value = None if field.of is None else substitute_columns(field.of, substitutes)
        inner_marker = (
            None if field.marker is None else substitute_columns(field.marker, substitutes)
        )
        is_id = value is None or (
            isinstance(field.of, Column) and right_columns[field.of.name].kind == "id"
        )
        fields.append(
            replace(
                field,
                of=value,
                marker=(inner_marker or marker) if kind == "left" and is_id else inner_marker,
                is_lent=field.is_lent
                or (kind == "left" and is_id and (value is None or _is_dropped(field, dropped))),
            )
        )
    return Relation(
        joined_plan,
        tuple(fields),
        left.listed | right.listed,
        left.public_rows or right.public_rows,
    )


def _is_dropped(field: Field, dropped: dict[str, str]) -> bool:
    return isinstance(field.of, Column) and field.of.name in dropped


def add_columns(
    relation: Relation, fields: list[Field], context: Context
) -> tuple[Relation, list[str]]:
    """Add each of these fields as a column of the relation's plan; return also their names."""
    columns = context.analyse(relation.plan).columns
    taken = {name.lower() for name in columns}
    added: list[Named] = []
    names: list[str] = []
    for field in fields:
        assert field.of is not None
        value = decode_labels(field.of, field.labels) if field.labels else field.of
        if not isinstance(value, Column):
            name = fresh_name(field.name, taken)
            added.append(Named(name, value))
            value = Column(name)
        names.append(value.name)
    if not added:
        return relation, names
    existing = tuple(Named(name, Column(name)) for name in columns)
    return replace(relation, plan=Project(relation.plan, existing + tuple(added))), names


def compute_fields(relation: Relation, context: Context) -> Relation:
    """Make every computed field a column of the relation's plan."""
    computed_fields = [
        field
        for field in relation.fields
        if field.of is not None and not isinstance(field.of, Column)
    ]
    computed, names = add_columns(
        relation, [replace(field, labels=()) for field in computed_fields], context
    )
    column_names = dict(zip((id(field) for field in computed_fields), names, strict=True))
    fields = tuple(
        replace(field, of=Column(column_names[id(field)])) if id(field) in column_names else field
        for field in relation.fields
    )
    return replace(computed, fields=fields)
