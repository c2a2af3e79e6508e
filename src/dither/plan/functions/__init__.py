"""The function table: every scalar function that a plan may call, and the domain of every
expression.

>>> len(TABLE) >= 60
True
>>> age = {"age": Domain("number", False, 0, 110)}
>>> domain_of(Call("multiply", (Value("number", Fraction(2)), Column("age"))), age).high
220
"""

from __future__ import annotations

from fractions import Fraction

from dither.canonical import is_unicode
from dither.errors import RefusedError
from dither.plan.domain import FIRST_DAY, LAST_DAY, LIMIT, Columns, Domain
from dither.plan.expressions import Call, Column, Constant, Expression, Value
from dither.plan.functions import choices, conditions, dates, numbers, rounding, text
from dither.plan.functions.refused import REFUSED
from dither.plan.functions.table import Arguments, Function
from dither.rules import PrivacyRule

__all__ = [
    "FAMILIES",
    "REFUSED",
    "TABLE",
    "Arguments",
    "Function",
    "arguments_of",
    "depth_of",
    "domain_of",
]

FAMILIES: dict[str, tuple[Function, ...]] = {
    "numbers": numbers.FUNCTIONS + rounding.FUNCTIONS,
    "text": text.FUNCTIONS,
    "dates": dates.FUNCTIONS,
    "conditions": conditions.FUNCTIONS + choices.FUNCTIONS,
}
TABLE: dict[str, Function] = {
    function.name: function for family in FAMILIES.values() for function in family
}
MAX_DEPTH = 40


def domain_of(expression: Expression, columns: Columns) -> Domain:
    """The domain of an expression over rows with these columns; refused where the table has no
    rule."""
    if depth_of(expression) > MAX_DEPTH:
        raise RefusedError(f"nested deeper than {MAX_DEPTH} calls", rule=PrivacyRule.BOUNDED_WORK)
    return _domain(expression, columns)


def depth_of(expression: Expression) -> int:
    """Count how many calls lie inside each other; the count ends at MAX_DEPTH + 1."""
    depth = 0
    level = [expression]
    while level := [
        argument for node in level if isinstance(node, Call) for argument in node.arguments
    ]:
        depth += 1
        if depth > MAX_DEPTH or len(level) > 10_000:
            return MAX_DEPTH + 1
    return depth


def _domain(expression: Expression, columns: Columns) -> Domain:
    """Compute the domain of an expression. Raises RefusedError for what has no rule."""
    if isinstance(expression, Column):
        if expression.name not in columns:
            raise RefusedError(f"no column {expression.name}", rule=PrivacyRule.DECLARED_NAMES)
        return columns[expression.name]
    if isinstance(expression, Value):
        return _constant(expression)
    if isinstance(expression, Call):
        return function_of(expression).result(arguments_of(expression, columns))
    raise RefusedError(f"no rule for {type(expression).__name__}", rule=PrivacyRule.NO_RULE)


def function_of(call: Call) -> Function:
    """Return the function's entry in the table.

    Raises RefusedError, with the reason, where there is none.
    """
    if call.function in TABLE:
        return TABLE[call.function]
    why = REFUSED.get(call.function, "it is not in the table of functions")
    raise RefusedError(f"{call.function} is refused: {why}", rule=PrivacyRule.LISTED_FUNCTIONS)


def arguments_of(call: Call, columns: Columns) -> Arguments:
    """Collect the domains and constants of a call's arguments.

    Raises RefusedError for ids, which are never read but for whether there is one.
    """
    domains = tuple(_domain(argument, columns) for argument in call.arguments)
    if any(domain.kind == "id" for domain in domains) and call.function not in (
        "is_null",
        "is_not_null",
    ):
        raise RefusedError(
            f"{call.function} of an id: ids name people or rows", rule=PrivacyRule.IDS_NEVER_READ
        )
    constants: tuple[Constant | None, ...] = tuple(
        argument.value if isinstance(argument, Value) else None for argument in call.arguments
    )
    return Arguments(call.function, domains, constants)


def _constant(value: Value) -> Domain:
    """Compute the domain of a constant, which holds that value alone.

    Raises RefusedError for one that is too long or out of range.
    """
    if value.kind == "text" and isinstance(value.value, str) and is_unicode(value.value):
        return Domain("text", False, width=len(value.value))
    if isinstance(value.value, Fraction):
        fraction = value.value
        if value.kind == "number" and max(abs(fraction.numerator), fraction.denominator) < LIMIT:
            return Domain(
                "number",
                False,
                fraction.numerator,
                fraction.numerator,
                Fraction(1, fraction.denominator),
            )
        limits = {
            "boolean": (0, 1),
            "date": (FIRST_DAY, LAST_DAY),
            "timestamp": (FIRST_DAY * 86_400, (LAST_DAY + 1) * 86_400 - 1),
        }
        if (
            value.kind in limits
            and fraction.denominator == 1
            and limits[value.kind][0] <= fraction <= limits[value.kind][1]
        ):
            return Domain(value.kind, False, int(fraction), int(fraction))
    raise RefusedError(
        f"no constant {value.kind} {ascii(value.value)[:40]}", rule=PrivacyRule.TYPES
    )
