"""Conditions and choices: AND and OR, IS, BETWEEN, IN, CASE, IF, COALESCE."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from sqlglot import exp

from dither.plan.algebra import Call, Expression, Value
from dither.sql import constants
from dither.sql.refusals.refuse import make_refusal
from dither.sql.resolve import (
    align_constant,
    apply_function,
    as_text,
    flatten_chain,
    negate_flagged,
    refuse_node,
    resolve_call,
    resolve_expression,
)
from dither.sql.scope import Scope


def make_chain_rule(function: str) -> Callable[[exp.Expr, Scope], Expression]:
    """Make the rule of AND or OR: a long list of operands is one call, and not a deep one.

    A call takes at most 50 operands; a longer list becomes calls of calls.
    """

    def rule(node: exp.Expr, scope: Scope) -> Expression:
        operands = [
            resolve_expression(operand, scope) for operand in flatten_chain(node, type(node))
        ]
        while len(operands) > 50:
            pieces = [tuple(operands[i : i + 50]) for i in range(0, len(operands), 50)]
            operands = [Call(function, piece) if len(piece) > 1 else piece[0] for piece in pieces]
        return apply_function(function, tuple(operands), node, scope)

    return rule


def resolve_is(node: exp.Expr, scope: Scope) -> Expression:
    return negate_flagged(_resolve_plain_is(node, scope), node, scope)


def _resolve_plain_is(node: exp.Expr, scope: Scope) -> Expression:
    """Resolve IS NULL, IS TRUE and IS FALSE; for an id, by whether its row was matched."""
    if isinstance(node.expression, exp.Null):
        if isinstance(node.this, exp.Column):
            field = scope.field(node.this)
            is_id = field.of is None or scope.domain(field.of, node).kind == "id"
            if is_id:
                tests = field.present
                missing = tuple(Call("not", (test,)) for test in tests)
                return (
                    constants.truth(False)
                    if not tests
                    else missing[0]
                    if len(tests) == 1
                    else Call("or", missing)
                )
        return resolve_call("is_null", (node.this,), node, scope)
    if isinstance(node.expression, exp.Boolean):
        return resolve_call(
            "is_true" if node.expression.this else "is_false", (node.this,), node, scope
        )
    raise refuse_node(node, scope)


def resolve_between(node: exp.Expr, scope: Scope) -> Expression:
    if node.args.get("symmetric"):
        raise refuse_node(node, scope)
    return resolve_call("between", (node.this, node.args["low"], node.args["high"]), node, scope)


def resolve_in(node: exp.Expr, scope: Scope) -> Expression:
    """Resolve IN with a list, as one function of constants or as equalities joined by OR."""
    if (
        node.args.get("query")
        or node.args.get("unnest")
        or node.args.get("field")
        or not node.expressions
    ):
        raise refuse_node(node, scope)
    if any(isinstance(element, exp.Null) for element in node.expressions):
        raise make_refusal("null constant", scope.context, node)
    value = resolve_expression(node.this, scope)
    elements = [resolve_expression(element, scope) for element in node.expressions]
    if all(isinstance(element, Value) for element in elements):
        return apply_function("in", (value, *elements), node, scope)
    comparisons = tuple(apply_function("eq", (value, element), node, scope) for element in elements)
    return (
        comparisons[0] if len(comparisons) == 1 else apply_function("or", comparisons, node, scope)
    )


@dataclass(frozen=True)
class _Branch:
    condition: Expression | None
    value: Expression | None


def resolve_case(node: exp.Expr, scope: Scope) -> Expression:
    """Resolve CASE in both forms, `CASE x WHEN ...` and `CASE WHEN ...`."""
    branches = []
    for branch in node.args["ifs"]:
        condition = (
            exp.EQ(this=node.this, expression=branch.this) if node.args.get("this") else branch.this
        )
        branches.append(
            _Branch(
                resolve_expression(condition, scope), _resolve_or_null(branch.args["true"], scope)
            )
        )
    default = node.args.get("default")
    if default is None and _covers_all_values(branches, node, scope):
        branches[-1] = replace(branches[-1], condition=None)
    else:
        rest = None if default is None else _resolve_or_null(default, scope)
        branches.append(_Branch(None, rest))
    return _make_case(branches, node, scope)


def _covers_all_values(branches: list[_Branch], node: exp.Expr, scope: Scope) -> bool:
    """Whether the branches compare one number with every value that it can have.

    Then nothing is left for ELSE. Otherwise a CASE of all weekdays would have a key NULL, which no
    row can have.
    """
    subjects: dict[Expression, None] = {}
    values = set()
    for branch in branches:
        match branch.condition:
            case Call("eq", (subject, Value("number", value))):
                subjects[subject] = None
                values.add(value)
            case _:
                return False
    if len(subjects) != 1:
        return False
    domain = scope.domain(next(iter(subjects)), node)
    size = domain.high - domain.low + 1
    return (
        domain.kind == "number"
        and not domain.nullable
        and size <= len(values)
        and all(code * domain.step in values for code in range(domain.low, domain.high + 1))
    )


def resolve_if(node: exp.Expr, scope: Scope) -> Expression:
    """Resolve IF(condition, value, rest) as a CASE."""
    rest = node.args.get("false")
    first = _Branch(
        resolve_expression(node.this, scope), _resolve_or_null(node.args["true"], scope)
    )
    return _make_case(
        [first, _Branch(None, _resolve_or_null(rest, scope) if rest is not None else None)],
        node,
        scope,
    )


def _resolve_or_null(node: exp.Expr, scope: Scope) -> Expression | None:
    return None if isinstance(node, exp.Null) else resolve_expression(node, scope)


def _make_case(branches: list[_Branch], node: exp.Expr, scope: Scope) -> Expression:
    """Build CASE without a null constant, which plans have not: what falls through is null.

    A branch to NULL becomes a condition on all later branches.
    """
    arguments: list[Expression] = []
    skipped: list[Expression] = []
    for branch in branches:
        condition = branch.condition
        guards = [Call("not", (Call("is_true", (null_condition,)),)) for null_condition in skipped]
        if branch.value is None:
            if condition is not None:
                skipped.append(condition)
            continue
        if guards or condition is not None:
            tests: list[Expression] = [*([condition] if condition is not None else []), *guards]
            arguments += [tests[0] if len(tests) == 1 else Call("and", tuple(tests)), branch.value]
        else:
            arguments.append(branch.value)
    if not arguments:
        raise make_refusal("null constant", scope.context, node)
    if len(arguments) == 1:
        return arguments[0]
    value_indexes = [
        *range(1, len(arguments), 2),
        *([len(arguments) - 1] if len(arguments) % 2 else []),
    ]
    values = _align_values([arguments[index] for index in value_indexes], node, scope)
    for index, value in zip(value_indexes, values, strict=True):
        arguments[index] = value
    built = Call("case", tuple(arguments))
    scope.domain(built, node)
    return built


def _align_values(values: list[Expression], node: exp.Expr, scope: Scope) -> list[Expression]:
    """Bring values to one kind.

    Categories beside other texts become texts, text constants beside days become days.
    """
    domains = [scope.domain(value, node) for value in values]
    category = next((domain for domain in domains if domain.kind == "category"), None)
    if category is not None:
        are_listed = all(
            (domain.kind == "category" and domain.labels == category.labels)
            or (
                isinstance(value, Value) and value.kind == "text" and value.value in category.labels
            )
            for value, domain in zip(values, domains, strict=True)
        )
        return (
            values
            if are_listed
            else [as_text(value, domain) for value, domain in zip(values, domains, strict=True)]
        )
    time_domain = next((domain for domain in domains if domain.kind in ("date", "timestamp")), None)
    if time_domain is None:
        return values
    return [align_constant(value, time_domain, "eq", node, scope) for value in values]


def resolve_coalesce(node: exp.Expr, scope: Scope) -> Expression:
    """Resolve COALESCE; null constants are left out."""
    nodes = [
        argument
        for argument in (node.this, *node.expressions)
        if not isinstance(argument, exp.Null)
    ]
    values = _align_values([resolve_expression(argument, scope) for argument in nodes], node, scope)
    return values[0] if len(values) == 1 else apply_function("coalesce", tuple(values), node, scope)
