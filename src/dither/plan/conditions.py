"""Conditions are checked against the columns they read: every node, column and constant has a rule
or is refused."""

from __future__ import annotations

from fractions import Fraction

from dither.canonical import is_unicode
from dither.errors import RefusedError
from dither.plan.domain import Columns, Domain
from dither.plan.expressions import (
    And,
    Call,
    Column,
    Compare,
    Condition,
    Holds,
    IsNull,
    Not,
    Or,
)
from dither.plan.functions import domain_of
from dither.rules import PrivacyRule


def check_condition(condition: Condition, columns: Columns) -> None:
    """Raise RefusedError at the first part without a rule."""
    if isinstance(condition, (And, Or)):
        if not condition.conditions:
            raise RefusedError("an empty AND or OR", rule=PrivacyRule.NO_RULE)
        for operand in condition.conditions:
            check_condition(operand, columns)
    elif isinstance(condition, Not):
        check_condition(condition.condition, columns)
    elif isinstance(condition, Holds):
        if domain_of(condition.expression, columns).kind != "boolean":
            raise RefusedError("a condition that is no truth value", rule=PrivacyRule.TYPES)
    elif isinstance(condition, (Compare, IsNull)):
        if condition.column not in columns:
            same = [name for name in columns if name.lower() == condition.column.lower()]
            hint = (
                f"write {same[0]}, not {condition.column}"
                if same
                else f"no column {condition.column}"
            )
            raise RefusedError(hint, rule=PrivacyRule.DECLARED_NAMES)
        domain = columns[condition.column]
        if domain.kind == "id":
            raise RefusedError(
                f"{condition.column} names people or rows and is never compared",
                rule=PrivacyRule.IDS_NEVER_READ,
            )
        if isinstance(condition, Compare):
            _check_constant(condition, domain)
    else:
        raise RefusedError(f"no rule for {type(condition).__name__}", rule=PrivacyRule.NO_RULE)


def columns_of(node: object) -> frozenset[str]:
    """Collect the names of the columns that a condition or an expression reads."""
    if isinstance(node, (Compare, IsNull)):
        return frozenset((node.column,))
    if isinstance(node, Column):
        return frozenset((node.name,))
    inside: tuple[object, ...] = ()
    match node:
        case And(operands) | Or(operands):
            inside = operands
        case Not(operand) | Holds(operand):
            inside = (operand,)
        case Call(_, operands):
            inside = operands
    return frozenset().union(*(columns_of(operand) for operand in inside))


def _check_constant(compare: Compare, domain: Domain) -> None:
    """Raise RefusedError unless a column of this domain can be compared with the constant."""
    if compare.operator not in ("=", "<>", "<", "<=", ">", ">="):
        raise RefusedError(f"no operator {compare.operator}", rule=PrivacyRule.NO_RULE)
    if domain.kind == "category":
        if compare.operator not in ("=", "<>") or compare.constant not in domain.labels:
            raise RefusedError(
                f"{compare.column} can be compared with = and <> to one of "
                f"{list(domain.labels[:50])}",
                rule=PrivacyRule.TYPES,
            )
    elif domain.kind == "text":
        if (
            compare.operator not in ("=", "<>")
            or not isinstance(compare.constant, str)
            or not is_unicode(compare.constant)
        ):
            raise RefusedError(
                f"{compare.column} can be compared with = and <> to a text", rule=PrivacyRule.TYPES
            )
    elif not isinstance(compare.constant, Fraction):
        raise RefusedError(f"{compare.column} is compared with a number", rule=PrivacyRule.TYPES)
