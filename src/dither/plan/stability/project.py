"""SELECT of expressions. Proof: docs/proofs/stability.md#project."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from dither.errors import RefusedError
from dither.plan.algebra import Call, Column, Expression, Named, Value
from dither.plan.domain import Columns, Domain, check_name
from dither.plan.functions import domain_of
from dither.plan.stability.owned import Grouped, Node, Owned, Public
from dither.rules import PrivacyRule


def project_rows(source: Node, columns: tuple[Named, ...]) -> Node:
    """Bound the rows of one unit after a projection: one row for each row, made from it alone.

    What is known of groups lives on under new names.

    >>> project_rows(Owned(3, distinct=2), (Named("age", Column("age")),)) == Owned(3, distinct=2)
    True
    >>> project_rows(Public("wards"), (Named("ward", Column("level")),)).original("ward")
    'level'
    """
    if isinstance(source, Public):
        same = [
            (column.name, source.original(name))
            for column in columns
            if (name := _read_original(column.of)) is not None
        ]
        called = {
            column.of.name: column.name for column in columns if isinstance(column.of, Column)
        }
        keeps_key = source.unique is not None and source.unique <= set(called)
        unique = frozenset(called[name] for name in source.unique or ()) if keeps_key else None
        names_below = tuple((name, original) for name, original in same if original)
        return replace(source, names=names_below, unique=unique)
    if not isinstance(source, Owned):
        return source
    names: dict[str, str] = {
        column.of.name: column.name for column in columns if isinstance(column.of, Column)
    }
    kept = tuple(
        Grouped(frozenset(names[key] for key in bound.keys), bound.groups, bound.rows)
        for bound in source.grouped
        if bound.keys <= set(names)
    )
    return replace(source, grouped=kept, degrees=None)


def _read_original(expression: object) -> str | None:
    """The column that a public column is, or whose labels it shows: two rows agree on both or on
    neither."""
    match expression:
        case Column(name) | Call("label", (Column(name),)):
            return name
    return None


def project_columns(
    source: Columns,
    columns: tuple[Named, ...],
    find_domain: Callable[[Expression, Columns], Domain] = domain_of,
) -> Columns:
    """Compute the domain of each expression, by interval arithmetic if nothing else is given.

    A column that is passed on keeps its own.
    """
    domains: Columns = {}
    for column in columns:
        check_name(column.name, domains)
        if not isinstance(column.of, (Column, Value, Call)):
            raise RefusedError("a projection holds expressions", rule=PrivacyRule.NO_RULE)
        domains[column.name] = find_domain(column.of, source)
    if not domains:
        raise RefusedError("a projection without columns", rule=PrivacyRule.NO_RULE)
    return domains
