"""Domains narrowed by conditions: what a column can hold in the rows where a condition is true.

AND narrows by each of its conditions, OR to the smallest interval that holds what any of them
leaves, NOT by the opposite. A column that is compared is not null where the comparison is true or
false. Proof: docs/proofs/stability.md#filter.

>>> age = {"age": Domain("number", True, 0, 110)}
>>> few = Or((Compare("age", "=", Fraction(3)), Compare("age", "<", Fraction(2))))
>>> narrow_columns(age, few)["age"]
Domain(kind='number', nullable=False, low=0, high=3, step=Fraction(1, 1), labels=(), width=0, \
offset=0, undeclared=False, keys=None)
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from dither.plan.domain import Columns, Domain, narrowed
from dither.plan.expressions import (
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

OPPOSITE: dict[str, Operator] = {
    "=": "<>",
    "<>": "=",
    "<": ">=",
    ">=": "<",
    ">": "<=",
    "<=": ">",
}
FLIPPED: dict[str, Operator] = {
    "=": "=",
    "<>": "<>",
    "<": ">",
    ">": "<",
    "<=": ">=",
    ">=": "<=",
}
SIGNS: dict[str, Operator] = {"eq": "=", "ne": "<>", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
NUMERIC = ("number", "date", "timestamp", "boolean")


def narrow_columns(columns: Columns, condition: Condition, is_true: bool = True) -> Columns:
    """Narrow the domains to the rows where a condition is true, or where it is false.

    `is_true` says which.
    """
    match condition:
        case Not(inner):
            return narrow_columns(columns, inner, not is_true)
        case And(operands) | Or(operands):
            if isinstance(condition, And) == is_true:
                for operand in operands:
                    columns = narrow_columns(columns, operand, is_true)
                return columns
            return _widen([narrow_columns(columns, operand, is_true) for operand in operands])
        case Holds(expression):
            simpler = simplify_condition(expression, columns)
            if simpler is not None:
                return narrow_columns(columns, simpler, is_true)
            return _narrow_pair(columns, expression) if is_true else columns
        case IsNull(name) if not is_true and columns[name].kind in NUMERIC:
            return {**columns, name: replace(columns[name], nullable=False)}
        case Compare(name, operator, Fraction() as constant) if columns[name].kind in NUMERIC:
            holding = operator if is_true else OPPOSITE[operator]
            return {**columns, name: _narrow(columns[name], holding, constant)}
    return columns


def simplify_condition(expression: Expression, columns: Columns) -> Condition | None:
    """Rewrite a boolean expression as conditions on columns and constants of their kind.

    None where it cannot be written so.
    """
    if isinstance(expression, Column):
        return Compare(expression.name, "=", Fraction(1))
    if not isinstance(expression, Call):
        return None
    match expression.function, expression.arguments:
        case "and", operands:
            return And(tuple(Holds(operand) for operand in operands))
        case "or", operands:
            return Or(tuple(Holds(operand) for operand in operands))
        case "not", (operand,):
            return Not(Holds(operand))
        case "is_null", (Column(name),):
            return IsNull(name)
        case "is_not_null", (Column(name),):
            return Not(IsNull(name))
        case "between", (Column() as column, low, high):
            return And((Holds(Call("ge", (column, low))), Holds(Call("le", (column, high)))))
        case "in", (Column() as column, *constants):
            return Or(tuple(Holds(Call("eq", (column, constant))) for constant in constants))
        case sign, (Column(name), Value(kind, constant)) if sign in SIGNS:
            return Compare(name, SIGNS[sign], constant) if columns[name].kind == kind else None
        case sign, (Value(kind, constant), Column(name)) if sign in SIGNS:
            flipped = FLIPPED[SIGNS[sign]]
            return Compare(name, flipped, constant) if columns[name].kind == kind else None
    return None


def count_labels(name: str, condition: Condition, columns: Columns) -> int:
    """How many values a category can have, null among them, in the rows where a condition is
    true."""
    domain = columns[name]
    values: list[str | None] = [*domain.labels, *([None] if domain.nullable else [])]
    return sum(_may_be(condition, True, name, value, columns) for value in values)


def _may_be(
    condition: Condition, is_true: bool, name: str, value: str | None, columns: Columns
) -> bool:
    """Whether a condition can be true (or false) in a row whose category has the value."""
    match condition:
        case Not(inner):
            return _may_be(inner, not is_true, name, value, columns)
        case And(operands) | Or(operands):
            combine = all if isinstance(condition, And) == is_true else any
            return combine(_may_be(operand, is_true, name, value, columns) for operand in operands)
        case Holds(expression):
            simpler = simplify_condition(expression, columns)
            return simpler is None or _may_be(simpler, is_true, name, value, columns)
        case Compare(column, operator, constant) if column == name:
            is_same = (operator == "=") == is_true
            return value is not None and (value == constant) == is_same
        case IsNull(column) if column == name:
            return (value is None) == is_true
    return True


def _narrow(domain: Domain, sign: Operator, constant: Fraction) -> Domain:
    """Narrow a domain to where a comparison holds: no null, and no key of a GROUP BY outside it."""
    inside = narrowed(replace(domain, nullable=False), sign, constant)
    if domain.keys is None:
        return inside
    keys = (max(domain.keys[0], inside.low), min(domain.keys[1], inside.high))
    return replace(inside, keys=keys if keys[0] <= keys[1] else domain.keys)


def _narrow_pair(columns: Columns, expression: Expression) -> Columns:
    """Narrow two columns that are compared, each by the bounds of the other."""
    match expression:
        case Call(function, (Column(left), Column(right))) if function in SIGNS:
            kind = columns[left].kind
            if kind not in NUMERIC or kind != columns[right].kind or left == right:
                return columns
            sign = SIGNS[function]
            return {
                **columns,
                left: _narrow_by(columns[left], sign, columns[right]),
                right: _narrow_by(columns[right], FLIPPED[sign], columns[left]),
            }
    return columns


def _narrow_by(domain: Domain, sign: Operator, bounds: Domain) -> Domain:
    """Narrow a domain to the values that compare so with some value between `bounds`."""
    if sign in ("<", "<=", "="):
        domain = _narrow(domain, "<" if sign == "<" else "<=", bounds.high * bounds.step)
    if sign in (">", ">=", "="):
        domain = _narrow(domain, ">" if sign == ">" else ">=", bounds.low * bounds.step)
    return replace(domain, nullable=False)


def _widen(choices: list[Columns]) -> Columns:
    """Compute the smallest domains that hold those of every choice."""
    columns = dict(choices[0])
    for choice in choices[1:]:
        for name, domain in choice.items():
            first = columns[name]
            columns[name] = replace(
                first,
                nullable=first.nullable or domain.nullable,
                low=min(first.low, domain.low),
                high=max(first.high, domain.high),
                keys=first.keys
                and (
                    min(first.listed[0], domain.listed[0]),
                    max(first.listed[1], domain.listed[1]),
                ),
            )
    return columns
