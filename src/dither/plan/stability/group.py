"""GROUP BY without the owner, inside a plan. Proof: docs/proofs/stability.md#group."""

from __future__ import annotations

from dither.errors import RefusedError
from dither.plan.domain import Columns, is_stored
from dither.plan.facts import Facts
from dither.plan.stability.owned import Loose, Node, Owned, Public
from dither.rules import PrivacyRule

MOST_PUBLIC_ROWS = 10**9
"""How many rows of a public table an aggregate is taken to have where its facts do not say it.
Lowering moves every aggregate into the bounds that follow."""


def group_rows(source: Node, keys: tuple[str, ...]) -> Loose:
    """Bound the rows that one unit changes after GROUP BY; nobody owns them.

    Each group that a unit touches may lose its old row and gain a new one: twice the groups. Raises
    RefusedError without keys, and for a public table (`group_public`).

    >>> group_rows(Owned(3, most=50), ("county",))
    Loose(rows=6, most=50)
    """
    if isinstance(source, Public):
        raise RefusedError("GROUP BY of a public table alone", rule=PrivacyRule.NO_RULE)
    if not keys:
        raise RefusedError("a grand total inside a plan", rule=PrivacyRule.TOTALS)
    touched = source.groups(keys) if isinstance(source, Owned) else source.rows
    return Loose(2 * touched, source.most)


def group_public(source: Public, keys: tuple[str, ...]) -> Public:
    """One row per value of the keys of a public table: no two rows share them.

    Without keys it is one row, also over no rows.

    >>> group_public(Public("wards"), ("level",)).unique
    frozenset({'level'})
    """
    names = tuple((key, original) for key in keys if (original := source.original(key)))
    return Public(source.table, names, frozenset(keys))


def check_public_keys(keys: tuple[str, ...], columns: Columns) -> None:
    """Raise RefusedError for a key that is no column of the public rows."""
    for key in keys:
        if key not in columns:
            raise RefusedError(f"no column {key}", rule=PrivacyRule.DECLARED_NAMES)


def bound_public_rows(source: Public, columns: Columns, facts: Facts) -> int:
    """Bound the rows of a public table by the values of one of its columns, and how often each
    occurs.

    A null occurs any number of times, so that a column with nulls bounds nothing.
    """
    bounds = [MOST_PUBLIC_ROWS]
    for name, domain in columns.items():
        original = source.original(name)
        if original is None or domain.nullable:
            continue
        values = domain.high - domain.low + 1 if is_stored(domain) else len(domain.labels)
        is_counted = (source.table, (original,)) in {
            (table, key) for table, key, _ in facts.multiplicities
        }
        if values and is_counted:
            bounds.append(values * facts.multiplicity(source.table, (original,)))
    return max(1, min(bounds))
