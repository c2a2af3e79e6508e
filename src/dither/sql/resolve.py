"""Expressions of SQL become expressions of plans.

How a node finds its rule, and a function its arguments.

The rules stand in `choices`, `dates` and `expressions`, which fills the table; a node without one
is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from sqlglot import exp

from dither.plan.algebra import Call, Expression, Value
from dither.plan.domain import Domain
from dither.plan.functions import FAMILIES, REFUSED
from dither.rules import PrivacyRule
from dither.sql.constants import as_kind, fold_constants
from dither.sql.functions import REFUSED_TYPES, TYPED
from dither.sql.refusals.refuse import did_you_mean, make_refusal, quote_node
from dither.sql.scope import Field, Scope, decode_labels

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
_KINDS = {
    "number": "a number",
    "date": "a date",
    "timestamp": "a timestamp",
    "boolean": "a truth value",
}
_EXAMPLES = {
    "number": "a number",
    "date": "DATE '2026-01-31'",
    "timestamp": "TIMESTAMP '2026-01-31 12:00:00'",
    "boolean": "TRUE or FALSE",
}


def resolve_expression(node: exp.Expr, scope: Scope) -> Expression:
    """Resolve a SQL expression over the rows of a relation to an expression of plans.

    Raises QueryError for what has no rule.
    """
    if not isinstance(node, exp.Expr):
        raise scope.context.error("an argument is missing")
    if id(node) in scope.meanings:
        return scope.meanings[id(node)]
    if rule := RULES.get(type(node)):
        return rule(node, scope)
    if type(node) in COMPARISONS:
        return resolve_call(COMPARISONS[type(node)], (node.this, node.expression), node, scope)
    if type(node) in TYPED:
        function, arguments = TYPED[type(node)]
        operands = arguments(node)
        while operands and operands[-1] is None:
            operands.pop()
        if None in operands:
            raise refuse_node(node, scope)
        return resolve_call(
            function, tuple(operand for operand in operands if operand is not None), node, scope
        )
    raise refuse_node(node, scope)


def refuse_node(node: exp.Expr, scope: Scope) -> Exception:
    """Make the error for a node that has no rule; the caller raises it."""
    context = scope.context
    if isinstance(node, exp.Window):
        return make_refusal("window", context, node)
    if isinstance(node, exp.Exists) or (isinstance(node, exp.In) and node.args.get("query")):
        return make_refusal("subquery place", context, node)
    if isinstance(node, (exp.Subquery, exp.Select, exp.Any, exp.All)):
        if _reads_public_tables(node, scope):
            return make_refusal("public scalar", context, node)
        return make_refusal("scalar subquery", context, node)
    if isinstance(node, (exp.Placeholder, exp.Parameter)):
        return make_refusal("parameter", context, node)
    if isinstance(node, exp.Null):
        return make_refusal("null constant", context, node)
    if isinstance(node, exp.Interval):
        return make_refusal("interval", context, node)
    if type(node) in REFUSED_TYPES:
        name = REFUSED_TYPES[type(node)]
        return context.error(
            f"{name} is refused: {REFUSED[name]} {PrivacyRule.LISTED_FUNCTIONS.label}", node
        )
    if isinstance(node, (exp.AggFunc, exp.Filter, exp.WithinGroup, exp.Grouping)):
        return make_refusal("aggregate in where", context, node)
    return context.error(
        f"no rule for {quote_node(node)}: the functions that a question can use are in "
        f"docs/reference/functions.md {PrivacyRule.LISTED_FUNCTIONS.label}",
        node,
    )


def _reads_public_tables(node: exp.Expr, scope: Scope) -> bool:
    """Whether a subquery reads public tables, and nothing else."""
    public = {table.name for table in scope.context.catalog.tables if table.kind == "public"}
    names = {table.name.lower() for table in node.find_all(exp.Table)}
    return bool(names) and names <= {name.lower() for name in public}


def resolve_call(
    function: str, nodes: tuple[exp.Expr, ...], node: exp.Expr, scope: Scope
) -> Expression:
    """A function of the table over SQL arguments."""
    return apply_function(
        function, tuple(resolve_expression(argument, scope) for argument in nodes), node, scope
    )


def apply_function(
    function: str, arguments: tuple[Expression, ...], node: exp.Expr, scope: Scope
) -> Expression:
    """Apply a function of the table to arguments.

    Text constants are read as labels, days and times, as SQL does. Raises QueryError for ids and
    for kinds that do not fit.
    """
    if (constant := fold_constants(function, arguments)) is not None:
        return constant
    domains = [scope.domain(argument, node) for argument in arguments]
    if any(domain.kind == "id" for domain in domains):
        raise make_refusal("id", scope.context, node)
    if function in _TEXT:
        arguments = tuple(
            as_text(argument, domain) for argument, domain in zip(arguments, domains, strict=True)
        )
    elif function in _DATES:
        arguments = tuple(
            Call("date_of", (argument,))
            if domain.kind == "timestamp" and function not in _TIMES
            else argument
            for argument, domain in zip(arguments, domains, strict=True)
        )
        arguments = _align_constants(function, arguments, node, scope)
    elif function in _COMPARED:
        arguments = _align_constants(function, arguments, node, scope)
        if function in _ORDERED and scope.domain(arguments[0]).kind in (
            "category",
            "text",
            "boolean",
        ):
            kind = scope.domain(arguments[0]).kind
            kind_word = "truth value" if kind == "boolean" else kind
            raise scope.context.error(
                f"{_name_operand(node, scope, kind)} is a {kind_word}: compare it with = or <>",
                node,
            )
    applied = Call(function, arguments)
    scope.domain(applied, node)
    return applied


_TIMES = ("add_seconds", "seconds_between")
_MOVED = {"date": ("add_days", "add_months"), "timestamp": ("add_seconds",)}
_COMPARED = (
    "eq",
    "ne",
    "lt",
    "le",
    "gt",
    "ge",
    "between",
    "in",
    "is_distinct_from",
    "nullif",
    "coalesce",
)


def as_text(argument: Expression, domain: Domain) -> Expression:
    return Call("label", (argument,)) if domain.kind == "category" else argument


def _align_constants(
    function: str, arguments: tuple[Expression, ...], node: exp.Expr, scope: Scope
) -> tuple[Expression, ...]:
    """Read text constants as what they stand beside: days, times, labels.

    A text that is no such value is an error that says what was expected.
    """
    domain = next(
        (
            domain
            for argument in arguments
            if not (isinstance(argument, Value) and argument.kind == "text")
            for domain in [scope.domain(argument)]
        ),
        None,
    )
    if domain is None or domain.kind in ("text", "id"):
        return arguments
    return tuple(align_constant(argument, domain, function, node, scope) for argument in arguments)


def align_constant(
    argument: Expression, beside: Domain, function: str, node: exp.Expr, scope: Scope
) -> Expression:
    """A constant as the kind of `beside`; an error that says what was expected if it is none."""
    domain = scope.domain(argument, node)
    if not isinstance(argument, Value):
        if beside.kind == "timestamp" and domain.kind == "date" and function in _COMPARED:
            raise scope.context.error(
                "a timestamp is compared with a timestamp: write CAST(... AS DATE) for its day",
                node,
            )
        return argument
    if beside.kind == "category":
        if (
            argument.kind == "text"
            and argument.value not in beside.labels
            and function != "coalesce"
        ):
            labels = list(beside.labels)
            hint = (
                did_you_mean(str(argument.value), labels)
                if len(labels) <= 50
                else "see the catalog"
            )
            what = _name_operand(node, scope, "category")
            raise scope.context.error(
                f"{what} has no declared label {str(argument.value)!r}: {hint}", node
            )
        if argument.kind != "text":
            raise scope.context.error(
                f"{_name_operand(node, scope, 'category')} is a category: compare it with a quoted "
                f"label",
                node,
            )
        return argument
    if argument.kind == "text":
        value = as_kind(argument, beside.kind, beside.offset)
        if value is not None:
            return value
    elif argument.kind == "date" and beside.kind == "timestamp":
        assert isinstance(argument.value, Fraction)
        return Value("timestamp", argument.value * 86_400 - beside.offset)
    elif argument.kind == beside.kind or (
        argument.kind == "number" and function in _MOVED.get(beside.kind, ())
    ):
        return argument
    what = _name_operand(node, scope, beside.kind)
    raise scope.context.error(
        f"{what} is {_KINDS[beside.kind]}: compare it with {_EXAMPLES[beside.kind]}", node
    )


def _name_operand(node: exp.Expr, scope: Scope, kind: str) -> str:
    """Name the column of that kind in a node, as written; else the SQL of the node."""
    for column in node.find_all(exp.Column):
        if isinstance(column.this, exp.Identifier):
            fields = scope.candidates(column)
            if fields and fields[0].of is not None and scope.domain(fields[0].of).kind == kind:
                return str(column.name)
    text = node.this.sql(dialect="duckdb") if isinstance(node.this, exp.Expr) else "this"
    return text if len(text) <= 40 else "this"


def read_field(field: Field, node: exp.Expr, scope: Scope) -> Expression:
    """Return the value of a field; codes as the texts they stand for. Raises QueryError for ids."""
    if field.of is None or scope.domain(field.of, node).kind == "id":
        raise make_refusal("id", scope.context, node)
    if field.labels:
        return decode_labels(field.of, field.labels)
    return field.of


def flatten_chain(node: exp.Expr, kind: type[exp.Expr]) -> list[exp.Expr]:
    """List the operands of a chain of AND (or of OR), from the first to the last, without
    recursion."""
    operands: list[exp.Expr] = []
    waiting = [node]
    while waiting:
        operand = waiting.pop()
        if isinstance(operand, exp.Paren) and isinstance(operand.this, kind):
            waiting.append(operand.this)
        elif isinstance(operand, kind):
            waiting += [operand.expression, operand.this]
        else:
            operands.append(operand)
    return operands


def negate_flagged(value: Expression, node: exp.Expr, scope: Scope) -> Expression:
    """`a NOT LIKE b`, which the parser notes as a flag."""
    return apply_function("not", (value,), node, scope) if node.args.get("negate") else value
