"""Joins: private with public, or the rows of one owner with each other. Proof:
docs/proofs/stability.md#join."""

from __future__ import annotations

from dataclasses import replace

from dither.errors import RefusedError
from dither.plan.domain import Columns, Domain, check_name
from dither.plan.facts import Facts
from dither.plan.stability.owned import Node, Owned, Public
from dither.rules import PrivacyRule


def join_rows(
    left: Node, right: Node, kind: str, *, right_per_left: int, left_per_right: int
) -> Owned:
    """Bound the rows of one unit after a join.

    They are what each left row finds, and no more than what each right row finds. `right_per_left`
    bounds the matches of one left row: the multiplicity of a public key, 1 where uniqueness per
    owner is enforced, else all rows that the unit has on the right. Raises RefusedError where an
    input has lost its owner.

    >>> join_rows(Owned(2, most=10), Public("counties"), "left", right_per_left=3,
    ...     left_per_right=0).rows
    6
    >>> join_rows(Owned(20), Owned(5), "inner", right_per_left=5, left_per_right=1).rows
    5
    >>> join_rows(Owned(20), Owned(5), "left", right_per_left=5, left_per_right=1).rows
    25
    """
    if not isinstance(left, Owned):
        raise RefusedError(
            "the left side of a join has no owner any more", rule=PrivacyRule.OWNERS_APART
        )
    matches = right_per_left if kind == "inner" else max(1, right_per_left)
    if isinstance(right, Public):
        return Owned(left.rows * matches, left.distinct * matches, left.most * matches)
    if not isinstance(right, Owned):
        raise RefusedError(
            "the right side of a join has no owner any more", rule=PrivacyRule.OWNERS_APART
        )
    kept = 0 if kind == "inner" else left.rows
    rows = min(left.rows * matches, kept + right.rows * left_per_right)
    distinct = min(
        rows,
        left.distinct * max(1, right.distinct)
        if kind == "left"
        else left.distinct * right.distinct,
    )
    return Owned(rows, distinct, left.most * matches)


def join_public_total(left: Public, right: Public, columns: tuple[str, ...]) -> Public:
    """Public rows, each with the one row of a public total: the same in every database.

    `columns` are those of the left, which stay what they are. Raises RefusedError for any other
    public input on the right.
    """
    if right.unique != frozenset():
        raise RefusedError(
            "a join of two public tables comes after the private one",
            rule=PrivacyRule.OWNERS_APART,
        )
    names = tuple((name, original) for name in columns if (original := left.original(name)))
    return Public(left.table, names, left.unique)


def count_public_matches(right: Public, keys: tuple[str, ...], facts: Facts) -> int:
    """Bound how many rows of a public table can share a value of the columns it is joined by.

    A filter may have left few values of other columns: rows share a value of both for each of them.
    """
    if right.unique is not None and right.unique <= set(keys):
        return 1
    originals = tuple(original for key in keys if (original := right.original(key)))
    return facts.multiplicity(right.table, originals, dict(right.values))


def join_columns(
    left: Columns, right: Columns, on: tuple[tuple[str, str], ...], kind: str
) -> Columns:
    """Return the columns of both inputs of a join.

    A right one paired with one of its own name is left out. Raises RefusedError for other equal
    names, and for keys that cannot be compared.
    """
    for left_key, right_key in on:
        if left_key not in left or right_key not in right:
            raise RefusedError(
                f"a join by {left_key} = {right_key}, which are no columns",
                rule=PrivacyRule.DECLARED_NAMES,
            )
        if not comparable(left[left_key], right[right_key]):
            raise RefusedError(
                f"{left_key} and {right_key} are of different kinds", rule=PrivacyRule.TYPES
            )
    paired = {right_key for left_key, right_key in on if left_key == right_key}
    columns = dict(left)
    for name, domain in right.items():
        if name in paired:
            continue
        check_name(name, columns)
        labels = () if domain.kind == "text" else domain.labels
        columns[name] = replace(domain, nullable=domain.nullable or kind == "left", labels=labels)
    return columns


def comparable(left: Domain, right: Domain) -> bool:
    """Whether equal stored values mean the same. Labels of a public list meet the text column they
    come from, and a text any text."""
    if left.kind == "category" and right.kind == "text":
        return right.labels != () and left.labels[: len(right.labels)] == right.labels
    return left.kind == right.kind == "text" or (
        (left.kind, left.step, left.labels) == (right.kind, right.step, right.labels)
    )
