"""Conditions and choices: AND and OR, IS, BETWEEN, IN, CASE, IF, COALESCE."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sqlglot import exp

from dither.plan.algebra import Call, Expression, Value
from dither.sql import constants
from dither.sql.refusals.refuse import refused
from dither.sql.resolve import apply, as_text, beside, call, expression, flattened, negated, no_rule
from dither.sql.scope import Scope


def all_of(function: str) -> Callable[[exp.Expr, Scope], Expression]:
    """AND and OR, flattened: a long list of conditions is not a deep one."""

    def rule(node: exp.Expr, scope: Scope) -> Expression:
        parts = [expression(each, scope) for each in flattened(node, type(node))]
        while len(parts) > 50:
            pieces = [tuple(parts[i : i + 50]) for i in range(0, len(parts), 50)]
            parts = [Call(function, piece) if len(piece) > 1 else piece[0] for piece in pieces]
        return apply(function, tuple(parts), node, scope)

    return rule


def is_(node: exp.Expr, scope: Scope) -> Expression:
    return negated(_is_so(node, scope), node, scope)


def _is_so(node: exp.Expr, scope: Scope) -> Expression:
    if isinstance(node.expression, exp.Null):
        if isinstance(node.this, exp.Column):
            found = scope.field(node.this)
            is_id = found.of is None or scope.domain(found.of, node).kind == "id"
            if is_id:
                tests = found.present
                missing = tuple(Call("not", (each,)) for each in tests)
                return constants.truth(False) if not tests else missing[0] if len(tests) == 1 else Call("or", missing)
        return call("is_null", (node.this,), node, scope)
    if isinstance(node.expression, exp.Boolean):
        return call("is_true" if node.expression.this else "is_false", (node.this,), node, scope)
    raise no_rule(node, scope)


def between(node: exp.Expr, scope: Scope) -> Expression:
    if node.args.get("symmetric"):
        raise no_rule(node, scope)
    return call("between", (node.this, node.args["low"], node.args["high"]), node, scope)


def in_(node: exp.Expr, scope: Scope) -> Expression:
    if node.args.get("query") or node.args.get("unnest") or node.args.get("field") or not node.expressions:
        raise no_rule(node, scope)
    if any(isinstance(each, exp.Null) for each in node.expressions):
        raise refused("null constant", scope.at, node)
    value = expression(node.this, scope)
    listed = [expression(each, scope) for each in node.expressions]
    if all(isinstance(each, Value) for each in listed):
        return apply("in", (value, *listed), node, scope)
    parts = tuple(apply("eq", (value, each), node, scope) for each in listed)
    return parts[0] if len(parts) == 1 else apply("or", parts, node, scope)


@dataclass(frozen=True)
class _Branch:
    condition: Expression | None
    value: Expression | None


def case(node: exp.Expr, scope: Scope) -> Expression:
    branches = []
    for each in node.args["ifs"]:
        condition = exp.EQ(this=node.this, expression=each.this) if node.args.get("this") else each.this
        branches.append(_Branch(expression(condition, scope), _nullable(each.args["true"], scope)))
    default = node.args.get("default")
    branches.append(_Branch(None, _nullable(default, scope) if default is not None else None))
    return _choice(branches, node, scope)


def if_(node: exp.Expr, scope: Scope) -> Expression:
    rest = node.args.get("false")
    first = _Branch(expression(node.this, scope), _nullable(node.args["true"], scope))
    return _choice([first, _Branch(None, _nullable(rest, scope) if rest is not None else None)], node, scope)


def _nullable(node: exp.Expr, scope: Scope) -> Expression | None:
    return None if isinstance(node, exp.Null) else expression(node, scope)


def _choice(branches: list[_Branch], node: exp.Expr, scope: Scope) -> Expression:
    """CASE without a null constant, which plans have not: what falls through is null."""
    parts: list[Expression] = []
    skipped: list[Expression] = []
    for each in branches:
        condition = each.condition
        guards = [Call("not", (Call("is_true", (one,)),)) for one in skipped]
        if each.value is None:
            if condition is not None:
                skipped.append(condition)
            continue
        if guards or condition is not None:
            tests: list[Expression] = [*([condition] if condition is not None else []), *guards]
            parts += [tests[0] if len(tests) == 1 else Call("and", tuple(tests)), each.value]
        else:
            parts.append(each.value)
    if not parts:
        raise refused("null constant", scope.at, node)
    if len(parts) == 1:
        return parts[0]
    places = [*range(1, len(parts), 2), *([len(parts) - 1] if len(parts) % 2 else [])]
    for place, value in zip(places, _chosen([parts[p] for p in places], node, scope), strict=True):
        parts[place] = value
    made = Call("case", tuple(parts))
    scope.domain(made, node)
    return made


def _chosen(values: list[Expression], node: exp.Expr, scope: Scope) -> list[Expression]:
    """Values of one kind: categories beside other texts become texts, text constants beside days become days."""
    domains = [scope.domain(each, node) for each in values]
    category = next((d for d in domains if d.kind == "category"), None)
    if category is not None:
        plain = all(
            (d.kind == "category" and d.labels == category.labels)
            or (isinstance(v, Value) and v.kind == "text" and v.value in category.labels)
            for v, d in zip(values, domains, strict=True)
        )
        return values if plain else [as_text(v, d) for v, d in zip(values, domains, strict=True)]
    known = next((d for v, d in zip(values, domains, strict=True) if d.kind in ("date", "timestamp")), None)
    if known is None:
        return values
    return [beside(each, known, "eq", node, scope) for each in values]


def coalesce(node: exp.Expr, scope: Scope) -> Expression:
    nodes = [each for each in (node.this, *node.expressions) if not isinstance(each, exp.Null)]
    values = _chosen([expression(each, scope) for each in nodes], node, scope)
    return values[0] if len(values) == 1 else apply("coalesce", tuple(values), node, scope)
