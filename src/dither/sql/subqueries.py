"""IN (SELECT ...) and EXISTS (SELECT ...): joins that only ask whether there is a row.

Within the owner, or over public tables (rule owners-never-meet). The subquery becomes at most one
row per owner and value, so that no outer row is counted twice.
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
from dither.sql.compared_matches import (
    COMPARISONS,
    Comparison,
    join_compared,
    read_comparison,
)
from dither.sql.constants import truth
from dither.sql.expressions import flatten_chain, resolve_expression
from dither.sql.join_texts import align_texts
from dither.sql.joins import add_columns, have_same_owner
from dither.sql.lent_ids import keep_present, refuse_kept
from dither.sql.per_unit import has_aggregates
from dither.sql.refusals.refuse import make_refusal
from dither.sql.scope import Context, Field, Relation, Scope, fresh_name

Bind = Callable[[exp.Expr, list[exp.Expr] | None], Relation]
"""Binds a subquery: whole, or its FROM with some of its conditions."""
Pair = tuple[Field, Field]


def is_subquery(node: exp.Expr) -> bool:
    """Whether a node is IN or EXISTS over a subquery."""
    return isinstance(node, exp.Exists) or (
        isinstance(node, exp.In) and bool(node.args.get("query"))
    )


def subqueries_in(node: exp.Expr) -> list[exp.Expr]:
    """The outermost IN and EXISTS over subqueries under a node."""
    nodes = node.walk(
        prune=lambda descendant: is_subquery(descendant) or isinstance(descendant, exp.Query)
    )
    return [descendant for descendant in nodes if is_subquery(descendant)]


def semi_join(
    outer: Relation,
    node: exp.Expr,
    context: Context,
    bind: Bind,
    use: Literal["only", "not", "value"],
) -> tuple[Relation, Expression]:
    """Join a subquery of WHERE to the outer rows, so that none is repeated.

    `use` says what is kept: rows that have a match ("only"), rows that have none ("not"), or all of
    them, with a truth value as the second result ("value"). Raises QueryError where the owners are
    not tied.
    """
    query = (node.this if isinstance(node, exp.Exists) else node.args["query"]).unnest()
    if isinstance(query, exp.Subquery):
        query = query.this
    inner, pairs, comparison = _split_correlation(query, outer, node, context, bind)
    if isinstance(node, exp.In):
        fields = _select_fields(query, Scope(context, inner)) if pairs else list(inner.fields)
        pairs = _pair_columns(node, fields, outer, inner, context, use) + pairs
    stability = context.analyse(inner.plan, node).node
    if isinstance(stability, Public):
        if not any(not left.is_owner for left, _ in pairs):
            raise make_refusal("correlation", context, node)
    elif not isinstance(stability, Owned) or not have_same_owner(pairs):
        raise make_refusal("uncorrelated", context, node)
    if not isinstance(context.analyse(outer.plan, node).node, Owned):
        raise make_refusal("loose join", context, node)
    outer_fields = [left for left, _ in pairs]
    if use != "only":
        refuse_kept(outer_fields, node, context)
    outer = keep_present(outer, outer_fields, node, context)
    inner = keep_present(inner, [right for _, right in pairs], node, context)
    values = [(left, right) for left, right in pairs if not (left.is_owner and right.is_owner)]
    if any(left.is_owner or right.is_owner for left, right in values):
        raise make_refusal("id", context, node)
    if comparison is not None:
        if isinstance(stability, Public) or isinstance(node, exp.In):
            raise make_refusal("correlation", context, node)
        values = align_texts(values, Scope(context, outer), Scope(context, inner))
        return join_compared(outer, inner, values, comparison, node, context, use)
    return _join_matches(outer, inner, values, node, context, use)


def _split_correlation(
    query: exp.Expr, outer: Relation, node: exp.Expr, context: Context, bind: Bind
) -> tuple[Relation, list[Pair], Comparison | None]:
    """Split a subquery's WHERE into its own conditions and those that name the outer row.

    Returns the subquery's rows under its own conditions, each equality with the outer row as a pair
    (outer field, inner field), and the one comparison with it. Any other condition on the outer row
    is refused.
    """
    where = query.args.get("where") if isinstance(query, exp.Select) else None
    if where is None:
        return bind(query, None), [], None  # None: the whole query
    inner = bind(query, [])  # a list: FROM under these conditions alone, here none
    scope = Scope(context, inner)
    around = Scope(context, outer)
    own_terms: list[exp.Expr] = []
    pairs: list[Pair] = []
    comparison: Comparison | None = None
    for term in flatten_chain(where.this, exp.And):
        outside = [
            column
            for column in term.find_all(exp.Column)
            if not _is_inside(column, term, scope, around)
        ]
        if not outside:
            own_terms.append(term)
            continue
        term = term.unnest()
        is_comparison = type(term) in COMPARISONS and comparison is None
        operands = (
            [term.this.unnest(), term.expression.unnest()]
            if isinstance(term, exp.EQ) or is_comparison
            else []
        )
        if (
            len(operands) != 2
            or not all(isinstance(operand, exp.Column) for operand in operands)
            or len(outside) != 1
        ):
            raise make_refusal("correlation", context, term)
        inner_column = operands[1] if operands[0] is outside[0] else operands[0]
        pair = (around.field(outside[0]), scope.field(inner_column))
        if is_comparison:
            comparison = read_comparison(term, outside[0], *pair)
        else:
            pairs.append(pair)
    if not pairs and comparison is None:
        return bind(query, None), [], None
    assert isinstance(query, exp.Select)
    if query.args.get("group") is None and has_aggregates(query):
        raise make_refusal("inner total", context, node)
    if any(query.args.get(clause) for clause in ("group", "having")):
        raise make_refusal("correlation", context, node)
    return (bind(query, own_terms) if own_terms else inner), pairs, comparison


def _is_inside(column: exp.Column, term: exp.Expr, scope: Scope, around: Scope) -> bool:
    """Whether a column belongs to the subquery: its own names come first.

    Nested subqueries see to their own.
    """
    parent = column.parent
    while parent is not None and parent is not term:
        if isinstance(parent, exp.Query):
            return True
        parent = parent.parent
    return bool(scope.candidates(column)) or not around.candidates(column)


def _pair_columns(
    node: exp.In, fields: list[Field], outer: Relation, inner: Relation, context: Context, use: str
) -> list[Pair]:
    """Pair the fields of `a IN (SELECT b ...)` and `(a, b) IN (SELECT c, d ...)`."""
    tested = node.this.unnest()
    nodes = tested.expressions if isinstance(tested, exp.Tuple) else [tested]
    if len(fields) != len(nodes):
        raise context.error(f"IN compares {len(nodes)} columns with {len(fields)}", node)
    around = Scope(context, outer)
    scope = Scope(context, inner)
    pairs = []
    for column, inner_field in zip(nodes, fields, strict=True):
        outer_field = (
            around.field(column)
            if isinstance(column, exp.Column)
            else Field(None, "value", resolve_expression(column, around))
        )
        if use != "only" and (
            _can_be_null(outer_field, around) or _can_be_null(inner_field, scope)
        ):
            raise make_refusal("not in null", context, node)
        pairs.append((outer_field, inner_field))
    return pairs


def _can_be_null(field: Field, scope: Scope) -> bool:
    """Whether a field can be null. Owners never are, nor are keys that lead to one."""
    if field.marker is not None:
        return True
    return field.of is not None and not field.is_reference and scope.domain(field.of).nullable


def _select_fields(query: exp.Expr, scope: Scope) -> list[Field]:
    """List the fields that a subquery selects, of which only FROM and WHERE were bound."""
    fields: list[Field] = []
    for output in query.expressions:
        column = output.this if isinstance(output, exp.Alias) else output
        if isinstance(column, exp.Star):
            fields += scope.relation.fields
        elif isinstance(column, exp.Column):
            fields.append(scope.field(column))
        else:
            fields.append(Field(None, "value", resolve_expression(column, scope)))
    return fields


def _join_matches(
    outer: Relation, inner: Relation, pairs: list[Pair], node: exp.Expr, context: Context, use: str
) -> tuple[Relation, Expression]:
    """Join a subquery as IN or EXISTS; `use` says whether matches are kept, left out or marked."""
    pairs = align_texts(pairs, Scope(context, outer), Scope(context, inner))
    outer, outer_names = add_columns(outer, [outer_field for outer_field, _ in pairs], context)
    inner, inner_names = add_columns(inner, [inner_field for _, inner_field in pairs], context)
    taken = {name.lower() for name in context.analyse(outer.plan, node).columns}
    columns = context.analyse(inner.plan, node).columns
    names = {column: fresh_name(f"in_{column}", taken) for column in dict.fromkeys(inner_names)}
    marker = fresh_name("matched", taken)
    plan = _keep_once(
        inner.plan, names, marker, {column: columns[column] for column in names}, node, context
    )
    on = tuple(
        (outer_name, names[inner_name])
        for outer_name, inner_name in zip(outer_names, inner_names, strict=True)
    )
    joined: Plan = Join(outer.plan, plan, on, "inner" if use == "only" else "left")
    context.analyse(joined, node)
    if use == "not":
        joined = Filter(joined, IsNull(marker))
    return replace(outer, plan=joined), Call("is_not_null", (Column(marker),))


def _keep_once(
    plan: Plan,
    names: dict[str, str],
    marker: str,
    columns: dict[str, Domain],
    node: exp.Expr,
    context: Context,
) -> Plan:
    """Reduce a subquery to one row per owner and value, with a marker column.

    Of a public table it has one row per value. `names` maps its columns to new names.
    """
    named = tuple(Named(new, Column(old)) for old, new in names.items())
    if isinstance(context.analyse(plan, node).node, Owned):
        if all(is_stored(domain) or domain.undeclared for domain in columns.values()):
            inner = Project(plan, named) if named else plan
            return PerUnit(inner, tuple(names.values()), (Named(marker, Count()),))
        return Distinct(Project(plan, (*named, Named(marker, truth(True)))), True)
    public = context.analyse(plan, node).node
    assert isinstance(public, Public)
    keys = tuple(original for old in names if (original := public.original(old)))
    try:
        is_once = len(keys) == len(names) and context.facts.multiplicity(public.table, keys) == 1
    except RefusedError:
        is_once = False
    if not is_once:
        plan = Distinct(Project(plan, named), False)
        named = tuple(Named(new, Column(new)) for new in names.values())
    return Project(plan, (*named, Named(marker, truth(True))))
