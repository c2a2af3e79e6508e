"""Functions that choose between values: CASE, IF, COALESCE, NULLIF. The result holds what any
choice can hold."""

from __future__ import annotations

from dataclasses import replace

from dither.plan.domain import Domain, hull
from dither.plan.functions.align import align_arguments
from dither.plan.functions.conditions import comparison
from dither.plan.functions.table import Arguments, Function


def _choose_domain(a: Arguments, positions: list[int], nullable: bool) -> Domain:
    """Compute the domain of a value that is one of the arguments at `positions`."""
    some = replace(
        a,
        domains=tuple(a.domains[p] for p in positions),
        constants=tuple(a.constants[p] for p in positions),
    )
    domain = hull(align_arguments(some).domains, a.function)
    if domain.kind == "id":
        raise a.refuse("ids name people or rows and are never read")
    return replace(domain, nullable=nullable, keys=None, undeclared=False)


def list_case_values(a: Arguments) -> list[int]:
    """The positions of the values of a CASE among its arguments."""
    last = [len(a.domains) - 1] if len(a.domains) % 2 else []
    return [*range(1, len(a.domains), 2), *last]


def _case(a: Arguments) -> Domain:
    """Compute the domain of CASE: condition, value, condition, value, ..., and the ELSE if any."""
    if not 2 <= len(a.domains) <= 101:
        raise a.refuse("takes pairs of a condition and a value, then perhaps a value for the rest")
    for position in range(0, len(a.domains) - 1, 2):
        if a.domains[position].kind != "boolean":
            raise a.refuse(f"argument {position + 1} must be a truth value")
    value_positions = list_case_values(a)
    return _choose_domain(
        a,
        value_positions,
        len(a.domains) % 2 == 0 or any(a.domains[p].nullable for p in value_positions),
    )


def _if(a: Arguments) -> Domain:
    if len(a.domains) != 3:
        raise a.refuse("takes a condition and two values")
    return _case(a)


def _coalesce(a: Arguments) -> Domain:
    """Compute the domain of COALESCE. It is null only where all values are."""
    if not 2 <= len(a.domains) <= 50:
        raise a.refuse("takes 2 to 50 values")
    return _choose_domain(
        a, list(range(len(a.domains))), all(domain.nullable for domain in a.domains)
    )


def _nullif(a: Arguments) -> Domain:
    comparison(a)
    labels = a.domains[0].labels if a.domains[0].kind == "category" else ()
    return replace(a.domains[0], nullable=True, keys=None, undeclared=False, labels=labels)


_NONE = "none needed"
FUNCTIONS: tuple[Function, ...] = (
    Function(
        "if",
        "a truth value and two values",
        "the first if true, else the second",
        "null if it says so",
        _NONE,
        _if,
    ),
    Function(
        "case",
        "conditions and values in turn, then perhaps a value for the rest",
        "the value after the first true condition",
        "null if it says so",
        _NONE,
        _case,
    ),
    Function(
        "coalesce",
        "two or more values of a kind",
        "the first that is not null",
        "skips nulls",
        _NONE,
        _coalesce,
    ),
    Function(
        "nullif",
        "two values of a kind",
        "null if they are equal, else the first",
        "null if it says so",
        _NONE,
        _nullif,
    ),
)
