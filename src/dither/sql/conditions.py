"""WHERE: a condition in SQL becomes a condition of the plan.

Conditions that narrow bounds become plain comparisons.
"""

from __future__ import annotations

from fractions import Fraction

from sqlglot import exp

from dither.plan.algebra import (
    And,
    Call,
    Column,
    Compare,
    Condition,
    Expression,
    Holds,
    IsNull,
    Not,
    Operator,
    Or,
    Value,
)
from dither.sql.expressions import flatten_chain, resolve_expression
from dither.sql.scope import Scope

_SIGNS: dict[str, Operator] = {"eq": "=", "ne": "<>", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_FLIPPED: dict[Operator, Operator] = {
    "=": "=",
    "<>": "<>",
    "<": ">",
    "<=": ">=",
    ">": "<",
    ">=": "<=",
}


def resolve_condition(node: exp.Expr, scope: Scope) -> Condition:
    """Resolve a WHERE expression to a condition of plans; three-valued, as in SQL.

    Raises QueryError for what is no truth value.
    """
    if isinstance(node, exp.Paren):
        return resolve_condition(node.this, scope)
    if isinstance(node, (exp.And, exp.Or)):
        operands = tuple(
            resolve_condition(operand, scope) for operand in flatten_chain(node, type(node))
        )
        return And(operands) if isinstance(node, exp.And) else Or(operands)
    if isinstance(node, exp.Not) and id(node) not in scope.meanings:
        return Not(resolve_condition(node.this, scope))
    value = resolve_expression(node, scope)
    if scope.domain(value, node).kind != "boolean":
        name = node.name if isinstance(node, exp.Column) else node.sql(dialect="duckdb")[:40]
        raise scope.context.error(f"{name} is no truth value: compare it, as in {name} = ...", node)
    return as_condition(value, scope)


def as_condition(value: Expression, scope: Scope) -> Condition:
    """Turn a boolean expression into a condition; comparisons with a constant are plain ones.

    Those narrow the bounds of the column, and with them the noise (`plan/stability/filter.py`).
    """
    if isinstance(value, Column):
        return Compare(value.name, "=", Fraction(1))
    if isinstance(value, Call):
        match value.function, value.arguments:
            case "is_null", (Column(name),):
                return IsNull(name)
            case "between", (Column(), Value(), Value()):
                subject, low, high = value.arguments
                return And(
                    (
                        as_condition(Call("ge", (subject, low)), scope),
                        as_condition(Call("le", (subject, high)), scope),
                    )
                )
            case "in", (Column(), *listed) if len(listed) <= 20:
                comparisons = tuple(
                    as_condition(Call("eq", (value.arguments[0], constant_listed)), scope)
                    for constant_listed in listed
                )
                return comparisons[0] if len(comparisons) == 1 else Or(comparisons)
            case function, (Column(name), Value(_, constant)) if function in _SIGNS:
                return Compare(name, _SIGNS[function], constant)
            case function, (Value(_, constant), Column(name)) if function in _SIGNS:
                return Compare(name, _FLIPPED[_SIGNS[function]], constant)
    return Holds(value)
