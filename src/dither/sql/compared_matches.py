"""EXISTS with a comparison: `EXISTS (... WHERE b.id = a.id AND b.x <> a.x)` inside a person.

Some inner value differs from x exactly where the least or the largest one does; some is larger
exactly where the largest one is. So the inner rows become one row for each owner and key with the
least and the largest value, and the outer row is compared with that. No outer row is met twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from sqlglot import exp

from dither.plan.algebra import (
    Call,
    Column,
    Count,
    Expression,
    Filter,
    Holds,
    Join,
    Maximum,
    Minimum,
    Named,
    PerUnit,
    Plan,
    Project,
)
from dither.rules import PrivacyRule
from dither.sql.constants import number, truth
from dither.sql.join_texts import align_texts
from dither.sql.joins import add_columns
from dither.sql.refusals.refuse import make_refusal
from dither.sql.scope import Context, Field, Relation, Scope, fresh_name

COMPARISONS: dict[type[exp.Expr], str] = {
    exp.NEQ: "ne",
    exp.LT: "lt",
    exp.LTE: "le",
    exp.GT: "gt",
    exp.GTE: "ge",
}
_MIRRORED = {"ne": "ne", "lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}
_ORDERED = ("number", "date", "timestamp", "boolean")
_NAMED = ("category", "id")
Pair = tuple[Field, Field]


@dataclass(frozen=True)
class Comparison:
    """The condition `inner <function> outer` of a subquery."""

    outer: Field
    inner: Field
    function: str


def read_comparison(
    term: exp.Expr, outer_column: exp.Expr, outer: Field, inner: Field
) -> Comparison:
    """A comparison of two columns, with the inner one on the left."""
    function = COMPARISONS[type(term)]
    is_mirrored = term.this.unnest() is outer_column
    return Comparison(outer, inner, _MIRRORED[function] if is_mirrored else function)


def join_compared(
    outer: Relation,
    inner: Relation,
    pairs: Sequence[Pair],
    comparison: Comparison,
    node: exp.Expr,
    context: Context,
    use: Literal["only", "not", "value"],
) -> tuple[Relation, Expression]:
    """The outer rows for which an inner row of the same keys compares so, those for which none
    does, or all of them with a truth value."""
    scope = Scope(context, inner)
    domain = None if comparison.inner.of is None else scope.domain(comparison.inner.of, node)
    kind_compared = "" if domain is None else domain.kind
    is_named = domain is not None and (kind_compared in _NAMED or domain.undeclared)
    if comparison.function == "ne" and is_named and comparison.outer.marker is None:
        return _join_different(outer, inner, pairs, comparison, node, context, use)
    is_ordered = kind_compared in _ORDERED
    if kind_compared in ("text", "category"):
        raise context.error(
            f"EXISTS compares numbers, days and times, and labels by <>: {comparison.inner.name} "
            f"is a {kind_compared} {PrivacyRule.NO_RULE.label}",
            node,
        )
    if not is_ordered or comparison.outer.of is None or comparison.outer.marker is not None:
        raise make_refusal("correlation", context, node)
    outer, outer_names = add_columns(
        outer, [*(field for field, _ in pairs), comparison.outer], context
    )
    inner, inner_names = add_columns(
        inner, [*(field for _, field in pairs), comparison.inner], context
    )
    taken = {name.lower() for name in context.analyse(outer.plan, node).columns}
    keys = [fresh_name(f"in_{name}", taken) for name in inner_names[:-1]]
    least = fresh_name("least_match", taken)
    largest = fresh_name("largest_match", taken)
    value = fresh_name("compared", taken)
    columns = [Named(key, Column(name)) for key, name in zip(keys, inner_names, strict=False)]
    rows: Plan = Project(inner.plan, (*columns, Named(value, Column(inner_names[-1]))))
    rows = Filter(rows, Holds(Call("is_not_null", (Column(value),))))
    ends = (Named(least, Minimum(value)), Named(largest, Maximum(value)))
    on = tuple(zip(outer_names[:-1], keys, strict=True))
    kind: Literal["inner", "left"] = "inner" if use == "only" else "left"
    joined: Plan = Join(outer.plan, PerUnit(rows, tuple(keys), ends), on, kind)
    context.analyse(joined, node)
    matches = _write_match(comparison.function, least, largest, Column(outer_names[-1]))
    is_match = Call("coalesce", (matches, truth(False)))
    if use != "value":
        kept = is_match if use == "only" else Call("not", (is_match,))
        joined = Filter(joined, Holds(kept))
        context.analyse(joined, node)
    return replace(outer, plan=joined), is_match


def _write_match(function: str, least: str, largest: str, tested: Expression) -> Expression:
    """Whether some value between the two ends, both of which occur, compares so with the tested."""
    if function == "ne":
        return Call("or", tuple(Call("ne", (Column(end), tested)) for end in (least, largest)))
    end = largest if function in ("gt", "ge") else least
    return Call(function, (Column(end), tested))


def _join_different(
    outer: Relation,
    inner: Relation,
    pairs: Sequence[Pair],
    comparison: Comparison,
    node: exp.Expr,
    context: Context,
    use: Literal["only", "not", "value"],
) -> tuple[Relation, Expression]:
    """As `join_compared`, for `<>` of labels or ids, which have no order.

    Some inner value differs from the outer one exactly where more inner rows have a value than
    have this one. Both numbers are counted for each owner and key, and meet an outer row once.
    """
    if comparison.outer.of is None or comparison.inner.marker is not None:
        raise make_refusal("correlation", context, node)
    both = [*pairs, (comparison.outer, comparison.inner)]
    both = align_texts(both, Scope(context, outer), Scope(context, inner))
    outer, outer_names = add_columns(outer, [field for field, _ in both], context)
    inner, inner_names = add_columns(inner, [field for _, field in both], context)
    taken = {name.lower() for name in context.analyse(outer.plan, node).columns}
    present = Filter(inner.plan, Holds(Call("is_not_null", (Column(inner_names[-1]),))))
    joined: Plan = outer.plan
    counts: list[Expression] = []
    for names in (inner_names[:-1], inner_names):
        keys = [fresh_name(f"in_{name}", taken) for name in names]
        columns = [Named(key, Column(name)) for key, name in zip(keys, names, strict=True)]
        count = fresh_name("matches", taken)
        rows: Plan = Project(present, tuple(columns)) if columns else present
        counted = PerUnit(rows, tuple(keys), (Named(count, Count()),))
        joined = Join(joined, counted, tuple(zip(outer_names, keys, strict=False)), "left")
        counts.append(Call("coalesce", (Column(count), number(0))))
    context.analyse(joined, node)
    has_value = Call("is_not_null", (Column(outer_names[-1]),))
    is_match = Call("and", (has_value, Call("gt", tuple(counts))))
    if use != "value":
        kept = is_match if use == "only" else Call("not", (is_match,))
        joined = Filter(joined, Holds(kept))
        context.analyse(joined, node)
    return replace(outer, plan=joined), is_match
