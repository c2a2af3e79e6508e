"""GROUP BY owner: exact aggregates inside a unit. Proof: docs/proofs/stability.md#per-unit."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from dither.errors import RefusedError
from dither.plan.aggregates import aggregate_domain
from dither.plan.algebra import Count, Maximum, Minimum, Named
from dither.plan.domain import Columns, check_name, is_stored
from dither.plan.stability.owned import Grouped, Node, Owned
from dither.rules import PrivacyRule


def per_unit_rows(source: Node, keys: tuple[str, ...], columns: Columns) -> Owned:
    """Bound the rows of one unit after an aggregate per unit: one row per owner and key.

    That is one row without keys, else no more than rows, groups, or values that the keys have.

    >>> per_unit_rows(Owned(20, most=100), (), {}).rows
    1
    """
    if not isinstance(source, Owned):
        raise RefusedError(
            "aggregates per unit of rows without an owner", rule=PrivacyRule.LOST_OWNER
        )
    values = (
        prod(_values(columns, key) for key in keys)
        if all(is_stored(columns[key]) for key in keys)
        else source.rows
    )
    rows = min(source.groups(keys), values) if keys else 1
    return Owned(rows, most=source.most, grouped=(Grouped(frozenset(keys), rows, 1),))


def _values(columns: Columns, key: str) -> int:
    first, last = columns[key].listed
    return last - first + 1 + columns[key].nullable


def per_unit_columns(
    source: Columns, keys: tuple[str, ...], named: tuple[Named, ...], rows: int
) -> Columns:
    """Return the columns after an aggregate per unit.

    Keys keep their domain; an aggregate of at most `rows` rows has bounds that follow.
    """
    columns = {key: source[key] for key in keys}
    for column in named:
        check_name(column.name, columns)
        columns[column.name] = aggregate_domain(column.of, source, rows)
    return columns


def total_columns(
    source: Columns, keys: tuple[str, ...], named: tuple[Named, ...], rows: int
) -> Columns:
    """Return the columns of a total of public rows, of which there may be none.

    A count is then 0, a least and a largest value are null.
    """
    columns = per_unit_columns(source, keys, named, rows)
    for column in named:
        domain = columns[column.name]
        if isinstance(column.of, Count):
            columns[column.name] = replace(domain, low=0)
        elif isinstance(column.of, (Minimum, Maximum)):
            columns[column.name] = replace(domain, nullable=True)
    return columns
