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
from dither.sql.constants import truth
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
    is_ordered = comparison.inner.of is not None and (
        scope.domain(comparison.inner.of, node).kind in _ORDERED
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
