"""Domains of computed columns, where more is known than the domains of their arguments.

A CASE gives a value only in the rows where its condition is true, so that the condition narrows
what the value is computed from. A sum divided by the number of its values is an average, which lies
between the bounds of what is averaged. Lowering moves every value into the domain that is claimed
here. Proof: docs/proofs/stability.md#project.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction

from dither.errors import RefusedError
from dither.plan.algebra import Count, CountDistinct, CountValues, Group, PerUnit, Plan, Sum
from dither.plan.domain import Columns, Domain
from dither.plan.expressions import Call, Column, Expression, Holds, Value
from dither.plan.functions import TABLE, domain_of
from dither.plan.functions.rounding import round_grid
from dither.plan.functions.table import Arguments
from dither.plan.narrow import narrow_columns

Means = Mapping[tuple[str, str], tuple[Fraction, Fraction]]
"""Between which numbers the quotient of two columns lies: both are aggregates of one group."""


def refine_domain(expression: Expression, columns: Columns, means: Means) -> Domain:
    """Compute the domain of an expression, narrower than the function table says where possible.

    `means` are the quotients of columns that are averages.

    >>> cost = {"cost": Domain("number", False, 0, 50)}
    >>> low = Call("lt", (Column("cost"), Value("number", Fraction(5))))
    >>> refine_domain(Call("case", (low, Column("cost"))), cost, {}).high
    4
    """
    plain = domain_of(expression, columns)
    if plain.kind != "number" or not _has_refined_call(expression, means):
        return plain
    try:
        closer = _refine(expression, columns, means)
    except RefusedError:  # of narrower arguments; the plain ones have a rule
        return plain
    low = max(plain.low, closer.low)
    high = min(plain.high, closer.high)
    if closer.step != plain.step or low > high:
        return plain
    return replace(plain, low=low, high=high)


def _has_refined_call(expression: Expression, means: Means) -> bool:
    """Whether an expression holds a call that `_refine` knows more of than the function table."""
    if not isinstance(expression, Call):
        return False
    if expression.function in ("case", "if") or (expression.function == "divide" and means):
        return True
    return any(_has_refined_call(argument, means) for argument in expression.arguments)


def _refine(expression: Expression, columns: Columns, means: Means) -> Domain:
    """Compute the domain of an expression from refined arguments.

    A branch of CASE is refined by its condition.
    """
    if not isinstance(expression, Call):
        return domain_of(expression, columns)
    match expression:
        case Call("divide", (Column(total), Column(count))) if (total, count) in means:
            plain = domain_of(expression, columns)
            low, high = (round_grid(1, end / plain.step, "round") for end in means[total, count])
            return replace(plain, low=low, high=high)
    arguments = expression.arguments
    domains = [_refine(argument, columns, means) for argument in arguments]
    if expression.function in ("case", "if"):
        for position in range(0, len(arguments) - 1, 2):
            inside = narrow_columns(columns, Holds(arguments[position]))
            domains[position + 1] = _refine(arguments[position + 1], inside, means)
    constants = tuple(
        argument.value if isinstance(argument, Value) else None for argument in arguments
    )
    return TABLE[expression.function].result(
        Arguments(expression.function, tuple(domains), constants)
    )


def find_means(plan: Plan, columns_below: Columns) -> Means:
    """Find the quotients of aggregates of a grouped plan that are averages, with their bounds.

    The result maps (sum column, count column) to (low, high). `columns_below` are those of the rows
    that are grouped. Values that are null are not counted by COUNT(x); where COUNT(*) divides their
    sum they count as 0.
    """
    means: dict[tuple[str, str], tuple[Fraction, Fraction]] = {}
    if not isinstance(plan, (PerUnit, Group)):
        return means
    rows = [named.name for named in plan.columns if isinstance(named.of, Count)]
    for named in plan.columns:
        match named.of:
            case Sum(column):
                domain = columns_below[column]
                low = domain.low * domain.step
                high = domain.high * domain.step
                values = [
                    counted.name for counted in plan.columns if counted.of == CountValues(column)
                ]
                means |= {(named.name, count): (low, high) for count in values}
                if domain.nullable:
                    low = min(low, Fraction(0))
                    high = max(high, Fraction(0))
                means |= {(named.name, count): (low, high) for count in rows}
            case CountValues() | CountDistinct():
                means |= {(named.name, count): (Fraction(0), Fraction(1)) for count in rows}
    return means
