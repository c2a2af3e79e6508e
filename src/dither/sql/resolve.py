"""Expressions of SQL become expressions of plans: how a node finds its rule, and a function its arguments.

The rules stand in `choices`, `dates` and `expressions`, which fills the table; a node without one is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from sqlglot import exp

from dither.plan.algebra import Call, Expression, Value
from dither.plan.domain import Domain
from dither.plan.functions import FAMILIES, REFUSED
from dither.rules import PrivacyRule
from dither.sql.constants import as_kind, folded
from dither.sql.functions import REFUSED_TYPES, TYPED
from dither.sql.refusals.refuse import did_you_mean, refused
from dither.sql.scope import Field, Scope, worded

Rule = Callable[[exp.Expr, Scope], Expression]
RULES: dict[type[exp.Expr], Rule] = {}
COMPARISONS: dict[type[exp.Expr], str] = {
    exp.EQ: "eq",
    exp.NEQ: "ne",
    exp.LT: "lt",
    exp.LTE: "le",
    exp.GT: "gt",
    exp.GTE: "ge",
    exp.NullSafeNEQ: "is_distinct_from",
}
_TEXT = {function.name for function in FAMILIES["text"]} - {"label"}
_DATES = {function.name for function in FAMILIES["dates"]} - {"hour", "minute", "second", "date_of"}
_ORDERED = ("lt", "le", "gt", "ge", "between")
_KINDS = {"number": "a number", "date": "a date", "timestamp": "a timestamp", "boolean": "a truth value"}
_EXAMPLES = {
    "number": "a number",
    "date": "DATE '2026-01-31'",
    "timestamp": "TIMESTAMP '2026-01-31 12:00:00'",
    "boolean": "TRUE or FALSE",
}


def expression(node: exp.Expr, scope: Scope) -> Expression:
    """The plan's expression for a SQL expression over the rows of a relation."""
    if not isinstance(node, exp.Expr):
        raise scope.at.error("an argument is missing")
    if id(node) in scope.found:
        return scope.found[id(node)]
    if rule := RULES.get(type(node)):
        return rule(node, scope)
    if type(node) in COMPARISONS:
        return call(COMPARISONS[type(node)], (node.this, node.expression), node, scope)
    if type(node) in TYPED:
        function, arguments = TYPED[type(node)]
        given = arguments(node)
        while given and given[-1] is None:
            given.pop()
        if None in given:
            raise no_rule(node, scope)
        return call(function, tuple(each for each in given if each is not None), node, scope)
    raise no_rule(node, scope)


def no_rule(node: exp.Expr, scope: Scope) -> Exception:
    at = scope.at
    if isinstance(node, exp.Window):
        return refused("window", at, node)
    if isinstance(node, exp.Exists) or (isinstance(node, exp.In) and node.args.get("query")):
        return refused("subquery place", at, node)
    if isinstance(node, (exp.Subquery, exp.Select, exp.Any, exp.All)):
        return refused("scalar subquery", at, node)
    if isinstance(node, (exp.Placeholder, exp.Parameter)):
        return refused("parameter", at, node)
    if isinstance(node, exp.Null):
        return refused("null constant", at, node)
    if isinstance(node, exp.Interval):
        return refused("interval", at, node)
    if type(node) in REFUSED_TYPES:
        name = REFUSED_TYPES[type(node)]
        return at.error(f"{name} is refused: {REFUSED[name]} {PrivacyRule.LISTED_FUNCTIONS.label}", node)
    if isinstance(node, (exp.AggFunc, exp.Filter, exp.WithinGroup, exp.Grouping)):
        return refused("aggregate in where", at, node)
    shown = node.sql(dialect="duckdb")
    shown = shown if len(shown) <= 60 else shown[:57] + "..."
    return at.error(
        f"no rule for {shown}: the functions that a question can use are in docs/reference/functions.md "
        f"{PrivacyRule.LISTED_FUNCTIONS.label}",
        node,
    )


def call(function: str, nodes: tuple[exp.Expr, ...], node: exp.Expr, scope: Scope) -> Expression:
    """A function of the table over SQL arguments."""
    return apply(function, tuple(expression(each, scope) for each in nodes), node, scope)


def apply(function: str, arguments: tuple[Expression, ...], node: exp.Expr, scope: Scope) -> Expression:
    """A function of the table over arguments, with what SQL leaves unsaid: labels, days and times as texts."""
    if (constant := folded(function, arguments)) is not None:
        return constant
    domains = [scope.domain(each, node) for each in arguments]
    if any(domain.kind == "id" for domain in domains):
        raise refused("id", scope.at, node)
    if function in _TEXT:
        arguments = tuple(as_text(each, domain) for each, domain in zip(arguments, domains, strict=True))
    elif function in _DATES:
        arguments = tuple(
            Call("date_of", (each,)) if domain.kind == "timestamp" and function not in _TIMES else each
            for each, domain in zip(arguments, domains, strict=True)
        )
        arguments = _of_one_kind(function, arguments, node, scope)
    elif function in _COMPARED:
        arguments = _of_one_kind(function, arguments, node, scope)
        if function in _ORDERED and scope.domain(arguments[0]).kind in ("category", "text", "boolean"):
            kind = scope.domain(arguments[0]).kind
            said = "truth value" if kind == "boolean" else kind
            raise scope.at.error(f"{_said(node, scope, kind)} is a {said}: compare it with = or <>", node)
    made = Call(function, arguments)
    scope.domain(made, node)
    return made


_TIMES = ("add_seconds", "seconds_between")
_MOVED = {"date": ("add_days", "add_months"), "timestamp": ("add_seconds",)}
_COMPARED = ("eq", "ne", "lt", "le", "gt", "ge", "between", "in", "is_distinct_from", "nullif", "coalesce")


def as_text(argument: Expression, domain: Domain) -> Expression:
    return Call("label", (argument,)) if domain.kind == "category" else argument


def _of_one_kind(
    function: str, arguments: tuple[Expression, ...], node: exp.Expr, scope: Scope
) -> tuple[Expression, ...]:
    """Text constants as what they stand beside: days, times, labels; an error that says what was expected."""
    known = next(
        (d for a in arguments if not (isinstance(a, Value) and a.kind == "text") for d in [scope.domain(a)]), None
    )
    if known is None or known.kind in ("text", "id"):
        return arguments
    return tuple(beside(each, known, function, node, scope) for each in arguments)


def beside(argument: Expression, known: Domain, function: str, node: exp.Expr, scope: Scope) -> Expression:
    found = scope.domain(argument, node)
    if not isinstance(argument, Value):
        if known.kind == "timestamp" and found.kind == "date" and function in _COMPARED:
            raise scope.at.error("a timestamp is compared with a timestamp: write CAST(... AS DATE) for its day", node)
        return argument
    if known.kind == "category":
        if argument.kind == "text" and argument.value not in known.labels and function != "coalesce":
            labels = list(known.labels)
            hint = did_you_mean(str(argument.value), labels) if len(labels) <= 50 else "see the catalog"
            what = _said(node, scope, "category")
            raise scope.at.error(f"{what} has no declared label {str(argument.value)!r}: {hint}", node)
        if argument.kind != "text":
            raise scope.at.error(
                f"{_said(node, scope, 'category')} is a category: compare it with a quoted label", node
            )
        return argument
    if argument.kind == "text":
        value = as_kind(argument, known.kind, known.offset)
        if value is not None:
            return value
    elif argument.kind == "date" and known.kind == "timestamp":
        assert isinstance(argument.value, Fraction)
        return Value("timestamp", argument.value * 86_400 - known.offset)
    elif argument.kind == known.kind or (argument.kind == "number" and function in _MOVED.get(known.kind, ())):
        return argument
    what = _said(node, scope, known.kind)
    raise scope.at.error(f"{what} is {_KINDS[known.kind]}: compare it with {_EXAMPLES[known.kind]}", node)


def _said(node: exp.Expr, scope: Scope, kind: str) -> str:
    """The column of that kind in a node, as written; else its SQL."""
    for each in node.find_all(exp.Column):
        if isinstance(each.this, exp.Identifier):
            found = scope.candidates(each)
            if found and found[0].of is not None and scope.domain(found[0].of).kind == kind:
                return str(each.name)
    shown = node.this.sql(dialect="duckdb") if isinstance(node.this, exp.Expr) else "this"
    return shown if len(shown) <= 40 else "this"


def value_of(found: Field, node: exp.Expr, scope: Scope) -> Expression:
    """The value of a field: never an id; codes as the texts they stand for."""
    if found.of is None or scope.domain(found.of, node).kind == "id":
        raise refused("id", scope.at, node)
    if found.labels:
        return worded(found.of, found.labels)
    return found.of


def flattened(node: exp.Expr, kind: type[exp.Expr]) -> list[exp.Expr]:
    """The parts of a chain of AND (or of OR), left to right, without recursion."""
    parts: list[exp.Expr] = []
    left = [node]
    while left:
        each = left.pop()
        if isinstance(each, exp.Paren) and isinstance(each.this, kind):
            left.append(each.this)
        elif isinstance(each, kind):
            left += [each.expression, each.this]
        else:
            parts.append(each)
    return parts


def negated(value: Expression, node: exp.Expr, scope: Scope) -> Expression:
    """`a NOT LIKE b`, which the parser notes as a flag."""
    return apply("not", (value,), node, scope) if node.args.get("negate") else value
