"""UNION ALL of columns that differ in resolution, bounds, labels or kind.

It is answered where one domain can hold both.

Numbers meet on the coarsest grid that both lie on, truth values beside numbers count as 0 and 1,
and texts that have a list (categories, CASE, constants) as codes of one list, so that the result
can still be grouped by. The bounds become those of both sides, by the rule of the plan.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from sqlglot import exp

from dither.plan.algebra import Call, Expression, Value
from dither.plan.functions.table import common_step
from dither.sql.constants import number
from dither.sql.key_codes import encode_choice
from dither.sql.resolve import as_text
from dither.sql.scope import Context, Field, Relation, Scope, decode_labels

MOST_LABELS = 100
Codes = tuple[Expression, tuple[str, ...]]


def align_sides(
    left: Relation, right: Relation, context: Context, node: exp.Expr
) -> tuple[Relation, Relation]:
    """Bring both inputs of a union, column by column, to one domain where there is one."""
    left_scope = Scope(context, left)
    right_scope = Scope(context, right)
    pairs = [
        _align_fields(left_field, right_field, left_scope, right_scope, node)
        for left_field, right_field in zip(left.fields, right.fields, strict=True)
    ]
    return (
        replace(left, fields=tuple(left_field for left_field, _ in pairs)),
        replace(right, fields=tuple(right_field for _, right_field in pairs)),
    )


def join_lists(left: tuple[str, ...], right: tuple[str, ...]) -> tuple[str, ...]:
    """The texts of both inputs, where both have a list; else nothing: one alone is not all.

    >>> join_lists(("a", "b"), ("c", "a")), join_lists(("a",), ())
    (('a', 'b', 'c'), ())
    """
    return tuple(dict.fromkeys((*left, *right))) if left and right else ()


def _align_fields(
    left: Field, right: Field, left_scope: Scope, right_scope: Scope, node: exp.Expr
) -> tuple[Field, Field]:
    """Give two columns that meet in a UNION one kind, one grid and one list of labels."""
    if left.of is None or right.of is None:
        return left, right
    operands = ((left, left_scope), (right, right_scope))
    domains = [scope.domain(field.of, node) for field, scope in operands if field.of is not None]
    same_labels = domains[0].kind == "category" and domains[0].labels == domains[1].labels
    if same_labels and not left.labels and not right.labels:
        return left, right
    codes = [_find_codes(field, scope, node) for field, scope in operands]
    if codes[0] is not None and codes[1] is not None:
        labels = tuple(dict.fromkeys((*codes[0][1], *codes[1][1])))
        if len(labels) <= MOST_LABELS:
            left_value, right_value = (_recode(code, labels) for code in codes if code is not None)
            return replace(left, of=left_value, labels=labels), replace(
                right, of=right_value, labels=labels
            )
    kinds: set[str] = {domain.kind for domain in domains}
    if kinds <= {"number", "boolean"}:
        values = [_as_number(field, scope, kinds, node) for field, scope in operands]
        steps = [
            scope.domain(value, node).step
            for value, (_, scope) in zip(values, operands, strict=True)
        ]
        step = common_step(*steps)
        left_value, right_value = (
            _refine_grid(value, step, scope, node)
            for value, (_, scope) in zip(values, operands, strict=True)
        )
        return replace(left, of=left_value), replace(right, of=right_value)
    left_value, right_value = (_as_text(field, scope, node) for field, scope in operands)
    return replace(left, of=left_value, labels=()), replace(right, of=right_value, labels=())


def _find_codes(field: Field, scope: Scope, node: exp.Expr) -> Codes | None:
    """Find the codes of a column, and the texts that they stand for, in their order.

    Returns None where there is no list.
    """
    assert field.of is not None
    if field.labels:
        return field.of, field.labels
    if isinstance(field.of, Value) and field.of.kind == "text":
        return number(0), (str(field.of.value),)
    if (codes := encode_choice(field.of)) is not None:
        return codes
    domain = scope.domain(field.of, node)
    if domain.kind not in ("category", "text") or not 0 < len(domain.labels) <= MOST_LABELS:
        return None
    arguments: list[Expression] = []
    for index, label in enumerate(domain.labels):
        arguments += [Call("eq", (field.of, Value("text", label))), number(index)]
    return Call("case", tuple(arguments)), domain.labels


def _recode(codes: Codes, labels: tuple[str, ...]) -> Expression:
    """Turn the codes of one list into codes of another that holds it."""
    code, own_labels = codes
    if isinstance(code, Value):
        return number(labels.index(own_labels[0]))
    if own_labels == labels[: len(own_labels)]:
        return code
    arguments: list[Expression] = []
    for index, label in enumerate(own_labels):
        arguments += [Call("eq", (code, number(index))), number(labels.index(label))]
    return Call("case", tuple(arguments))


def _as_number(field: Field, scope: Scope, kinds: set[str], node: exp.Expr) -> Expression:
    assert field.of is not None
    is_truth = "number" in kinds and scope.domain(field.of, node).kind == "boolean"
    return Call("to_number", (field.of,)) if is_truth else field.of


def _refine_grid(value: Expression, step: Fraction, scope: Scope, node: exp.Expr) -> Expression:
    """Bring a number to a finer grid.

    It is clamped to its own bounds, one finer step further, which moves nothing.
    """
    domain = scope.domain(value, node)
    if domain.kind != "number" or domain.step == step:
        return value
    return Call(
        "clamp", (value, number(domain.low * domain.step), number(domain.high * domain.step + step))
    )


def _as_text(field: Field, scope: Scope, node: exp.Expr) -> Expression:
    """Turn a field into a text without a list of labels."""
    assert field.of is not None
    if field.labels:
        return decode_labels(field.of, field.labels)
    domain = scope.domain(field.of, node)
    # Of a public table: beside other texts just a text.
    is_listed = domain.kind == "text" and bool(domain.labels)
    return Call("concat", (field.of, Value("text", ""))) if is_listed else as_text(field.of, domain)
