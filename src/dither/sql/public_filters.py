"""Filter a public table by conditions of WHERE before it is joined, where fewer rows then match."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from dither.errors import RefusedError
from dither.plan.algebra import And, Column, Condition, Filter
from dither.plan.analyse import FIRST_RULES
from dither.plan.stability import Public
from dither.plan.stability.join import count_public_matches
from dither.sql.conditions import resolve_condition
from dither.sql.expressions import flatten_chain
from dither.sql.scope import Context, Field, Relation, Scope


def join_conditions(conditions: list[Condition]) -> Condition:
    """Make one condition of several, which holds where all of them do."""
    return conditions[0] if len(conditions) == 1 else And(tuple(conditions))


def filter_relation(relation: Relation, terms: list[exp.Expr], context: Context) -> Relation:
    """Keep the rows that meet all conditions."""
    if not terms:
        return relation
    scope = Scope(context, relation)
    condition = join_conditions([resolve_condition(term, scope) for term in terms])
    return replace(relation, plan=Filter(relation.plan, condition))


def filter_public_rows(
    left: Relation,
    right: Relation,
    pairs: list[tuple[Field, Field]],
    node: exp.Join,
    select: exp.Expr,
    context: Context,
) -> Relation:
    """Filter a public table by what WHERE says of it alone, where several rows of it may match.

    The result of an inner join with WHERE stays the same, and fewer rows of the table share a
    value. WHERE stays as it is. Where another join may put nulls in the place of the table's rows,
    WHERE can hold for those, and the table is left as it is.
    """
    where = select.args.get("where")
    stability = context.analyse(right.plan).node
    if where is None or context.rules == FIRST_RULES or not isinstance(stability, Public):
        return right
    if _may_be_extended(node, select):
        return right
    joined = {field.of.name for _, field in pairs if isinstance(field.of, Column)}
    if stability.unique is not None and stability.unique <= joined:
        return right
    scopes = Scope(context, left), Scope(context, right)
    terms = [term for term in flatten_chain(where.this, exp.And) if _reads_only(term, *scopes)]
    filtered = filter_relation(right, terms, context)
    matches = _count_matches(right, joined, context)
    matches_of_filtered = _count_matches(filtered, joined, context)
    return filtered if matches_of_filtered < matches else right


def _may_be_extended(node: exp.Join, select: exp.Expr) -> bool:
    """Whether a join of the same FROM may extend the rows of this one with nulls: one that keeps
    the rows of its right, or one that has this join in brackets."""
    joins = select.args.get("joins") or ()
    is_bracketed = node.parent is not select
    return is_bracketed or any(join.side in ("RIGHT", "FULL") for join in joins)


def _count_matches(source: Relation, joined: set[str], context: Context) -> int:
    """Count the public rows that may share a value of the joined columns; 0 where not known."""
    stability = context.analyse(source.plan).node
    assert isinstance(stability, Public)
    try:
        return count_public_matches(stability, tuple(joined), context.facts)
    except RefusedError:
        return 0


def _reads_only(term: exp.Expr, left: Scope, right: Scope) -> bool:
    """Whether a condition reads columns of the right alone, and no subquery."""
    columns = list(term.find_all(exp.Column))
    is_plain = bool(columns) and term.find(exp.Query, exp.AggFunc, exp.Window) is None
    return is_plain and all(
        right.candidates(column) and not left.candidates(column) for column in columns
    )
