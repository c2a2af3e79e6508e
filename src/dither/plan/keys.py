"""Shapes and keys of a query: which keys a GROUP BY returns, and within which bounds an aggregate's
argument lies.

From the catalog and the public facts of the version alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from dither.errors import RefusedError
from dither.plan.domain import Columns, Domain
from dither.rules import PrivacyRule

MAX_CELLS = 1_000_000


@dataclass(frozen=True)
class Interval:
    """Grid integers from low to high, both included."""

    low: int
    high: int

    @property
    def largest(self) -> int:
        """The largest absolute value."""
        return max(abs(self.low), abs(self.high))


def bounds_in(column: str, columns: Columns) -> Interval:
    """Return the bounds of a column in grid steps. Raises RefusedError where it is no number."""
    if column not in columns or columns[column].kind not in (
        "number",
        "boolean",
        "date",
        "timestamp",
    ):
        raise RefusedError(f"{column} is no number", rule=PrivacyRule.BOUNDS)
    return Interval(columns[column].low, columns[column].high)


@dataclass(frozen=True)
class KeyDomain:
    """The keys of one GROUP BY column in the order of their codes; the last is NULL if nulls are
    kept.

    A row's code is its registered value minus `first`; null has the code after all others.
    """

    column: str
    first: int
    size: int
    has_null: bool

    @property
    def codes(self) -> int:
        return self.size + self.has_null


def list_keys(name: str, domain: Domain) -> KeyDomain:
    """Return the listed values of a key, as a range of codes.

    Raises RefusedError for ids, texts and undeclared labels, which have no list.
    """
    if domain.kind == "id":
        raise RefusedError(
            f"{name} cannot be grouped by: it names people or rows", rule=PrivacyRule.IDS_NEVER_READ
        )
    if domain.undeclared:
        raise RefusedError(f"{name} has no list of keys", rule=PrivacyRule.KEY_SELECTION)
    if domain.kind == "text":
        raise RefusedError(
            f"{name} cannot be grouped by: a text has no list of keys", rule=PrivacyRule.ALL_KEYS
        )
    first, last = domain.listed
    return KeyDomain(name, first, last - first + 1, domain.nullable)


def open_keys_in(keys: tuple[str, ...], columns: Columns) -> tuple[str, ...]:
    """List the keys that have no declared list of values.

    Raises RefusedError for a key that is no column, or named twice.
    """
    for name in keys:
        if name not in columns:
            raise RefusedError(f"no column {name} to group by", rule=PrivacyRule.DECLARED_NAMES)
    if len(set(keys)) != len(keys):
        raise RefusedError("a key twice", rule=PrivacyRule.PLAIN_NAMES)
    return tuple(name for name in keys if columns[name].undeclared)


def key_domains_in(keys: tuple[str, ...], columns: Columns) -> tuple[KeyDomain, ...]:
    """List the domains of the keys that have a declared list, in order.

    Raises RefusedError where they make more than MAX_CELLS cells.
    """
    unlisted = open_keys_in(keys, columns)
    domains = tuple(list_keys(name, columns[name]) for name in keys if name not in unlisted)
    cells = prod(domain.codes for domain in domains)
    if cells > MAX_CELLS:
        raise RefusedError(
            f"GROUP BY {', '.join(keys)} has {cells} declared keys: at most {MAX_CELLS} are "
            f"returned. "
            "Group by a coarser column",
            rule=PrivacyRule.ALL_KEYS,
        )
    return domains
