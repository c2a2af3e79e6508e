"""Functions that choose between values: CASE, IF, COALESCE, NULLIF. The result holds what any choice can hold."""

from __future__ import annotations

from dataclasses import replace

from dither.plan.domain import Domain, hull, is_stored
from dither.plan.functions.align import aligned
from dither.plan.functions.conditions import comparison
from dither.plan.functions.table import Arguments, Function, cast


def _chosen(a: Arguments, places: list[int], nullable: bool) -> Domain:
    """The domain of a value that is one of some arguments."""
    some = replace(
        a,
        domains=tuple(a.domains[p] for p in places),
        constants=tuple(a.constants[p] for p in places),
        sql=(),
    )
    found = hull(aligned(some).domains, a.function)
    if found.kind == "id":
        raise a.refuse("ids name people or rows and are never read")
    return replace(found, nullable=nullable, keys=None, undeclared=False)


def _chosen_sql(a: Arguments, places: list[int]) -> tuple[str, ...]:
    some = Arguments(
        a.function,
        tuple(a.domains[p] for p in places),
        tuple(a.constants[p] for p in places),
        tuple(a.sql[p] for p in places),
    )
    return aligned(some).sql


def _case_places(a: Arguments) -> list[int]:
    last = [len(a.domains) - 1] if len(a.domains) % 2 else []
    return [*range(1, len(a.domains), 2), *last]


def _case(a: Arguments) -> Domain:
    if not 2 <= len(a.domains) <= 101:
        raise a.refuse("takes pairs of a condition and a value, then perhaps a value for the rest")
    for place in range(0, len(a.domains) - 1, 2):
        if a.domains[place].kind != "boolean":
            raise a.refuse(f"argument {place + 1} must be a truth value")
    places = _case_places(a)
    return _chosen(a, places, len(a.domains) % 2 == 0 or any(a.domains[p].nullable for p in places))


def _case_sql(a: Arguments, result: Domain) -> str:
    places = _case_places(a)
    values = dict(zip(places, _chosen_sql(a, places), strict=True))
    whens = " ".join(f"WHEN {a.sql[p]} = 1 THEN {values[p + 1]}" for p in range(0, len(a.domains) - 1, 2))
    rest = f" ELSE {values[places[-1]]}" if len(a.domains) % 2 else ""
    return f"CASE {whens}{rest} END"


def _if(a: Arguments) -> Domain:
    if len(a.domains) != 3:
        raise a.refuse("takes a condition and two values")
    return _case(a)


def _coalesce(a: Arguments) -> Domain:
    if not 2 <= len(a.domains) <= 50:
        raise a.refuse("takes 2 to 50 values")
    return _chosen(a, list(range(len(a.domains))), all(domain.nullable for domain in a.domains))


def _coalesce_sql(a: Arguments, result: Domain) -> str:
    return f"coalesce({', '.join(_chosen_sql(a, list(range(len(a.domains)))))})"


def _nullif(a: Arguments) -> Domain:
    comparison(a)
    labels = a.domains[0].labels if a.domains[0].kind == "category" else ()
    return replace(a.domains[0], nullable=True, keys=None, undeclared=False, labels=labels)


def _nullif_sql(a: Arguments, result: Domain) -> str:
    left, right = aligned(a).sql
    kept = cast(a.sql[0], a.domains[0].largest) if is_stored(a.domains[0]) else a.sql[0]
    return f"CASE WHEN ({left}) = ({right}) THEN NULL ELSE {kept} END"


_NONE = "none needed"
FUNCTIONS: tuple[Function, ...] = (
    Function(
        "if",
        "a truth value and two values",
        "the first if true, else the second",
        "null if it says so",
        _NONE,
        _if,
        _case_sql,
    ),
    Function(
        "case",
        "conditions and values in turn, then perhaps a value for the rest",
        "the value after the first true condition",
        "null if it says so",
        _NONE,
        _case,
        _case_sql,
    ),
    Function(
        "coalesce",
        "two or more values of a kind",
        "the first that is not null",
        "skips nulls",
        _NONE,
        _coalesce,
        _coalesce_sql,
    ),
    Function(
        "nullif",
        "two values of a kind",
        "null if they are equal, else the first",
        "null if it says so",
        _NONE,
        _nullif,
        _nullif_sql,
    ),
)
