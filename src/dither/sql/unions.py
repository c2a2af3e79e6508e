"""UNION ALL of columns that differ in resolution, bounds, labels or kind, where one domain can hold both.

Numbers meet on the coarsest grid that both lie on, truth values beside numbers count as 0 and 1, and texts that have a
list (categories, CASE, constants) as codes of one list, so that the result can still be grouped by. The bounds become
those of both sides, by the rule of the plan.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from sqlglot import exp

from dither.plan.algebra import Call, Expression, Value
from dither.plan.functions.table import common_step
from dither.sql.constants import number
from dither.sql.key_codes import coded
from dither.sql.resolve import as_text
from dither.sql.scope import Context, Field, Relation, Scope, worded

MOST_LABELS = 100
Codes = tuple[Expression, tuple[str, ...]]


def aligned(left: Relation, right: Relation, at: Context, node: exp.Expr) -> tuple[Relation, Relation]:
    """Both sides of a union, column by column of one domain where there is one."""
    mine, theirs = Scope(at, left), Scope(at, right)
    pairs = [_pair(one, two, mine, theirs, node) for one, two in zip(left.fields, right.fields, strict=True)]
    return (
        replace(left, fields=tuple(one for one, _ in pairs)),
        replace(right, fields=tuple(two for _, two in pairs)),
    )


def _pair(one: Field, two: Field, mine: Scope, theirs: Scope, node: exp.Expr) -> tuple[Field, Field]:
    if one.of is None or two.of is None:
        return one, two
    sides = ((one, mine), (two, theirs))
    domains = [scope.domain(field.of, node) for field, scope in sides if field.of is not None]
    same = domains[0].kind == "category" and domains[0].labels == domains[1].labels
    if same and not one.labels and not two.labels:
        return one, two
    found = [_codes(field, scope, node) for field, scope in sides]
    if found[0] is not None and found[1] is not None:
        labels = tuple(dict.fromkeys((*found[0][1], *found[1][1])))
        if len(labels) <= MOST_LABELS:
            first, second = (_recoded(each, labels) for each in found if each is not None)
            return replace(one, of=first, labels=labels), replace(two, of=second, labels=labels)
    kinds: set[str] = {domain.kind for domain in domains}
    if kinds <= {"number", "boolean"}:
        values = [_as_number(field, scope, kinds, node) for field, scope in sides]
        steps = [scope.domain(value, node).step for value, (_, scope) in zip(values, sides, strict=True)]
        step = common_step(*steps)
        first, second = (_on(value, step, scope, node) for value, (_, scope) in zip(values, sides, strict=True))
        return replace(one, of=first), replace(two, of=second)
    first, second = (_text(field, scope, node) for field, scope in sides)
    return replace(one, of=first, labels=()), replace(two, of=second, labels=())


def _codes(field: Field, scope: Scope, node: exp.Expr) -> Codes | None:
    """The texts that a column can hold, and its codes in that order; None where there is no list."""
    assert field.of is not None
    if field.labels:
        return field.of, field.labels
    if isinstance(field.of, Value) and field.of.kind == "text":
        return number(0), (str(field.of.value),)
    if (found := coded(field.of)) is not None:
        return found
    domain = scope.domain(field.of, node)
    if domain.kind not in ("category", "text") or not 0 < len(domain.labels) <= MOST_LABELS:
        return None
    parts: list[Expression] = []
    for place, label in enumerate(domain.labels):
        parts += [Call("eq", (field.of, Value("text", label))), number(place)]
    return Call("case", tuple(parts)), domain.labels


def _recoded(found: Codes, labels: tuple[str, ...]) -> Expression:
    """The codes of one list as codes of another that holds it."""
    code, mine = found
    if isinstance(code, Value):
        return number(labels.index(mine[0]))
    if mine == labels[: len(mine)]:
        return code
    parts: list[Expression] = []
    for place, label in enumerate(mine):
        parts += [Call("eq", (code, number(place))), number(labels.index(label))]
    return Call("case", tuple(parts))


def _as_number(field: Field, scope: Scope, kinds: set[str], node: exp.Expr) -> Expression:
    assert field.of is not None
    is_truth = "number" in kinds and scope.domain(field.of, node).kind == "boolean"
    return Call("to_number", (field.of,)) if is_truth else field.of


def _on(value: Expression, step: Fraction, scope: Scope, node: exp.Expr) -> Expression:
    """A number on a finer grid: clamped to its own bounds, one finer step further, which moves nothing."""
    domain = scope.domain(value, node)
    if domain.kind != "number" or domain.step == step:
        return value
    return Call("clamp", (value, number(domain.low * domain.step), number(domain.high * domain.step + step)))


def _text(field: Field, scope: Scope, node: exp.Expr) -> Expression:
    assert field.of is not None
    if field.labels:
        return worded(field.of, field.labels)
    domain = scope.domain(field.of, node)
    is_listed = domain.kind == "text" and bool(domain.labels)  # of a public table: beside other texts just a text
    return Call("concat", (field.of, Value("text", ""))) if is_listed else as_text(field.of, domain)
